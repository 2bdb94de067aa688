//! What is done for each command.

mod analytics;
mod bans;
mod check;
mod doctor;
mod export;
mod import;
mod init;
mod ledger;
mod lockouts;
mod overrides;
mod schema;
mod serve;

pub(crate) use analytics::analytics;
pub(crate) use bans::bans;
pub(crate) use check::check;
pub(crate) use doctor::doctor;
pub(crate) use export::export;
pub(crate) use import::import;
pub(crate) use init::init;
pub(crate) use lockouts::lockouts;
pub(crate) use overrides::overrides;
pub(crate) use schema::schema;
pub(crate) use serve::serve;
