//! What ledgers that several nodes share have in common, wherever their rows are kept.
//!
//! A node reads the rows that a group of entries needs, applies the entries to a draft of them, and writes what changed at
//! once, if nobody else wrote meanwhile or while nobody else may. So a group costs a few round trips, however much it
//! holds, and each caller's entries are all or none without the database's help.
//!
//! | module | holds |
//! | --- | --- |
//! | `row` | one row: what it is found by, and its record |
//! | `codec` | records as JSON, for people to read and for later versions to add to |
//! | `needs` | the rows that entries are judged by |
//! | `draft` | those rows while entries are applied to them |
//! | `ask` | what queries look for |
//! | `desk` | the thread that works for all callers of a node |

pub(super) mod ask;
mod codec;
pub(super) mod desk;
pub(super) mod draft;
pub(super) mod needs;
pub(super) mod row;
