//! What can be looked at before anything is set up: a small application, policies with small numbers, and visitors.
//!
//! | module | holds |
//! | --- | --- |
//! | `app` | the application behind the gateway |
//! | `cast` | who comes, when and for what |
//! | `visit` | one request of a visitor |
//! | `drive` | the visitors at work, over real connections |

mod app;
mod cast;
mod drive;
mod visit;

pub(crate) use app::start;
pub(crate) use drive::{Driver, Tally};

/// The policy of `threshold` without arguments.
pub(crate) const POLICY: &str = include_str!("demo/policy.toml");
/// The policy of `threshold demo`, in which every answer comes within seconds.
pub(crate) const SHOW: &str = include_str!("demo/show.toml");
