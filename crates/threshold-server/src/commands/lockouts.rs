//! `threshold lockouts`: who is locked out of which account.

use serde_json::json;
use threshold::ledger::{Change, Failures, Query, Record};
use threshold::{SubjectId, Timestamp};

use super::ledger::{Desk, Failed, ended, on_ledger};
use super::served;
use crate::Ended;
use crate::cli::{Lockouts, LockoutsLift, LockoutsList};
use crate::config::{self, Access};
use crate::documents;
use crate::output::{Output, left, table};

/// Does what is asked about lockouts.
pub(crate) fn lockouts(lockouts: &Lockouts, output: &mut Output) -> Ended {
    if let Some(ended) = served::lockouts(lockouts, output) {
        return ended;
    }
    match lockouts {
        Lockouts::List(asked) => {
            on_ledger(&asked.listing.place, Access::Existing, output, async |desk| list(asked, desk).await)
        }
        Lockouts::Lift(asked) => {
            on_ledger(&asked.acting.place, Access::Existing, output, async |desk| lift(asked, desk).await)
        }
    }
}

async fn list(asked: &LockoutsList, mut desk: Desk<'_>) -> Result<Ended, Failed> {
    let now = desk.source.now();
    let accounts: Vec<Option<SubjectId>> = match asked.whom() {
        Some(whom) => desk.source.ids(&whom).into_iter().map(Some).collect(),
        None => vec![None],
    };
    let mut locked: Vec<Failures> = Vec::new();
    for account in accounts {
        let records = desk.source.read(|after| Query::Lockouts { at: now, account, after }).await?;
        let failures = |record| if let Record::Failures(failures) = record { Some(failures) } else { None };
        locked.extend(records.into_iter().filter_map(failures));
    }
    if asked.listing.json {
        desk.json(&locked.iter().map(documents::lockout).collect());
    } else if locked.is_empty() {
        desk.line("Nobody is locked out.");
    } else {
        let rows: Vec<_> = locked.iter().map(|failures| row(failures, now)).collect();
        table(["ACCOUNT", "SOURCE", "FAILURES", "UNTIL"], &rows, desk.output);
    }
    Ok(Ended::Well)
}

async fn lift(asked: &LockoutsLift, mut desk: Desk<'_>) -> Result<Ended, Failed> {
    let (by, at) = (config::operator(asked.acting.by.as_deref())?, desk.source.now());
    let whom = asked.whom().ok_or_else(|| "nobody is named; give --account or --subject".to_owned())?;
    let subjects = desk.source.ids(&whom);
    let changes = subjects.iter().map(|subject| Change::Unlock(*subject)).collect();
    let changed = desk.source.change((&by, at), changes).await?;
    let different: Vec<String> = subjects
        .iter()
        .zip(changed)
        .filter(|(_, changed)| *changed)
        .map(|(subject, _)| subject.to_string())
        .collect();
    let any = !different.is_empty();
    if asked.acting.json {
        desk.json(&json!({ "changed": any, "subjects": different }));
    } else if any {
        desk.line(&format!("forgot the failed logins of {}", different.join(" and ")));
    } else if let Some(subject) = subjects.first() {
        desk.line(&format!("nothing to lift for {subject}"));
    }
    Ok(ended(any))
}

fn row(failures: &Failures, now: Timestamp) -> [String; 4] {
    let until = format!("{} ({})", failures.locked_until, left(failures.locked_until, now));
    [failures.account.to_string(), failures.source.to_string(), failures.tally.parts().0.to_string(), until]
}
