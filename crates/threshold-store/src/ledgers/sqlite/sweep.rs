//! Forgetting what need not be kept, a little at a time: writers wait for one chunk at most.

use rusqlite::{Connection, Result, TransactionBehavior};
use threshold_core::ledger::Retention;
use threshold_core::{Span, StoreError, Timestamp};

use super::codec::Col;
use crate::sqlite::error::failed;

/// The most rows of one class that are dropped in one transaction.
const CHUNK: usize = 1_000;

/// Each class: its table, its key, and from when on a row is kept for its span.
const CLASSES: [(&str, &str, &str); 9] = [
    ("windows", "subject, limit_id", "until"),
    ("standings", "subject", "last_seen"),
    ("violations", "id", "at"),
    ("sanctions", "id", "coalesce(lifted_at, until)"),
    ("overrides", "id", "removed_at"),
    ("tenants", "subject", "removed_at"),
    ("failures", "source", "failed_at"),
    ("devices", "account, device", "used"),
    ("audit", "id", "at"),
];

/// A sweep that is under way.
pub(super) struct Sweep {
    now: Timestamp,
    /// How long each class is kept, in their order.
    spans: [Span; CLASSES.len()],
    dropped: usize,
}

impl Sweep {
    pub(super) fn new(now: Timestamp, kept: &Retention) -> Self {
        let spans = [
            Span::ZERO,
            kept.standings,
            kept.violations,
            kept.sanctions,
            kept.removed,
            kept.removed,
            kept.failures,
            kept.devices,
            kept.audit,
        ];
        Self { now, spans, dropped: 0 }
    }

    /// Drops a chunk of each class; says how much was dropped in all once there is nothing more to drop.
    pub(super) fn go_on(&mut self, connection: &mut Connection) -> Result<Option<usize>, StoreError> {
        let (dropped, more) = self.chunk(connection).map_err(failed("sweep the ledger"))?;
        self.dropped += dropped;
        Ok((!more).then_some(self.dropped))
    }

    fn chunk(&self, connection: &mut Connection) -> Result<(usize, bool)> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let (mut all, mut more) = (0, false);
        for ((table, key, since), span) in CLASSES.iter().zip(self.spans) {
            let Some(last) = last_dropped(self.now, span) else { continue };
            let old = format!("SELECT {key} FROM {table} WHERE {since} <= ? LIMIT {CHUNK}");
            let sql = format!("DELETE FROM {table} WHERE ({key}) IN ({old})");
            let dropped = transaction.prepare_cached(&sql)?.execute([Col(last)])?;
            all += dropped;
            more |= dropped == CHUNK;
        }
        transaction.commit()?;
        Ok((all, more))
    }
}

/// The latest time from which `span` is over at `now`; none if there is no such time.
fn last_dropped(now: Timestamp, span: Span) -> Option<Timestamp> {
    // No time is later than the last one, so at that time everything is over.
    let last = (now == Timestamp::MAX).then_some(now);
    last.or_else(|| now.as_micros().checked_sub(span.as_micros()).map(Timestamp::from_micros))
}
