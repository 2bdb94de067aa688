//! The archive: who met which limit how often, in files that other tools read, for as long as they are kept.
//!
//! | module | holds |
//! | --- | --- |
//! | `counting` | the thread that adds up what decisions hand over |
//! | `columns` | rows as Parquet, and back |
//! | `events`, `event_columns` | what happened, batched, and as Parquet |
//! | `folder` | where files are, how they come to be there whole, and when they go |
//! | `writer` | the thread that writes, and what it does when the disk fails |
//! | `bucket`, `upload`, `fetch` | S3: files that are sent there from the folder, and brought back to be read |
//! | `erase`, `rewrite` | files without somebody's rows |
//! | `handle` | what operators see of it and have it do |
//! | `reader` | the rows of some days, an hour at a time |
//!
//! Decisions are [counted](threshold::usage) in memory and never wait for a file, nor for who counts.

mod bucket;
mod columns;
mod counting;
mod erase;
mod event_columns;
mod events;
mod fetch;
mod folder;
mod handle;
mod reader;
mod rewrite;
mod upload;
mod writer;

pub(crate) use bucket::BucketPlace;
pub(crate) use columns::Entry;
pub(crate) use erase::{ErasedRows, Named};
pub(crate) use events::Events;
pub(crate) use fetch::fetch;
pub(crate) use folder::{Folder, day};
pub(crate) use handle::{Handle, Tended};
pub(crate) use reader::{Halt, MOST, Missing, Part, Reading, in_parts};
pub(crate) use writer::{Archive, Settings};

/// Puts `rows`, all of one hour, into a file of `folder`.
#[cfg(test)]
pub(crate) fn write_rows(folder: &Folder, name: &str, rows: &[threshold::usage::Row]) {
    let hour = folder::Hour::of(rows[0].window_start);
    folder.prepare().unwrap();
    folder.put(&hour, name, &columns::encode(rows, 0).unwrap()).unwrap();
}
