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
//! | [`simulate`] | a small world of clients, reloads and clock steps, decided by one seed |
//! | [`figures`] | everyday sizes and full figures, and the record of what was shown |

pub mod contract;
pub mod figures;
pub mod laws;
pub mod model;
pub mod scan;
pub mod simulate;
pub mod strategies;
pub mod timed;
