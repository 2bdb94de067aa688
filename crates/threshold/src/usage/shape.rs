//! Shapes: the limits that decisions met. Most meet the same few, so a shape is handed over once, and by its place from then
//! on.

use smallvec::SmallVec;
use threshold_core::Span;

use super::Met;
use super::block::Given;

/// How many shapes are known at a time.
const PLACES: usize = 16;
/// Those of more words are handed over every time.
const LONGEST: usize = 8;

/// The limits that a decision met, as the words that are handed over.
#[derive(Clone, Debug, Default)]
pub struct Mets {
    words: SmallVec<[u64; LONGEST]>,
    many: usize,
    /// Differs where the words do, mostly.
    mixed: u64,
}

/// Shapes that were handed over, each in its place. Who writes a ring and who reads it see the same ones in the same order,
/// and so have the same ones.
#[derive(Default)]
pub(super) struct Shapes([SmallVec<[u64; LONGEST]>; PLACES]);

/// A limit that was met, as one word; its cost and its period follow where they are not the usual.
#[derive(Clone, Copy)]
struct Brief(u64);

impl Mets {
    /// Adds one more.
    #[inline]
    pub fn push(&mut self, met: &Met) {
        let brief = Brief::new(met);
        self.words.push(brief.0);
        self.many += 1;
        self.mixed = (self.mixed.rotate_left(5) ^ brief.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if brief.has_cost() {
            self.words.push(met.cost);
        }
        if brief.has_period() {
            self.words.push(met.period.as_micros());
        }
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.many
    }

    /// True if there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.many == 0
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Where such shapes are kept.
    #[inline]
    pub(super) const fn place(&self) -> usize {
        self.mixed as usize >> 32 & (PLACES - 1)
    }
}

impl<'a> FromIterator<&'a Met> for Mets {
    fn from_iter<I: IntoIterator<Item = &'a Met>>(mets: I) -> Self {
        let mut all = Self::default();
        mets.into_iter().for_each(|met| all.push(met));
        all
    }
}

impl Shapes {
    /// True if `mets` were handed over and are still known. From now on they are.
    #[inline]
    pub(super) fn knows(&mut self, mets: &Mets) -> bool {
        let known = &mut self.0[mets.place()];
        if !mets.is_empty() && **known == *mets.words {
            return true;
        }
        remember(known, &mets.words);
        false
    }

    /// The shape in that place.
    pub(super) fn at(&self, place: usize) -> &[u64] {
        &self.0[place % PLACES]
    }

    /// Keeps what was read for that place.
    pub(super) fn keep(&mut self, place: usize, words: &[u64]) {
        remember(&mut self.0[place % PLACES], words);
    }
}

#[cold]
fn remember(known: &mut SmallVec<[u64; LONGEST]>, words: &[u64]) {
    known.clear();
    if words.len() <= LONGEST {
        known.extend_from_slice(words);
    }
}

/// The limits that `words` are of.
pub(super) fn read(words: &[u64]) -> impl Iterator<Item = Given> {
    let mut words = words.iter().copied();
    std::iter::from_fn(move || {
        let brief = Brief(words.next()?);
        let cost = if brief.has_cost() { words.next()? } else { brief.cost() };
        let period = if brief.has_period() { Some(Span::from_micros(words.next()?)) } else { None };
        Some(Given { limit: brief.limit(), who: brief.who(), period, cost })
    })
}

/// Bits 0 to 15: the cost, or that it follows; 16: the period follows; 17 to 30: who; from 32 on: the limit.
impl Brief {
    const COST_FOLLOWS: u64 = 0xffff;

    #[inline]
    fn new(met: &Met) -> Self {
        let period = u64::from(met.period != met.limit.period());
        let cost = met.cost.min(Self::COST_FOLLOWS);
        Self(cost | period << 16 | u64::from(met.who & 0x3fff) << 17 | u64::from(met.limit.number()) << 32)
    }

    const fn has_cost(self) -> bool {
        self.0 & Self::COST_FOLLOWS == Self::COST_FOLLOWS
    }

    const fn cost(self) -> u64 {
        self.0 & Self::COST_FOLLOWS
    }

    const fn has_period(self) -> bool {
        self.0 & 1 << 16 != 0
    }

    const fn who(self) -> u16 {
        (self.0 >> 17 & 0x3fff) as u16
    }

    const fn limit(self) -> u32 {
        (self.0 >> 32) as u32
    }
}
