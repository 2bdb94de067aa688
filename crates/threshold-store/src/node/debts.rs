//! What was admitted without the store and has not been charged to it yet.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use threshold_core::{Key, Timestamp};

use super::keys::KeyHasher;
use crate::sync::Mutex;

/// The most keys; what is admitted of others is not charged to the store afterwards. The node's shares bound it all the same.
const ROOM: usize = 65_536;

#[derive(Default)]
struct Debt {
    amount: u64,
    /// When it is not felt any more.
    until: Timestamp,
}

/// Debts by key.
pub(super) struct Debts(Mutex<HashMap<Key, Debt, BuildHasherDefault<KeyHasher>>>);

impl Debts {
    pub(super) fn new() -> Self {
        Self(Mutex::new(HashMap::default()))
    }

    pub(super) fn add(&self, key: &Key, amount: u64, until: Timestamp, now: Timestamp) {
        let mut debts = self.0.lock();
        if debts.len() >= ROOM && !debts.contains_key(key) {
            debts.retain(|_, debt| now < debt.until);
            if debts.len() >= ROOM {
                return;
            }
        }
        let debt = debts.entry(*key).or_default();
        debt.amount = debt.amount.saturating_add(amount);
        debt.until = debt.until.max(until);
    }

    /// Takes back what turned out not to be admitted.
    pub(super) fn forgive(&self, key: &Key, amount: u64) {
        if let Some(debt) = self.0.lock().get_mut(key) {
            debt.amount = debt.amount.saturating_sub(amount);
        }
    }

    /// The debt of `key`, which is the caller's to pay from now on: nobody else pays it too.
    pub(super) fn take(&self, key: &Key, now: Timestamp) -> u64 {
        let debt = self.0.lock().remove(key);
        debt.filter(|debt| now < debt.until).map_or(0, |debt| debt.amount)
    }
}
