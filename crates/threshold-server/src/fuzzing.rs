//! What fuzzers call: everything that reads what others wrote, with what must hold of it. No part of the interface.

mod envoy;

pub use envoy::envoy;
