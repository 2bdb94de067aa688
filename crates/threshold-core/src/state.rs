//! What a store keeps for one key.
//!
//! Three algorithms fit into one [`Cell`] of 128 bits; the sliding log and concurrency need a list. Every
//! state knows when it expires: from then on it equals no state at all, so a store may drop it and lose
//! nothing.

use std::collections::VecDeque;

use crate::batch::PermitId;

/// The widest value of each of a cell's two counters.
pub(crate) const COUNTER_MAX: u64 = (1 << 38) - 1;

/// The state of a token bucket or a window in 128 bits: an instant of 52 bits and two counters of 38.
///
/// The instant is the last one at which the state still matters. What the counters mean is the algorithm's
/// business. All zero is the state of a key that was never seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cell(u128);

impl Cell {
    /// The state of a key that was never seen.
    pub const EMPTY: Self = Self(0);

    /// Packs an instant and two counters. The algorithms bound all three when they are built.
    #[inline]
    pub(crate) fn pack(at: u64, first: u64, second: u64) -> Self {
        debug_assert!(at < 1 << 52 && first <= COUNTER_MAX && second <= COUNTER_MAX);
        Self(u128::from(at) << 76 | u128::from(first) << 38 | u128::from(second))
    }

    /// Packs an instant and one wide counter.
    #[inline]
    pub(crate) fn pack_wide(at: u64, counter: u64) -> Self {
        debug_assert!(at < 1 << 52);
        Self(u128::from(at) << 76 | u128::from(counter))
    }

    /// [`Cell::pack`] of what was read from elsewhere; none if it does not fit.
    pub(crate) fn checked(at: u64, first: u64, second: u64) -> Option<Self> {
        let fits = at < 1 << 52 && first <= COUNTER_MAX && second <= COUNTER_MAX;
        fits.then(|| Self::pack(at, first, second))
    }

    /// [`Cell::pack_wide`] of what was read from elsewhere; none if it does not fit.
    pub(crate) fn checked_wide(at: u64, counter: u64) -> Option<Self> {
        (at < 1 << 52).then(|| Self::pack_wide(at, counter))
    }

    #[inline]
    pub(crate) const fn at(self) -> u64 {
        (self.0 >> 76) as u64
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the counter is cut out on purpose")]
    pub(crate) const fn first(self) -> u64 {
        (self.0 >> 38) as u64 & COUNTER_MAX
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the counter is cut out on purpose")]
    pub(crate) const fn second(self) -> u64 {
        self.0 as u64 & COUNTER_MAX
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a wide counter is packed from 64 bits")]
    pub(crate) const fn wide(self) -> u64 {
        self.0 as u64
    }

    /// True for the state of a key that was never seen.
    #[must_use]
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True once the state equals no state: dropping it then changes no later decision.
    #[must_use]
    #[inline]
    pub const fn is_expired(self, now_micros: u64) -> bool {
        self.at() < now_micros
    }

    /// The cell as two words, low then high, for storing.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "each half is cut out on purpose")]
    pub const fn to_words(self) -> [u64; 2] {
        [self.0 as u64, (self.0 >> 64) as u64]
    }

    /// The cell that [`Cell::to_words`] took apart.
    #[must_use]
    #[inline]
    pub const fn from_words([low, high]: [u64; 2]) -> Self {
        Self(low as u128 | (high as u128) << 64)
    }
}

/// One admission in a [`Log`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it was admitted, in microseconds since the epoch.
    pub at: u64,
    /// What it cost.
    pub cost: u64,
}

/// The admissions of a sliding log, oldest first.
///
/// A log may be told to [merge](Log::merge): it then keeps one entry, the sum of all at the time of the
/// latest. Such a log remembers too much for too long, so it may refuse more and never admits more; a store
/// that has no room for another entry uses this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    entries: VecDeque<Entry>,
    /// What all entries cost together; summing up ten thousand of them for each decision would show.
    cost: u64,
    merged: bool,
    /// The instant from which the log equals no log.
    expires: u64,
}

/// What undoes one [`Log::push`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogUndo {
    cost: u64,
    /// The entry that the push joined, as it was before.
    last: Option<Entry>,
    expires: u64,
    /// Whether the log was merged before and after the push.
    merged: (bool, bool),
}

impl Log {
    /// A log read back from where it was kept: its entries, oldest first, and when it equals no log.
    #[must_use]
    pub fn from_entries(entries: impl IntoIterator<Item = Entry>, expires: u64) -> Self {
        let entries: VecDeque<Entry> = entries.into_iter().collect();
        let cost = entries.iter().map(|entry| entry.cost).sum();
        Self { entries, cost, merged: false, expires }
    }

