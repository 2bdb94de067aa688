//! What a limit means, and nothing else.
//!
//! This crate reads no clock, opens no socket, starts no task and draws no random number: everything that
//! varies is an argument. That is what lets one definition of "admitted" serve every store, the simulator
//! and the tests.
//!
//! # Layout
//!
//! | module | holds |
//! | --- | --- |
//! | [`time`] | [`Timestamp`], [`Span`], [`Clock`]: the tick is one microsecond |
//! | [`rate`] | [`Rate`] and its grammar: `"100/min"`, `"5 per 15min"`, `"50MB/day burst 10MB"` |
//! | [`key`] | [`Secret`] → [`LimitKey`] → [`Key`]: keyed 128-bit hashes of a subject's parts |
//! | [`algorithm`] | the five algorithms, each a few pure functions over its state |
//! | [`standing`] | ladder, reputation and lockout: what follows when somebody goes over again and again |
//! | [`ledger`] | the [`Ledger`] trait, what is written there, and the one function that says what follows from it |
//! | [`state`] | what a store keeps for one key: a [`Cell`](state::Cell), a log or permits |
//! | [`batch`] | [`Step`], [`Batch`], [`Verdict`], [`Outcome`] |
//! | [`transition`] | the one function that decides a batch |
//! | [`mirror`] | the numbers of a step for stores that judge elsewhere, and their answers read back |
//! | [`guarantee`] | the largest number a limit admits in any interval, as a value and as a sentence |
//! | [`sharing`] | how nodes share a limit: exact, leased or local, and what a limit does without its store |
//! | [`store`] | the [`Store`] trait, its object-safe twin and [`StoreError`] |
//!
//! Read [`transition::apply`] first: every decision of the product goes through it.

#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_lossless)]

pub mod algorithm;
pub mod batch;
pub mod guarantee;
pub mod key;
pub mod ledger;
pub mod mirror;
pub mod rate;
pub mod sharing;
pub mod standing;
pub mod state;
pub mod store;
pub mod time;
pub mod transition;

pub use algorithm::{Algorithm, AlgorithmKind, LimitError};
pub use batch::{Action, Batch, BatchError, MAX_STEPS, Mode, Outcome, PermitId, Retry, Step, Verdict};
pub use guarantee::Guarantee;
pub use key::{Key, LimitId, LimitIdError, LimitKey, Part, Partition, Parts, Secret, Subject, each_word};
pub use ledger::{Ledger, SharedLedger, SubjectId, SubjectKey, SubjectKind};
pub use rate::{MAX_COUNT, Rate, RateError, Unit};
pub use sharing::{Consistency, Leasable, OnFailure, Sharing, Source};
pub use store::{DynStore, Health, SharedStore, Store, StoreError, StoreErrorKind, Swept};
pub use time::{Clock, ManualClock, Span, Timestamp};
