//! What is done for each command.

mod check;
mod schema;

pub(crate) use check::check;
pub(crate) use schema::schema;
