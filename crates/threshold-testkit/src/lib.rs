//! How limits are tested: from the outside, against an exact model, on every store alike.
//!
//! | module | holds |
//! | --- | --- |
//! | [`scan`] | the outside judge: a log of admissions against a guarantee, in any interval |
//! | [`model`] | an exact reference in rational arithmetic, written from the definitions |
//! | [`timed`] | stores under a hand-set clock: the pure transition and the memory store |
//! | [`strategies`] | random limits, times and batches |
//! | [`laws`] | what must hold for which algorithm, as properties over any [`timed::Timed`] |
//! | [`contract`] | what every store must do, case by case |
//! | [`crowd`] | what many callers in many processes ask for, and what must have been admitted |
//! | [`ledger_contract`] | what every ledger must do, case by case |
//! | [`flaky`] | a ledger that fails when it is told to |
//! | [`simulate`] | a small world of clients, reloads and clock steps, decided by one seed |
//! | [`figures`] | everyday sizes and full figures, and the record of what was shown |
//! | [`folder`] | a folder for one test, gone afterwards |
//! | [`servers`] | real servers: Postgres, Redis, a Redis Cluster, Sentinels |
//! | [`victim`] | what processes charge that tests kill |

pub mod contract;
pub mod crowd;
pub mod figures;
pub mod flaky;
pub mod folder;
pub mod laws;
pub mod ledger_contract;
pub mod model;
pub mod scan;
pub mod servers;
pub mod simulate;
pub mod strategies;
pub mod timed;
pub mod victim;