    /// The instant from which the log equals no log, in microseconds since the epoch.
    #[must_use]
    pub const fn expires(&self) -> u64 {
        self.expires
    }

    /// The entries, oldest first.
    #[must_use]
    pub fn entries(&self) -> &VecDeque<Entry> {
        &self.entries
    }

    /// What all entries cost together.
    #[must_use]
    pub const fn cost(&self) -> u64 {
        self.cost
    }

    /// True once the log equals no log.
    #[must_use]
    pub fn is_expired(&self, now_micros: u64) -> bool {
        self.entries.is_empty() || self.expires < now_micros
    }

    /// Entries the log can hold without taking more memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Makes room for `more` entries beyond those held.
    pub fn reserve(&mut self, more: usize) {
        self.entries.reserve_exact(more);
    }

    /// Folds all entries into one and goes on that way: safe where memory is short, stricter than needed.
    pub fn merge(&mut self) {
        if let Some(last) = self.entries.back().copied() {
            self.entries.clear();
            self.entries.push_back(Entry { at: last.at, cost: self.cost });
            // Room for the next entry too, which stands beside this one once it has expired.
            self.entries.shrink_to(2);
        }
        self.merged = true;
    }

    /// Starts this new log from what a shared one remembers: as one entry, so it fits anywhere.
    pub fn inherit(&mut self, shared: Option<&Self>) {
        if let Some((shared, last)) = shared.and_then(|shared| Some((shared, shared.entries.back()?))) {
            self.push(Entry { at: last.at, cost: shared.cost }, None, shared.expires);
        }
    }

    /// True if the log keeps one entry only.
    #[must_use]
    pub const fn is_merged(&self) -> bool {
        self.merged
    }

    /// The earliest instant that `now` may be taken for: time does not go back behind an admission.
    pub(crate) fn not_before(&self, now: u64) -> u64 {
        self.entries.back().map_or(now, |last| now.max(last.at))
    }

    /// What the entries after `last_gone` cost.
    pub(crate) fn cost_after(&self, last_gone: u64) -> u64 {
        let gone = self.entries.iter().take_while(|entry| entry.at <= last_gone);
        self.cost - gone.map(|entry| entry.cost).sum::<u64>()
    }

    /// Forgets the entries of `last_gone` and earlier.
    pub(crate) fn forget(&mut self, last_gone: u64) {
        while let Some(entry) = self.entries.front().filter(|entry| entry.at <= last_gone) {
            self.cost -= entry.cost;
            self.entries.pop_front();
        }
    }

    /// Adds an admission, which stops counting at `expires` and before which all up to `last_gone` has expired.
    pub(crate) fn push(&mut self, entry: Entry, last_gone: Option<u64>, expires: u64) -> LogUndo {
        let was_merged = self.merged;
        let expires = std::mem::replace(&mut self.expires, expires);
        self.cost += entry.cost;
        let counts = |last: &&mut Entry| last_gone.is_none_or(|gone| last.at > gone);
        let last = match self.entries.back_mut().filter(counts) {
            Some(last) if was_merged || last.at == entry.at => {
                let before = *last;
                *last = Entry { at: entry.at, cost: before.cost + entry.cost };
                Some(before)
            }
            other => {
                // Nothing that counts is left to be merged with: the log is exact again.
                self.merged = was_merged && other.is_some();
                self.entries.push_back(entry);
                None
            }
        };
        LogUndo { cost: entry.cost, last, expires, merged: (was_merged, self.merged) }
    }

    /// Takes the latest [`Log::push`] back.
    pub(crate) fn undo(&mut self, undo: LogUndo) {
        self.cost -= undo.cost;
        if self.merged != undo.merged.1 {
            // Merged since: what it was before is gone, so only the cost is taken back.
            self.entries.iter_mut().for_each(|entry| entry.cost -= undo.cost);
            self.entries.retain(|entry| entry.cost > 0);
            return;
        }
        self.entries.pop_back();
        self.entries.extend(undo.last);
        (self.expires, self.merged) = (undo.expires, undo.merged.0);
    }

    /// Takes back up to `cost` of what was admitted at `at`.
    pub(crate) fn refund(&mut self, at: u64, cost: u64) {
        if self.merged {
            return;
        }
        if let Ok(index) = self.entries.binary_search_by_key(&at, |entry| entry.at) {
            let entry = &mut self.entries[index];
            let back = cost.min(entry.cost);
            entry.cost -= back;
            self.cost -= back;
            if entry.cost == 0 {
                self.entries.remove(index);
            }
        }
    }
}

