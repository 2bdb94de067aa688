//! Standing: what is remembered of a subject that went over its limits, and what follows from it.
//!
//! Three kinds of memory, each a few pure functions over a small state:
//!
//! - A [`Tally`] of strikes climbs a [`Ladder`]: each rung says what follows, from a warning to a ban.
//! - A [`Score`] is a client's reputation: it falls with each violation, recovers with time, and scales limits.
//! - A tally of failed logins locks an account out for one source by a [`Lockout`], for longer each time.
//!
//! Everything here expires by itself: no state means a clean sheet, and every state turns into that with time.

mod habits;
mod ladder;
mod lockout;
mod reputation;
mod tally;

pub use habits::{Habits, Looks, Oddity};
pub use ladder::{Ladder, LadderError, Rung};
pub use lockout::{Lockout, LockoutError};
pub use reputation::{Reputation, ReputationError, Risk, Score, Violation};
pub use tally::Tally;
