//! The archive: who met which limit how often, in files that other tools read, for as long as they are kept.
//!
//! | module | holds |
//! | --- | --- |
//! | `columns` | rows as Parquet, and back |
//! | `folder` | where files are, how they come to be there whole, and when they go |
//! | `writer` | the thread that writes, and what it does when the disk fails |
//! | `reader` | the rows of some days, an hour at a time |
//!
//! Decisions are [counted](threshold::usage) in memory and never wait for a file.

mod columns;
mod folder;
mod reader;
mod writer;

pub(crate) use columns::Entry;
pub(crate) use folder::{Folder, day};
pub(crate) use reader::Reading;
pub(crate) use writer::{Archive, Settings};
