//! What tests of a running server share: the server as a process, an application behind it, and clients.
#![allow(dead_code, reason = "each test program uses its own part of this")]

pub(crate) mod application;
pub(crate) mod browser;
pub(crate) mod client;
pub(crate) mod echo;
pub(crate) mod large;
pub(crate) mod listener;
pub(crate) mod schemathesis;
pub(crate) mod server;
pub(crate) mod wire;
