//! The configuration of envoyproxy/ratelimit, read and written as a policy.
//!
//! | module | holds |
//! | --- | --- |
//! | `yaml` | a file as a tree of values with their places |
//! | `merge` | values that take over the fields of others |
//! | `read` | that tree as descriptors, checked as the other service checks them |
//! | `ids` | what limits are called, which their counts are kept by |
//! | `write` | the descriptors as limits of a policy, with what could not be carried over |

mod ids;
mod merge;
mod read;
mod write;
mod yaml;

use std::collections::HashMap;
use std::fmt;

use threshold::AlgorithmKind;

/// A file and what is in it.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// What was made of files.
#[derive(Debug)]
pub(crate) struct Imported {
    /// The limits, as a policy has them.
    pub(crate) text: String,
    /// What means something else here, or nothing, with its place.
    pub(crate) notes: Vec<Remark>,
    pub(crate) limits: usize,
}

/// Something about a place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remark {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, what, remedy } = self;
        write!(f, "{file}:{line}:{column}: {what}; {remedy}")
    }
}

/// Makes limits of `sources`, which count by `algorithm` or by windows of the clock.
///
/// # Errors
///
/// Everything that is wrong with them; nothing is made then.
pub(crate) fn import(sources: &[Source], algorithm: Option<AlgorithmKind>) -> Result<Imported, Vec<Remark>> {
    let (mut domains, mut mistakes) = (Vec::new(), Vec::new());
    let mut known: HashMap<String, &str> = HashMap::new();
    for source in sources {
        match read::domain(source) {
            Ok(domain) => {
                if let Some(other) = known.insert(domain.name.clone(), &source.name) {
                    let what = format!("the domain {:?} is in {other} as well", domain.name);
                    mistakes.push(domain.place.remark(what, "put both into one file"));
                }
                domains.push(domain);
            }
            Err(wrong) => mistakes.extend(wrong),
        }
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    write::policy(&domains, algorithm).map_err(|remark| vec![remark])
}
