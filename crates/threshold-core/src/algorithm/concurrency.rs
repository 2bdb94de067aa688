//! Concurrency: at most `count` at the same time.
//!
//! A holder names its permit, renews it while it works and releases it when it is done. A permit whose holder
//! died lapses after its lifetime, so none leaks.

use crate::algorithm::{AlgorithmKind, LimitError, plain_count};
use crate::batch::{PermitId, Retry, Verdict};
use crate::rate::Rate;
use crate::state::{Permit, Permits};
use crate::time::Span;

/// The largest number of permits one key can have out.
pub const MAX_PERMITS: u64 = 10_000;

/// At most `count` permits out at once, each for `lifetime` unless renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    count: u64,
    lifetime: u64,
}

/// What undoes one acquisition or renewal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PermitUndo {
    /// It was new: drop it.
    Drop(PermitId),
    /// It was there before, as this.
    Restore(Permit),
}

impl Concurrency {
    /// Builds the limit: the rate's count is the number of permits, its period their lifetime.
    pub fn new(rate: &Rate) -> Result<Self, LimitError> {
        let count = plain_count(AlgorithmKind::Concurrency, rate, MAX_PERMITS)?;
        Ok(Self { count, lifetime: rate.period().as_micros() })
    }

    /// How many permits there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// How long a permit lasts without being renewed.
    #[must_use]
    pub const fn lifetime(&self) -> Span {
        Span::from_micros(self.lifetime)
    }

    /// Drops what had lapsed when the latest permit was taken or renewed. Later is too late to drop: nobody
    /// knows yet whether the time that a refused or peeked step came at will really be.
    pub fn drop_lapsed(&self, permits: &mut Permits) {
        permits.drop_lapsed(self.lifetime);
    }

    /// Takes a permit, or renews the one that `id` holds already.
    pub(crate) fn acquire(
        &self,
        permits: &mut Permits,
        (id, cost): (PermitId, u64),
        now: u64,
    ) -> (Verdict, Option<PermitUndo>) {
        let at = permits.not_before(now, self.lifetime);
        if let Some(undo) = self.extend(permits, id, at) {
            return (self.verdict(permits, now, Retry::Now), Some(undo));
        }
        if cost > self.count {
            return (self.verdict(permits, now, Retry::Never), None);
        }
        let used = used(permits, at);
        if used + cost > self.count {
            let wait = frees_at(permits, used + cost - self.count, at) - now;
            return (self.verdict(permits, now, Retry::After(Span::from_micros(wait))), None);
        }
        // One that lapsed may still stand under the same name.
        let undo = permits.remove(id).map_or(PermitUndo::Drop(id), PermitUndo::Restore);
        permits.add(Permit { id, expires: at + self.lifetime, cost });
        (self.verdict(permits, now, Retry::Now), Some(undo))
    }

    /// Renews the permit that `id` holds; refused if it has lapsed or was never taken.
    pub(crate) fn renew(
        &self,
        permits: &mut Permits,
        id: PermitId,
        now: u64,
    ) -> (Verdict, Option<PermitUndo>) {
        let undo = self.extend(permits, id, permits.not_before(now, self.lifetime));
        let retry = if undo.is_some() { Retry::Now } else { Retry::Never };
        (self.verdict(permits, now, retry), undo)
    }

    /// Gives the permit that `id` holds back; one that lapsed is back already.
    pub(crate) fn release(
        &self,
        permits: &mut Permits,
        id: PermitId,
        now: u64,
    ) -> (Verdict, Option<PermitUndo>) {
        let undo = permits.remove(id).map(PermitUndo::Restore);
        (self.verdict(permits, now, Retry::Now), undo)
    }

    fn extend(&self, permits: &mut Permits, id: PermitId, now: u64) -> Option<PermitUndo> {
        let before = *permits.live(now).iter().find(|permit| permit.id == id)?;
        permits.remove(id);
        permits.add(Permit { expires: before.expires.max(now + self.lifetime), ..before });
        Some(PermitUndo::Restore(before))
    }

    pub(crate) fn verdict(&self, permits: &Permits, now: u64, retry: Retry) -> Verdict {
        let at = permits.not_before(now, self.lifetime);
        let last = permits.live(at).last().map_or(now, |permit| permit.expires);
        Verdict {
            retry,
            limit: self.count,
            remaining: self.count.saturating_sub(used(permits, at)),
            reset: Span::from_micros(last - now),
            later: Span::ZERO,
        }
    }
}

impl PermitUndo {
    pub(crate) fn apply(self, permits: &mut Permits) {
        match self {
            Self::Drop(id) => {
                permits.remove(id);
            }
            Self::Restore(before) => {
                permits.remove(before.id);
                permits.add(before);
            }
        }
    }
}

fn used(permits: &Permits, now: u64) -> u64 {
    permits.live(now).iter().map(|permit| permit.cost).sum()
}

/// When permits worth `needed` have lapsed if nobody renews or releases.
fn frees_at(permits: &Permits, needed: u64, now: u64) -> u64 {
    let mut freed = 0;
    let last_needed = permits.live(now).iter().find(|permit| {
        freed += permit.cost;
        freed >= needed
    });
    last_needed.map_or(now, |permit| permit.expires)
}
