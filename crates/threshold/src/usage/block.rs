//! Blocks: some decisions as they were handed over, side by side for who adds them up.

use threshold_core::{Span, SubjectId, Timestamp};

/// How many decisions, subjects and limits are enough for one block; the last decision may have more.
const DECISIONS: usize = 256;
const ENOUGH: usize = 1_024;

/// Decisions that are not added up yet.
#[derive(Default)]
pub(super) struct Block {
    heads: Vec<Head>,
    subjects: Vec<SubjectId>,
    mets: Vec<Given>,
}

/// One decision; whom it is about and what it met is beside it.
struct Head {
    at: Timestamp,
    allowed: bool,
    times: u32,
    whole: Option<u64>,
    subjects: usize,
    mets: usize,
}

/// A limit that one of them met.
#[derive(Clone, Copy)]
pub(super) struct Given {
    /// The limit's number.
    pub(super) limit: u32,
    pub(super) who: u16,
    /// Its period, if it is not the limit's own.
    pub(super) period: Option<Span>,
    pub(super) cost: u64,
}

/// One decision of a block.
pub(super) struct Handed<'a> {
    pub(super) at: Timestamp,
    pub(super) allowed: bool,
    pub(super) times: u32,
    pub(super) whole: Option<u64>,
    pub(super) subjects: &'a [SubjectId],
    pub(super) mets: &'a [Given],
}

impl Block {
    /// True if another decision is wanted.
    pub(super) fn has_room(&self) -> bool {
        self.heads.len() < DECISIONS && self.subjects.len().max(self.mets.len()) < ENOUGH
    }

    pub(super) fn push_subject(&mut self, subject: SubjectId) {
        self.subjects.push(subject);
    }

    pub(super) fn push_met(&mut self, given: Given) {
        self.mets.push(given);
    }

    /// How many limits were met by all of them.
    pub(super) fn mets(&self) -> usize {
        self.mets.len()
    }

    /// Adds a decision, of which the last `subjects` and `mets` are.
    pub(super) fn push(
        &mut self,
        (at, allowed, times): (Timestamp, bool, u32),
        whole: Option<u64>,
        (subjects, mets): (usize, usize),
    ) {
        self.heads.push(Head { at, allowed, times, whole, subjects, mets });
    }

    /// The decisions in it, in their order.
    pub(super) fn decisions(&self) -> impl Iterator<Item = Handed<'_>> {
        let (mut subjects, mut mets) = (&self.subjects[..], &self.mets[..]);
        self.heads.iter().map(move |head| {
            let (of_this, rest) = subjects.split_at(head.subjects);
            let (met, more) = mets.split_at(head.mets);
            (subjects, mets) = (rest, more);
            let Head { at, allowed, times, whole, .. } = *head;
            Handed { at, allowed, times, whole, subjects: of_this, mets: met }
        })
    }

    /// Whom they are about, in the order of [`decisions`](Self::decisions).
    pub(super) fn subjects(&self) -> &[SubjectId] {
        &self.subjects
    }

    pub(super) fn clear(&mut self) {
        self.heads.clear();
        self.subjects.clear();
        self.mets.clear();
    }
}
