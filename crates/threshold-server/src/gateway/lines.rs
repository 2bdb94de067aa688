//! The header lines of a head, as they came: for who need not have them as a map, which takes much longer to make.

use bytes::Bytes;
use smallvec::SmallVec;
use threshold::identify::Headers;

/// The longest head whose places can be told.
pub(super) const LONGEST: usize = u16::MAX as usize;

/// Where something stands in a head.
pub(super) type Place = (u16, u16);

/// Where names and values are. More than most heads have fit without a piece of memory of their own.
type Places = SmallVec<[(Place, Place); 16]>;

/// A head, and where its lines are.
#[derive(Debug)]
pub(super) struct Lines {
    head: Bytes,
    places: Places,
}

impl Lines {
    /// The lines of a `head`, which were `parsed` where it begins.
    pub(super) fn new(head: Bytes, places: Places) -> Self {
        Self { head, places }
    }

    /// Where the lines are that were `parsed` at the begin of `received`.
    pub(super) fn find(received: &[u8], parsed: &[httparse::Header<'_>]) -> Places {
        let lines = parsed.iter();
        lines.map(|line| (place(received, line.name.as_bytes()), place(received, line.value))).collect()
    }

    /// Each name and its value.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.places.iter().map(|&(name, value)| (self.at(name), self.at(value)))
    }

    /// Each name, and its value without a copy.
    pub(super) fn shared(&self) -> impl Iterator<Item = (&[u8], Bytes)> {
        let slice = |(from, to): Place| self.head.slice(usize::from(from)..usize::from(to));
        self.places.iter().map(move |&(name, value)| (self.at(name), slice(value)))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// What stands at a place.
    pub(super) fn at(&self, (from, to): Place) -> &[u8] {
        &self.head[usize::from(from)..usize::from(to)]
    }
}

/// Where `part`, which is a part of it, stands in `whole`.
pub(super) fn place(whole: &[u8], part: &[u8]) -> Place {
    let from = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    let short = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
    (short(from), short(from + part.len()))
}

impl Headers for Lines {
    fn each<'h>(&'h self, name: &str, visit: &mut dyn FnMut(&'h [u8])) {
        let named = self.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
        named.for_each(|(_, value)| visit(value));
    }
}