/// One held permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Who holds it.
    pub id: PermitId,
    /// When it lapses unless it is renewed, in microseconds since the epoch.
    pub expires: u64,
    /// How much of the limit it takes.
    pub cost: u64,
}

/// The permits of a concurrency limit that are out, the first to lapse first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    held: Vec<Permit>,
    /// When the last of all that were ever taken lapses. Not lowered by a release, which may be taken back: the
    /// list must still be there then.
    expires: u64,
}

impl Permits {
    /// Permits read back from where they were kept, in any order, and when the last that was ever taken lapses.
    #[must_use]
    pub fn from_held(held: impl IntoIterator<Item = Permit>, expires: u64) -> Self {
        let mut held: Vec<Permit> = held.into_iter().collect();
        held.sort_by_key(|permit| permit.expires);
        Self { held, expires }
    }

    /// When the last that was ever taken lapses, in microseconds since the epoch.
    #[must_use]
    pub const fn expires(&self) -> u64 {
        self.expires
    }

    /// The permits that are out, the first to lapse first; some may have lapsed.
    #[must_use]
    pub fn held(&self) -> &[Permit] {
        &self.held
    }

    /// True once every permit that was ever taken has lapsed.
    #[must_use]
    pub fn is_expired(&self, now_micros: u64) -> bool {
        self.expires <= now_micros
    }

    /// Permits that fit without taking more memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.held.capacity()
    }

    /// Makes room for `more` permits beyond those held.
    pub fn reserve(&mut self, more: usize) {
        self.held.reserve_exact(more);
    }

    pub(crate) fn live(&self, now: u64) -> &[Permit] {
        &self.held[self.lapsed(now)..]
    }

    /// Drops what had lapsed when the latest permit was taken or renewed: `lifetime` before that one lapses.
    pub(crate) fn drop_lapsed(&mut self, lifetime: u64) {
        let taken = self.not_before(0, lifetime);
        self.held.drain(..self.lapsed(taken));
    }

    /// The earliest instant that `now` may be taken for: time does not go back behind the latest permit, which
    /// was taken `lifetime` before it lapses.
    pub(crate) fn not_before(&self, now: u64, lifetime: u64) -> u64 {
        self.held.last().map_or(now, |latest| now.max(latest.expires.saturating_sub(lifetime)))
    }

    pub(crate) fn add(&mut self, permit: Permit) {
        self.expires = self.expires.max(permit.expires);
        self.held.insert(self.lapsed(permit.expires), permit);
    }

    pub(crate) fn remove(&mut self, id: PermitId) -> Option<Permit> {
        let index = self.held.iter().position(|permit| permit.id == id)?;
        Some(self.held.remove(index))
    }

    /// How many have lapsed by `now`.
    fn lapsed(&self, now: u64) -> usize {
        self.held.partition_point(|permit| permit.expires <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_gives_back_what_was_packed() {
        let cell = Cell::pack((1 << 52) - 1, COUNTER_MAX, COUNTER_MAX - 1);
        assert_eq!((cell.at(), cell.first(), cell.second()), ((1 << 52) - 1, COUNTER_MAX, COUNTER_MAX - 1));
        assert_eq!(Cell::from_words(cell.to_words()), cell);
        assert_eq!(Cell::pack_wide(5, 1 << 52).wide(), 1 << 52);
    }

    #[test]
    fn a_merged_log_never_counts_less_than_the_full_one() {
        let mut log = Log::default();
        log.push(Entry { at: 10, cost: 2 }, None, 110);
        log.push(Entry { at: 20, cost: 3 }, None, 120);
        log.merge();
        assert_eq!(log.entries(), &[Entry { at: 20, cost: 5 }]);
        log.push(Entry { at: 30, cost: 1 }, None, 130);
        assert_eq!(log.entries(), &[Entry { at: 30, cost: 6 }]);
    }

    #[test]
    fn undo_after_a_merge_takes_back_the_cost_alone() {
        let mut log = Log::default();
        log.push(Entry { at: 10, cost: 2 }, None, 110);
        let undo = log.push(Entry { at: 20, cost: 3 }, None, 120);
        log.merge();
        log.undo(undo);
        assert_eq!(log.entries(), &[Entry { at: 20, cost: 2 }]);
    }

    #[test]
    fn undo_leaves_a_log_as_it_was() {
        for merged in [false, true] {
            let mut log = Log::default();
            log.push(Entry { at: 10, cost: 2 }, None, 110);
            if merged {
                log.merge();
            }
            for at in [10, 11] {
                let before = log.clone();
                let undo = log.push(Entry { at, cost: 1 }, None, at + 100);
                log.undo(undo);
                assert_eq!(log, before);
            }
        }
    }
}
