//! Who is locked out of which account.

use serde_json::{Value as Json, json};
use threshold::ledger::{Change, Query, Record};
use threshold_http::Answer;

use super::ask;
use super::call::{Call, Plain, failed, whom};
use crate::documents;

/// Those that are in force.
pub(super) async fn list(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&["client", "limit", "after"])?;
    let at = call.admin.engine.now();
    let subjects = call.filter(Plain::Account)?;
    let query = |account, after| Query::Lockouts { at, account, after };
    let told = |record: &Record| match record {
        Record::Failures(failures) => Some(documents::lockout(failures)),
        _ => None,
    };
    call.page(&subjects, query, told).await
}

/// Forgets failed logins, of an account or of one source.
pub(super) async fn lift(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let mut subjects = Vec::new();
    for subject in call.ids(&whom(call.name(), Plain::Account)?) {
        let change = Change::Unlock(subject);
        if ask::operate(&*call.admin.engine, call.by(), change).await.map_err(failed)? {
            subjects.push(subject.to_string());
        }
    }
    Ok(json!({ "changed": !subjects.is_empty(), "subjects": subjects }))
}
