//! What is wrong with a policy: where, what and how to put it right, all of it at once.

use std::fmt;

/// One mistake in a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The field, such as `limit[2].rate`; empty for the file as a whole.
    pub field: String,
    /// What is wrong.
    pub what: String,
    /// How to put it right.
    pub remedy: String,
}

/// A policy that is refused whole, with everything that is wrong in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The file's name, as it was given.
    pub file: String,
    /// The mistakes, in the order of the file; never empty.
    pub problems: Vec<Problem>,
}

impl Problem {
    /// A problem at byte `offset` of `text`.
    pub(super) fn at(text: &str, offset: usize, field: &str, what: String, remedy: String) -> Self {
        let (line, column) = place(text, offset);
        Self { line, column, field: field.to_owned(), what, remedy }
    }
}

/// The line and column of byte `offset`, both from 1.
pub(super) fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..floor_char(text, offset)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The largest character boundary up to `offset`.
fn floor_char(text: &str, offset: usize) -> usize {
    (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{}:{problem}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyError {}
