//! Blocks: what decisions hand over, side by side in memory of a fixed size that is used again and again.

use std::collections::VecDeque;

use threshold_core::{MAX_STEPS, SubjectId, Timestamp};

use super::{Met, Noted};

/// How many decisions, subjects and limits of those a block holds, whichever is reached first: some 70 kB.
const DECISIONS: usize = 256;
const SUBJECTS: usize = 1_024;
const METS: usize = 1_536;
// One decision fits, whatever it meets.
const _: () = assert!(SUBJECTS >= MAX_STEPS && METS >= MAX_STEPS);

/// Decisions that nobody has added up yet.
pub(super) struct Block {
    heads: Vec<Head>,
    subjects: Vec<SubjectId>,
    mets: Vec<Met>,
}

/// One decision; whom it is about and what it met is beside it.
#[derive(Clone, Copy)]
struct Head {
    at: Timestamp,
    /// What the whole request costs, if it is counted by itself.
    cost: u64,
    times: u32,
    subjects: u16,
    /// How many limits, and in the highest bits what it came to: as small as it can be.
    mets: u16,
}

const ALLOWED: u16 = 1 << 15;
const WHOLE: u16 = 1 << 14;
const _: () = assert!(MAX_STEPS < WHOLE as usize);

impl Block {
    fn new() -> Self {
        Self {
            heads: Vec::with_capacity(DECISIONS),
            subjects: Vec::with_capacity(SUBJECTS),
            mets: Vec::with_capacity(METS),
        }
    }

    /// Writes down one decision; false if it does not fit any more.
    #[inline]
    pub(super) fn write(&mut self, noted: &Noted<'_>) -> bool {
        let (subjects, mets) = (noted.subjects.len(), noted.met.len());
        let fits = self.heads.len() < DECISIONS
            && self.subjects.len() + subjects <= SUBJECTS
            && self.mets.len() + mets <= METS;
        if fits {
            let flags = if noted.allowed { ALLOWED } else { 0 } | if noted.whole.is_some() { WHOLE } else { 0 };
            self.heads.push(Head {
                at: noted.at,
                cost: noted.whole.unwrap_or(0),
                times: noted.times,
                // No more than fit into a block.
                subjects: subjects as u16,
                mets: mets as u16 | flags,
            });
            self.subjects.extend_from_slice(noted.subjects);
            self.mets.extend_from_slice(noted.met);
        }
        fits
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The decisions in it, in their order.
    pub(super) fn decisions(&self) -> impl Iterator<Item = Noted<'_>> {
        let (mut subjects, mut mets) = (&self.subjects[..], &self.mets[..]);
        self.heads.iter().map(move |head| {
            let (of_this, rest) = subjects.split_at(usize::from(head.subjects));
            let (met, more) = mets.split_at(usize::from(head.mets & (WHOLE - 1)));
            (subjects, mets) = (rest, more);
            Noted {
                at: head.at,
                allowed: head.mets & ALLOWED != 0,
                times: head.times,
                whole: (head.mets & WHOLE != 0).then_some(head.cost),
                subjects: of_this,
                met,
            }
        })
    }

    /// Whom they are about, in the order of [`decisions`](Self::decisions).
    pub(super) fn subjects(&self) -> &[SubjectId] {
        &self.subjects
    }

    fn clear(&mut self) {
        self.heads.clear();
        self.subjects.clear();
        self.mets.clear();
    }
}

/// Where blocks are while nobody writes into them.
pub(super) struct Queue {
    full: VecDeque<Block>,
    /// The last that was given back comes first: it may still be in a cache.
    free: Vec<Block>,
}

impl Queue {
    pub(super) fn new(blocks: usize) -> Self {
        // All of them at once, so that no decision takes any; what is never written into takes no memory but its address.
        let free = (0..blocks).map(|_| Block::new()).collect();
        Self { full: VecDeque::with_capacity(blocks), free }
    }

    /// Takes one that is full, and gives one that is empty if there is one.
    pub(super) fn exchange(&mut self, full: Option<Block>) -> Option<Block> {
        self.full.extend(full);
        self.free.pop()
    }

    pub(super) fn push(&mut self, full: Block) {
        self.full.push_back(full);
    }

    pub(super) fn pop(&mut self) -> Option<Block> {
        self.full.pop_front()
    }

    /// Takes back one that was read.
    pub(super) fn give_back(&mut self, mut block: Block) {
        block.clear();
        self.free.push(block);
    }

    pub(super) fn full(&self) -> usize {
        self.full.len()
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }
}
