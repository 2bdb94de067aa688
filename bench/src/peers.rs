//! Who is measured, behind one small trait.

mod floor;
mod governor;
mod limitador;
mod pingora;
pub(crate) mod threshold;
mod throttlecrab;

use crate::Outcome;

/// A limit that every peer can express: `refill` tokens every `seconds`, at most `burst` at once.
#[derive(Clone, Copy)]
pub(crate) struct Quota {
    pub(crate) burst: u32,
    pub(crate) refill: u32,
    pub(crate) seconds: u32,
}

impl Quota {
    /// Never refuses within a run. It refills slowly, so that a key charged before the timing stays live
    /// throughout: a store may forget a key whose bucket is full, and would then be measured on less work.
    pub(crate) const OPEN: Self = Self { burst: 4_000_000_000, refill: 20, seconds: 1 };
    /// What a key is charged before the timing: 2,000 seconds' worth of refill.
    pub(crate) const HEAD_START: u32 = 40_000;
    /// Keys charged once under this stay live for an hour.
    pub(crate) const SLOW: Self = Self { burst: 10, refill: 1, seconds: 3600 };

    /// Nanoseconds until one token comes back.
    fn interval_nanos(self) -> u64 {
        u64::from(self.seconds) * 1_000_000_000 / u64::from(self.refill)
    }
}

/// One rate limiter, ready to decide.
// `&String`: governor's String-keyed store takes nothing else, and all peers get the same argument.
#[allow(clippy::ptr_arg, reason = "see above")]
pub(crate) trait Peer: Send + Sync {
    /// One decision of any cost; true when admitted. Used outside the timing.
    fn charge(&self, key: &String, cost: u32) -> bool;

    /// One decision of cost 1 for `keys[i]` for each `i` of `order`; returns how many were refused.
    /// The loop is inside, so that the timed part has no dynamic dispatch per decision.
    fn decide_all(&self, keys: &[String], order: &[u32]) -> u64;
}

/// The loop that every peer's `decide_all` is.
#[inline(always)]
fn count_refused(keys: &[String], order: &[u32], mut decide: impl FnMut(&String) -> bool) -> u64 {
    let mut refused = 0;
    for &index in order {
        refused += u64::from(!decide(&keys[index as usize]));
    }
    refused
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Threshold,
    Governor,
    Throttlecrab,
    Limitador,
    Pingora,
    Floor,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Threshold, Self::Governor, Self::Throttlecrab, Self::Limitador, Self::Pingora, Self::Floor];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Governor => "governor",
            Self::Throttlecrab => "throttlecrab",
            Self::Limitador => "limitador",
            Self::Pingora => "pingora-limits",
            Self::Floor => "floor",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Builds the peer for at most `keys` keys. Only those that need to know beforehand (the floor's table,
    /// limitador's cache) use the number; the others grow.
    pub(crate) fn build(self, quota: Quota, keys: usize) -> Outcome<Box<dyn Peer>> {
        Ok(match self {
            Self::Threshold => Box::new(threshold::Ours::new(quota)?),
            Self::Governor => Box::new(governor::Governor::new(quota)?),
            Self::Throttlecrab => Box::new(throttlecrab::Throttlecrab::new(quota)),
            Self::Limitador => Box::new(limitador::Limitador::new(quota, keys)?),
            Self::Pingora => Box::new(pingora::Pingora::new(quota)),
            Self::Floor => Box::new(floor::Floor::new(quota, keys)),
        })
    }
}

/// Proves once that the peer keeps state per key: it admits a burst, refuses soon after, and another key
/// does not notice. A benchmark of a limiter that was configured not to limit would be worth nothing.
pub(crate) fn check(kind: Kind) -> Outcome<()> {
    let peer = kind.build(Quota { burst: 3, refill: 1, seconds: 3600 }, 16)?;
    let [first, second] = ["user:1".to_owned(), "user:2".to_owned()];
    let admitted = (0..12).take_while(|_| peer.charge(&first, 1)).count();
    // Not exactly 3 for everyone: throttlecrab admits one more on a fresh key.
    if !(3..=4).contains(&admitted) {
        return Err(format!("{} admitted {admitted} of a burst of 3", kind.name()).into());
    }
    if !peer.charge(&second, 1) {
        return Err(format!("{} let one key charge another", kind.name()).into());
    }
    let open = kind.build(Quota::OPEN, 16)?;
    if !open.charge(&first, Quota::HEAD_START) || open.decide_all(&[first], &[0; 64]) != 0 {
        return Err(format!("{} refuses under the open quota", kind.name()).into());
    }
    Ok(())
}
