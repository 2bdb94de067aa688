//! What strangers and other programs write, read as the server reads it, and what must hold of every answer. For the
//! targets in `fuzz/`, and for the tests that replay their corpus; nobody else needs it.
#![doc(hidden)]

mod envoy;
mod forwarded;
mod logs;
mod policy;
mod resp;
mod scenario;

pub use envoy::envoy;
pub use forwarded::forwarded;
pub use logs::logs;
pub use policy::policy;
pub use resp::resp;
pub use scenario::scenario;
