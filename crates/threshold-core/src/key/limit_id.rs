//! The names of limits.

use std::fmt;

/// A limit's name: 1 to 64 printable ASCII characters without spaces, quotes or backslashes, so that it can
/// stand in a header, a metric label and a log line as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LimitId(Box<str>);

/// A name that cannot be a limit's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "limit id {0:?} must be 1 to 64 printable ASCII characters without spaces, quotes or backslashes, such as \"login\""
)]
pub struct LimitIdError(String);

impl LimitId {
    /// Checks `name` and makes it a limit's id.
    pub fn new(name: &str) -> Result<Self, LimitIdError> {
        let allowed = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\';
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            return Err(LimitIdError(name.to_owned()));
        }
        Ok(Self(name.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LimitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
