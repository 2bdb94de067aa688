//! Threshold for HTTP: a [tower](https://docs.rs/tower) layer around any service, and the answers that clients see.
//!
//! ```
//! use std::sync::Arc;
//! use threshold::engine::{Engine, Rules, Secrets};
//! use threshold::{MemoryStore, policy::Policy, random_secret};
//! use threshold_http::ThresholdLayer;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let policy = r#"
//!     [[limit]]
//!     id = "api"
//!     layer = "user"
//!     rate = "100/min"
//! "#;
//! let none = |_: &str| None;
//! let policy = Policy::read("policy.toml", policy, &none)?;
//! let secrets = Secrets::new(random_secret());
//! let rules = Rules::new(&policy, &secrets, &none)?;
//! let engine = Engine::new(rules, secrets, MemoryStore::new(), MemoryStore::new());
//! let layer = ThresholdLayer::new(Arc::new(engine));
//! # let _ = layer;
//! # Ok(())
//! # }
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | [`layer`] | [`ThresholdLayer`], and what can be set on it |
//! | [`service`] | the path of a request: decide, hold back, log in, hand on, answer |
//! | [`respond`] | every answer of every surface: statuses, bodies, headers |
//! | [`delay`] | the bounded pool of those who are held back |
//! | [`body`] | bodies that are metered on their way in, and that end what a request holds on their way out |
//! | `websocket` | limits for messages (feature `websocket`) |
//! | [`extract`] | what handlers of axum may ask for (feature `axum`) |

pub mod body;
pub mod delay;
#[cfg(feature = "axum")]
pub mod extract;
mod facts;
mod later;
pub mod layer;
mod login;
mod place;
pub mod respond;
pub mod service;
#[cfg(feature = "websocket")]
pub mod websocket;

pub use facts::{Fields, Onlooker, Peer, facts};
pub use layer::ThresholdLayer;
pub use place::Place;
pub use respond::Answer;
pub use service::{Allowed, Client, ThresholdService, client};
