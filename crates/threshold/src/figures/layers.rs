//! What decisions came to in each layer.

use super::Ending;
use crate::policy::Layer;

/// Some layers, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers(u8);

impl Layers {
    /// How many sets there are.
    pub(super) const SETS: usize = 1 << Layer::ALL.len();

    /// None of them.
    pub const NONE: Self = Self(0);

    /// The same, with `layer`.
    #[must_use]
    #[inline]
    pub const fn with(self, layer: Layer) -> Self {
        Self(self.0 | 1 << layer as u8)
    }

    /// The same, without those of `others`.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Those of them that a request meets before `layer`.
    #[must_use]
    pub const fn before(self, layer: Layer) -> Self {
        Self(self.0 & ((1 << layer as u8) - 1))
    }

    /// True if `layer` is one of them.
    #[must_use]
    pub const fn has(self, layer: Layer) -> bool {
        self.0 >> layer as u8 & 1 == 1
    }

    /// Its place among all sets.
    #[inline]
    pub(super) const fn place(self) -> usize {
        self.0 as usize % Self::SETS
    }

    /// All sets, in the order of their places.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..Self::SETS as u8).map(Self)
    }
}

impl FromIterator<Layer> for Layers {
    #[inline]
    fn from_iter<I: IntoIterator<Item = Layer>>(layers: I) -> Self {
        layers.into_iter().fold(Self::NONE, Self::with)
    }
}

/// What decisions came to in one layer: of those that reached it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InLayer {
    /// Went on to the next.
    pub allowed: u64,
    /// Went on with a warning for this layer.
    pub warned: u64,
    /// Went on and were held back.
    pub delayed: u64,
    /// Were refused by it.
    pub denied: u64,
}

impl InLayer {
    /// Its fields, by the names of labels.
    #[must_use]
    pub const fn fields(&self) -> [(&'static str, u64); 4] {
        let Self { allowed, warned, delayed, denied } = *self;
        [("allowed", allowed), ("warned", warned), ("delayed", delayed), ("denied", denied)]
    }

    /// What came since `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            allowed: self.allowed.saturating_sub(before.allowed),
            warned: self.warned.saturating_sub(before.warned),
            delayed: self.delayed.saturating_sub(before.delayed),
            denied: self.denied.saturating_sub(before.denied),
        }
    }

    /// Adds `count` decisions that came to `ending` here.
    pub(super) const fn add(&mut self, ending: Ending, count: u64) {
        let field = match ending {
            Ending::Allowed => &mut self.allowed,
            Ending::Warned => &mut self.warned,
            Ending::Delayed => &mut self.delayed,
            Ending::Limited | Ending::Banned | Ending::Cooldown | Ending::Listed | Ending::BadPath => {
                &mut self.denied
            }
        };
        *field += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let some: Layers = [Layer::Edge, Layer::User].into_iter().collect();
        let has: Vec<bool> = Layer::ALL.iter().map(|layer| some.has(*layer)).collect();
        assert_eq!(has, [true, false, true, false]);
        assert_eq!(some.before(Layer::User), Layers::NONE.with(Layer::Edge));
        assert_eq!(some.without(Layers::NONE.with(Layer::Edge)), Layers::NONE.with(Layer::User));
        assert_eq!(Layers::all().nth(some.place()), Some(some));
    }
}
