//! What tests of a running server share: the server as a process, and an application behind it.
#![allow(dead_code, reason = "each test program uses its own part of this")]

pub(crate) mod application;
pub(crate) mod client;
pub(crate) mod server;
