//! Limits for the messages of WebSocket connections.
//!
//! ```
//! use std::sync::Arc;
//! use threshold::engine::{Engine, Rules, Secrets};
//! use threshold::{MemoryStore, policy::Policy, random_secret};
//! use threshold_http::websocket::MessageLimiter;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let policy = r#"
//!     [[limit]]
//!     id = "chat"
//!     layer = "user"
//!     messages = "*"
//!     per = ["user", "type"]
//!     costs = { Compute = 5 }
//!     rate = "100/s burst 200"
//! "#;
//! let none = |_: &str| None;
//! let policy = Policy::read("policy.toml", policy, &none)?;
//! let secrets = Secrets::new(random_secret());
//! let rules = Rules::new(&policy, &secrets, &none)?;
//! let engine = Engine::new(rules, secrets, MemoryStore::new(), MemoryStore::new());
//! let limiter = MessageLimiter::new(Arc::new(engine))
//!     .on_limit_exceeded(|exceeded| async move { println!("{exceeded:?}") });
//! # let _ = limiter;
//! # Ok(())
//! # }
//! ```
//!
//! What a message goes through, in this order: its size, the connection's own pace, its type, the limits of the policy with
//! those of how many are in flight, and then the application. Whatever refuses it ends at one gate: the hook is told once,
//! and the client is sent an error, or its connection is closed, or nothing is done.
//!
//! | module | holds |
//! | --- | --- |
//! | `limiter` | [`MessageLimiter`]: what can be set |
//! | `connection` | [`Connection`]: the path of a message |
//! | `read` | the type, the room and the id of a message, and no more of it |
//! | `refuse` | the gate: what is told to whom |
//! | `socket` | [`LimitedSocket`] around the sockets of axum and tungstenite |

mod connection;
mod limiter;
mod read;
mod refuse;
mod socket;

pub use connection::{Connection, Passed};
pub use limiter::{Incoming, MessageLimiter};
pub use read::reply_id;
pub use refuse::{Exceeded, Refused, Then};
pub use socket::{LimitedSocket, Received, SocketMessage, Unjudged};
