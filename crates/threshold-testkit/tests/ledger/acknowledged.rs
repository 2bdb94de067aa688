//! What a victim said was acknowledged, and whether it is there.

use std::path::Path;

use threshold_core::ledger::{Query, Record};
use threshold_core::{Ledger, Secret, SubjectId};
use threshold_store::SqliteLedger;
use threshold_testkit::ledger_contract::read_all;

/// Opens the ledger of a victim that is gone, and makes sure that SQLite finds nothing wrong with it.
pub(crate) fn reopen(path: &Path) -> SqliteLedger {
    let ledger = SqliteLedger::open(path, &Secret::new([7; 16]), None).expect("the ledger opens again");
    let connection = rusqlite::Connection::open(path).expect("it is a database");
    let found: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it can be checked");
    assert_eq!(found, "ok", "the file is sound");
    ledger
}

/// Fails unless everything that the lines say was written is there.
pub(crate) async fn check(ledger: &SqliteLedger, lines: &[String]) {
    let overrides = read(ledger, Query::Overrides { after: 0 }).await;
    for line in lines {
        let found = match line.split(' ').collect::<Vec<_>>()[..] {
            ["strike", subject, at] => {
                let query = Query::Violations { subject: Some(id(subject)), after: 0 };
                read(ledger, query).await.iter().any(
                    |record| matches!(record, Record::Violation(found) if found.at.as_micros() == number(at)),
                )
            }
            ["strikes", subject, strikes] => {
                read(ledger, Query::Standing(id(subject))).await.iter().any(|record| {
                    matches!(record, Record::Standing(found)
                        if u64::from(found.strikes.parts().0) >= number(strikes))
                })
            }
            ["sanction", subject, kind, until] => {
                let query = Query::Sanctions { subject: Some(id(subject)), active_at: None, after: 0 };
                read(ledger, query).await.iter().any(|record| {
                    matches!(record, Record::Sanction(found)
                        if found.kind.name() == kind && found.until.as_micros() >= number(until))
                })
            }
            ["override", id, allowance] => overrides.iter().any(|record| {
                matches!(record, Record::Override { change, .. }
                    if change.id == id && change.burst_allowance == number(allowance))
            }),
            _ => panic!("a victim said {line:?}"),
        };
        assert!(found, "acknowledged, and not there: {line}");
    }
}

async fn read(ledger: &impl Ledger, query: Query) -> Vec<Record> {
    read_all(ledger, query).await.expect("the ledger reads")
}

fn id(text: &str) -> SubjectId {
    text.parse().expect("a subject")
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}
