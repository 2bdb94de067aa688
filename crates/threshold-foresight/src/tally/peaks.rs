//! Peaks: how much of each limit its keys use when they use most of it.
//!
//! Every key of every limit has its highest share. With more keys than there is room for, those of some keys are kept, chosen
//! by their hash, and stand for the others.

use hashbrown::HashTable;
use threshold::engine::Use;

/// How many keys are kept.
const MOST: usize = 1 << 18;

/// The shares that are told apart, in hundredths: below the first, below the second and so on; the last are over the limit.
pub const SHARES: [u8; 7] = [10, 25, 50, 75, 90, 101, u8::MAX];
/// Over the limit.
const OVER: u8 = 200;

/// How much of each limit its keys use at most.
#[derive(Debug, Default)]
pub struct Peaks {
    keys: HashTable<Peak>,
    limits: Vec<&'static str>,
    /// Of 2 to this power keys one is kept.
    level: u32,
}

#[derive(Clone, Copy, Debug)]
struct Peak {
    key: u64,
    limit: u16,
    share: u8,
}

impl Peaks {
    /// Sees what is left of a limit; `refused` if it refused the request.
    pub(super) fn see(&mut self, used: &Use, refused: bool) {
        let key = used.key as u64;
        if key >> 32 & ((1 << self.level) - 1) != 0 {
            return;
        }
        let share = match refused || used.refuses || used.graced {
            true => OVER,
            false => share(used.capacity, used.remaining),
        };
        let limit = self.limit(used.limit);
        match self.keys.entry(key, |peak| peak.key == key && peak.limit == limit, |peak| peak.key) {
            hashbrown::hash_table::Entry::Occupied(mut known) => {
                let peak = known.get_mut();
                peak.share = peak.share.max(share);
            }
            hashbrown::hash_table::Entry::Vacant(place) => {
                place.insert(Peak { key, limit, share });
                if self.keys.len() > MOST {
                    self.thin();
                }
            }
        }
    }

    /// Keeps half of the keys.
    #[cold]
    fn thin(&mut self) {
        self.level += 1;
        let level = self.level;
        self.keys.retain(|peak| peak.key >> 32 & ((1 << level) - 1) == 0);
    }

    fn limit(&mut self, name: &'static str) -> u16 {
        let known = self.limits.iter().position(|known| std::ptr::eq(*known, name) || *known == name);
        known.unwrap_or_else(|| {
            self.limits.push(name);
            self.limits.len() - 1
        }) as u16
    }

    /// How many keys of `limit` use which of [`SHARES`] at most, and whether those are counted or reckoned from some.
    #[must_use]
    pub fn of(&self, limit: &str) -> ([u64; SHARES.len()], bool) {
        let mut counts = [0; SHARES.len()];
        if let Some(limit) = self.limits.iter().position(|known| *known == limit) {
            for peak in self.keys.iter().filter(|peak| usize::from(peak.limit) == limit) {
                let place = SHARES.iter().position(|most| peak.share < *most).unwrap_or(SHARES.len() - 1);
                counts[place] += 1 << self.level;
            }
        }
        (counts, self.level == 0)
    }
}

/// The used share in hundredths: 100 if nothing is left.
fn share(capacity: u64, remaining: u64) -> u8 {
    let used = u128::from(capacity.saturating_sub(remaining));
    (used * 100 / u128::from(capacity.max(1))).min(100) as u8
}
