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

    /// Takes a permit, or renews the one that `id` holds already.
    pub(crate) fn acquire(
        &self,
        permits: &mut Permits,
        (id, cost): (PermitId, u64),
        now: u64,
    ) -> (Verdict, Option<PermitUndo>) {
        permits.drop_lapsed(now);
        if let Some(undo) = self.extend(permits, id, now) {
            return (self.verdict(permits, now, Retry::Now), Some(undo));
        }
        let used = used(permits);
        if cost > self.count {
            return (self.verdict(permits, now, Retry::Never), None);
        }
        if used + cost > self.count {
            let wait = Self::frees_at(permits, used + cost - self.count) - now;
            return (self.verdict(permits, now, Retry::After(Span::from_micros(wait))), None);
        }
        permits.add(Permit { id, expires: now + self.lifetime, cost });
        (self.verdict(permits, now, Retry::Now), Some(PermitUndo::Drop(id)))
    }

    /// Renews the permit that `id` holds; refused if it has lapsed or was never taken.
    pub(crate) fn renew(
        &self,
        permits: &mut Permits,
        id: PermitId,
        now: u64,
    ) -> (Verdict, Option<PermitUndo>) {
        permits.drop_lapsed(now);
        let undo = self.extend(permits, id, now);
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
        permits.drop_lapsed(now);
        let undo = permits.remove(id).map(PermitUndo::Restore);
        (self.verdict(permits, now, Retry::Now), undo)
    }

    fn extend(&self, permits: &mut Permits, id: PermitId, now: u64) -> Option<PermitUndo> {
        let permit = permits.find(id)?;
        let before = *permit;
        permit.expires = permit.expires.max(now + self.lifetime);
        Some(PermitUndo::Restore(before))
    }

    /// When permits worth `needed` have lapsed if nobody renews or releases.
    fn frees_at(permits: &Permits, needed: u64) -> u64 {
        let mut lapses: Vec<_> = permits.held().iter().map(|permit| (permit.expires, permit.cost)).collect();
        lapses.sort_unstable();
        let mut freed = 0;
        let last_needed = lapses.into_iter().find(|(_, cost)| {
            freed += cost;
            freed >= needed
        });
        last_needed.map_or(0, |(expires, _)| expires)
    }

    pub(crate) fn verdict(&self, permits: &Permits, now: u64, retry: Retry) -> Verdict {
        let live = permits.held().iter().filter(|permit| permit.expires > now);
        let used: u64 = live.clone().map(|permit| permit.cost).sum();
        let last = live.map(|permit| permit.expires).max().unwrap_or(now);
        Verdict {
            retry,
            limit: self.count,
            remaining: self.count.saturating_sub(used),
            reset: Span::from_micros(last - now),
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

fn used(permits: &Permits) -> u64 {
    permits.held().iter().map(|permit| permit.cost).sum()
}
