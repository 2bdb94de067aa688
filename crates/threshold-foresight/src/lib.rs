//! Foresight: what a policy would do, before it does it.
//!
//! Requests come from access logs ([`logs`]) or are made up by a scenario, and each has a time of its own. A replay has them
//! decided by the real engine at those times, and a tally keeps what came of it, in bounded memory.
//!
//! Nothing here reads a clock, the environment or a file by itself: whoever calls brings them.

pub mod logs;
pub mod nodes;
pub mod recommend;
pub mod replay;
pub mod report;
pub mod request;
pub mod scenario;
pub mod tally;

pub use nodes::Nodes;
pub use recommend::Recommender;
pub use replay::Replay;
pub use report::Report;
pub use request::{Headers, Request};
pub use scenario::Scenario;
pub use tally::Tally;
