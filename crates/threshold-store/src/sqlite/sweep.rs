//! Dropping expired states a page at a time: whoever asks meanwhile waits for one page at most.

use rusqlite::{Connection, params};
use threshold_core::{StoreError, Swept, Timestamp};

use super::codec;
use super::error::failed;
use super::states::DROP;
use super::writer::run;

/// The most states that are looked at in one transaction.
const PAGE: usize = 1_000;

/// A sweep that is under way. It goes through the keys in their order, from where the last one stopped, round to there
/// again at most.
pub(super) struct Sweep {
    /// How many states it may still look at.
    left: usize,
    began: u128,
    from: u128,
    /// True once it has gone round the end.
    round: bool,
    over: bool,
    swept: Swept,
}

impl Sweep {
    pub(super) fn new(budget: usize, from: u128) -> Self {
        Self { left: budget, began: from, from, round: false, over: budget == 0, swept: Swept::default() }
    }

    pub(super) const fn is_over(&self) -> bool {
        self.over
    }

    pub(super) const fn swept(&self) -> Swept {
        self.swept
    }

    /// Drops what is expired of the next page, within a transaction that the caller ends. Gives back the keys that were
    /// dropped and where to go on.
    pub(super) fn chunk(&mut self, on: &Connection, now: Timestamp) -> Result<(Vec<u128>, u128), StoreError> {
        run(on, "BEGIN")?;
        if self.over {
            return Ok((Vec::new(), self.from));
        }
        let wanted = self.left.min(PAGE);
        let (seen, dropped) = self.page(on, wanted, now).map_err(failed("sweep the store"))?;
        self.swept.seen += seen.len();
        self.swept.dropped += dropped.len();
        self.left -= seen.len();
        match seen.last().filter(|_| seen.len() == wanted).and_then(|last| last.checked_add(1)) {
            Some(next) => self.from = next,
            None if self.round || self.began == 0 => (self.from, self.over) = (self.began, true),
            None => (self.from, self.round) = (0, true),
        }
        self.over |= self.left == 0;
        Ok((dropped, self.from))
    }

    /// The keys of the next page, and those of them that were dropped.
    fn page(
        &self,
        on: &Connection,
        wanted: usize,
        now: Timestamp,
    ) -> rusqlite::Result<(Vec<u128>, Vec<u128>)> {
        let last = if self.round { self.began - 1 } else { u128::MAX };
        let sql = "SELECT key, head FROM states WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?";
        let mut statement = on.prepare_cached(sql)?;
        let mut rows =
            statement.query(params![self.from.to_be_bytes(), last.to_be_bytes(), wanted as i64])?;
        let (mut seen, mut expired) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next()? {
            let key = u128::from_be_bytes(row.get(0)?);
            seen.push(key);
            // A head that was never written is left for who asks about the key.
            let head = codec::head(row.get_ref(1)?);
            expired.extend(head.filter(|head| codec::is_expired(*head, now.as_micros())).map(|_| key));
        }
        let mut drop = on.prepare_cached(DROP)?;
        for key in &expired {
            drop.execute([key.to_be_bytes()])?;
        }
        Ok((seen, expired))
    }
}
