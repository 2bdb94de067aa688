//! What is done for each command.

mod admin;
mod analytics;
mod bans;
mod check;
mod demo;
mod doctor;
mod erase;
mod export;
mod import;
mod init;
mod ledger;
mod lockouts;
mod overrides;
mod policy;
mod schema;
mod serve;
mod served;
mod token;
mod top;

pub(crate) use admin::{audit, maintenance, status};
pub(crate) use analytics::{Counts, Scale, analytics, average, count_clients, count_rates};
pub(crate) use bans::bans;
pub(crate) use check::{broken_report, check, report_of as report};
pub(crate) use demo::demo;
pub(crate) use doctor::doctor;
pub(crate) use erase::erase;
pub(crate) use export::export;
pub(crate) use import::import;
pub(crate) use init::init;
pub(crate) use lockouts::lockouts;
pub(crate) use overrides::overrides;
pub(crate) use policy::policy;
pub(crate) use schema::schema;
pub(crate) use serve::serve;
pub(crate) use token::token;
pub(crate) use top::top;
