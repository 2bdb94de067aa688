//! Places for decisions, which are large: a thread uses a few of them again and again.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use threshold::engine::Decision;

/// How many places a thread keeps.
const KEPT: usize = 16;

/// Handed out and taken back without being moved.
type Free = Vec<Box<Decision>>;

thread_local! {
    static FREE: RefCell<Free> = const { RefCell::new(Vec::new()) };
}

/// A place for a decision, kept for the next one when it is dropped.
pub struct Place(Option<Box<Decision>>);

impl Place {
    /// A place; what is in it does not matter.
    #[must_use]
    pub fn take() -> Self {
        let kept = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
        Self(Some(kept.unwrap_or_default()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(decision) = self.0.take() else { return };
        // A thread that ends keeps nothing.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT {
                free.push(decision);
            }
        });
    }
}

impl Deref for Place {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        self.0.as_deref().expect("a place is empty only while it is dropped")
    }
}

impl DerefMut for Place {
    fn deref_mut(&mut self) -> &mut Decision {
        self.0.as_deref_mut().expect("a place is empty only while it is dropped")
    }
}
