//! Everything that was ever admitted, and everyone who holds a permit.

use threshold_core::{Action, PermitId, Retry};

use super::{Said, after};

/// Every admission there ever was.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) count: u64,
    pub(super) period: u64,
    admitted: Vec<(u64, u64)>,
}

impl History {
    pub(super) fn consume(&mut self, cost: u64, now: u64) -> Said {
        // A clock that goes back does not make history go back.
        let at = self.admitted.last().map_or(now, |(last, _)| now.max(*last));
        let retry = match () {
            () if cost > self.count => Retry::Never,
            () if self.used_at(at) + cost <= self.count => Retry::Now,
            () => {
                let leaves =
                    self.admitted.iter().map(|(entry, _)| entry + self.period).filter(|leaves| *leaves > at);
                let passes = leaves.filter(|leaves| self.used_at(*leaves) + cost <= self.count).min();
                after(passes.expect("an empty log admits") - now)
            }
        };
        if retry == Retry::Now {
            self.admitted.push((at, cost));
        }
        let remaining = self.count.saturating_sub(self.used_at(at));
        let last = self.admitted.last().map_or(0, |(at, _)| at + self.period);
        Said { retry, remaining, reset: last.saturating_sub(now) }
    }

    fn used_at(&self, now: u64) -> u64 {
        self.admitted.iter().filter(|(at, _)| at + self.period > now).map(|(_, cost)| cost).sum()
    }
}

/// Everyone who holds a permit, and until when.
#[derive(Clone, Debug, Default)]
pub(super) struct Holders {
    pub(super) count: u64,
    pub(super) lifetime: u64,
    held: Vec<(PermitId, u64, u64)>,
}

impl Holders {
    pub(super) fn act(&mut self, action: Action, now: u64) -> Said {
        self.held.retain(|(_, expires, _)| *expires > now);
        let until = now + self.lifetime;
        let retry = match action {
            Action::Acquire(id, _) | Action::Renew(id) if self.renew(id, until) => Retry::Now,
            Action::Acquire(id, cost) => self.take(id, cost.get(), now),
            Action::Release(id) => {
                self.held.retain(|(held, ..)| *held != id);
                Retry::Now
            }
            _ => Retry::Never,
        };
        Said { retry, ..self.look(now) }
    }

    pub(super) fn look(&mut self, now: u64) -> Said {
        self.held.retain(|(_, expires, _)| *expires > now);
        let last = self.held.iter().map(|(_, expires, _)| *expires).max().unwrap_or(now);
        Said { retry: Retry::Never, remaining: self.count.saturating_sub(self.used()), reset: last - now }
    }

    fn renew(&mut self, id: PermitId, until: u64) -> bool {
        let held = self.held.iter_mut().find(|(held, ..)| *held == id);
        held.map(|(_, expires, _)| *expires = until.max(*expires)).is_some()
    }

    fn take(&mut self, id: PermitId, cost: u64, now: u64) -> Retry {
        if cost > self.count {
            return Retry::Never;
        }
        if self.used() + cost <= self.count {
            self.held.push((id, now + self.lifetime, cost));
            return Retry::Now;
        }
        let used_at = |at: u64| self.held.iter().filter(|held| held.1 > at).map(|held| held.2).sum::<u64>();
        let lapses = self.held.iter().map(|(_, expires, _)| *expires);
        after(lapses.filter(|at| used_at(*at) + cost <= self.count).min().expect("no permits fit all") - now)
    }

    fn used(&self) -> u64 {
        self.held.iter().map(|(_, _, cost)| cost).sum()
    }
}
