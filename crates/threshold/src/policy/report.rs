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
    /// A problem at a line and column.
    pub(super) fn at((line, column): (usize, usize), field: &str, what: String, remedy: String) -> Self {
        Self { line, column, field: field.to_owned(), what, remedy }
    }
}

/// How far it is counted from a mark to a place.
const STRETCH: usize = 1_024;

/// Finds lines and columns in a text. Every value of a policy has its place, so that nothing is counted from the start.
pub(super) struct Places<'a> {
    text: &'a str,
    /// The line and column at the beginning of each stretch.
    marks: Vec<(usize, usize)>,
}

impl<'a> Places<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut at = (1, 1);
        let stretches = text.as_bytes().chunks(STRETCH);
        let marks = stretches.map(|stretch| {
            let begins = at;
            at = after(at, stretch);
            begins
        });
        let marks = marks.collect();
        Self { text, marks }
    }

    /// The line and column of byte `offset`, both from 1; in characters.
    pub(super) fn find(&self, offset: usize) -> (usize, usize) {
        let offset = floor_char(self.text, offset);
        let mark = (offset / STRETCH).min(self.marks.len().saturating_sub(1));
        let at = self.marks.get(mark).copied().unwrap_or((1, 1));
        after(at, &self.text.as_bytes()[(mark * STRETCH).min(offset)..offset])
    }
}

/// The line and column after `bytes`, which begin at `at`.
fn after(at: (usize, usize), bytes: &[u8]) -> (usize, usize) {
    bytes.iter().fold(at, |(line, column), byte| match byte {
        b'\n' => (line + 1, 1),
        // Goes on with a character that was counted.
        0x80..=0xbf => (line, column),
        _ => (line, column + 1),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_that_counting_from_the_start_finds() {
        let texts = [String::new(), "ab\nü\n\nx".to_owned(), "añ\n".repeat(2_000), "long ünd ".repeat(1_000)];
        for text in &texts {
            let places = Places::new(text);
            for offset in (0..=text.len() + 2).step_by(7).chain([text.len()]) {
                let before = &text[..floor_char(text, offset)];
                let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
                assert_eq!(places.find(offset), (before.matches('\n').count() + 1, column), "{offset}");
            }
        }
    }
}
