//! Rate limiting that never over-admits, at memory speed.
//!
//! ```
//! use threshold::{MemoryStore, RateLimiter};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = RateLimiter::builder("api").rate("2/min").store(MemoryStore::new()).build()?;
//!
//! assert!(limiter.consume_now("alice", 1)?.allowed());
//! assert!(limiter.consume_now("alice", 1)?.allowed());
//! let third = limiter.consume_now("alice", 1)?;
//! assert!(!third.allowed());
//! println!("try again in {:?}", third.retry_after());
//! # Ok(())
//! # }
//! ```
//!
//! [`RateLimiter`] is the simple form: one limit, one call. Several limiters share one store and stay apart,
//! because each one's id is part of every key. To charge several limits as one, all or none, take a
//! [`step`](RateLimiter::step) of each, put them into a [`Batch`] and give it to the [`Store`].

mod decision;
pub mod engine;
pub mod event;
pub mod figures;
pub mod identify;
pub mod login;
pub mod policy;
mod rate_limiter;
pub mod recent;
pub mod route;
pub mod usage;

pub use decision::{ConsumeError, Decision};
pub use rate_limiter::{BuildError, RateLimiter, RateLimiterBuilder};
pub use threshold_core::*;
pub use threshold_store::*;
