//! Alarms: readings are looked at, rules judge them, and whoever is to know is told.
//!
//! | module | holds |
//! | --- | --- |
//! | `readings` | what is looked at |
//! | `watch` | what follows from it: pure, with the time from outside |
//! | `latch`, `window` | a threshold with hysteresis, and how much something grew in a while |
//! | `message` | an alarm as others read it |
//! | `webhook`, `sign` | addresses that alarms are posted to |
//! | `courier` | deliveries: in order, tried again, and never in anybody's way |
//! | `run` | the thread that does all of it |

mod courier;
mod latch;
mod message;
mod readings;
mod run;
mod sign;
mod watch;
mod webhook;
mod window;

pub(crate) use readings::Readings;
pub(crate) use run::{Alerts, Settings};
pub(crate) use watch::Alert;
pub(crate) use webhook::Hook;
