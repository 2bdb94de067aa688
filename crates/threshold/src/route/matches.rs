//! The answer to "which routes?": a set of indices that needs no heap.

use super::table::MAX_PATTERNS;

const WORD: usize = u64::BITS as usize;

/// The routes that a request belongs to, by their index in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matches {
    /// One bit for each route. Every route has a pattern, so there are no more routes than patterns.
    words: [u64; MAX_PATTERNS / WORD],
}

impl Matches {
    pub(crate) const NONE: Self = Self { words: [0; MAX_PATTERNS / WORD] };

    pub(super) fn insert(&mut self, index: u16) {
        let index = usize::from(index);
        self.words[index / WORD] |= 1 << (index % WORD);
    }

    /// Whether no route matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether the route with this index matches.
    #[must_use]
    pub fn contains(&self, index: usize) -> bool {
        self.words.get(index / WORD).is_some_and(|word| word >> (index % WORD) & 1 == 1)
    }

    /// The indices, in ascending order.
    #[must_use]
    pub const fn iter(&self) -> MatchesIter<'_> {
        MatchesIter { words: &self.words, at: 0, word: self.words[0] }
    }
}

impl<'a> IntoIterator for &'a Matches {
    type Item = usize;
    type IntoIter = MatchesIter<'a>;

    fn into_iter(self) -> MatchesIter<'a> {
        self.iter()
    }
}

/// The indices in [`Matches`], in ascending order.
#[derive(Clone, Debug)]
pub struct MatchesIter<'a> {
    words: &'a [u64],
    at: usize,
    /// What is left of the word at `at`.
    word: u64,
}

impl Iterator for MatchesIter<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.word == 0 {
            self.at += 1;
            self.word = *self.words.get(self.at)?;
        }
        let bit = self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(self.at * WORD + bit)
    }
}
