//! Who is meant, without saying who: a kind and a keyed hash.

use std::fmt;
use std::str::FromStr;

use crate::key::{Absorbing, Secret, Subject, each_marked_word};

/// Whom something is held against or granted to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubjectId {
    kind: SubjectKind,
    /// The halves of the hash, low and high.
    hash: [u64; 2],
}

/// What a subject is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SubjectKind {
    /// The network of an address, as large as one client has.
    Address,
    /// A user who proved who it is, within its tenant.
    User,
    /// A user whose name anybody could have written.
    NamedUser,
    /// A tenant.
    Tenant,
    /// An account that people log in to.
    Account,
    /// An account together with where the login comes from.
    Source,
    /// A device that an account was used on, by the token it was given.
    Device,
    /// A key that a caller of the decision API, of RESP or of a proxy's rate limit service named: nobody that requests come
    /// from.
    Key,
}

/// Makes subject ids under one secret.
#[derive(Clone)]
pub struct SubjectKey(crate::key::WordHasher);

/// A text that is no subject id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no subject; write one as it is listed, such as address:0123456789abcdef0123456789abcdef")]
pub struct SubjectIdError(String);

impl Secret {
    /// The maker of subject ids.
    #[must_use]
    pub fn subject_key(&self) -> SubjectKey {
        SubjectKey(self.words_for(b"subject"))
    }

    /// What tells this secret from another, and nothing else about it: for a store or ledger to refuse the wrong one.
    #[must_use]
    pub fn fingerprint(&self) -> u128 {
        let [low, high] = self.words_for(b"fingerprint").hash(&[]);
        u128::from(high) << 64 | u128::from(low)
    }
}

impl SubjectKey {
    /// The id of the subject of that kind and name. Names of different kinds must differ in their marks.
    #[must_use]
    #[inline]
    pub fn id(&self, kind: SubjectKind, name: &Subject) -> SubjectId {
        SubjectId { kind, hash: self.0.hash(name.words()) }
    }
}

/// An id in the making: the parts of a name one after the other, none of which is kept.
#[derive(Clone, Copy)]
pub struct Naming(Absorbing);

impl SubjectKey {
    /// Begins an id whose parts come one by one.
    #[must_use]
    #[inline(always)]
    pub const fn begin(&self) -> Naming {
        Naming(self.0.begin())
    }
}

impl Naming {
    /// The same with a part more, and a mark that says what it is.
    #[must_use]
    #[inline(always)]
    pub fn with(mut self, mark: u8, part: &[u8]) -> Self {
        each_marked_word(mark, part, |word| self.0.absorb(word));
        self
    }

    /// The lower half of the id's hash, which is cheaper to have.
    #[must_use]
    #[inline(always)]
    pub const fn low(self) -> u64 {
        self.0.finish_low()
    }

    /// The id: the same as [`SubjectKey::id`] of these parts in one [`Subject`].
    #[must_use]
    #[inline(always)]
    pub const fn id(self, kind: SubjectKind) -> SubjectId {
        SubjectId { kind, hash: self.0.finish() }
    }
}

impl SubjectId {
    /// An id from its parts, as ledgers keep them.
    #[must_use]
    pub const fn from_raw(kind: SubjectKind, hash: [u64; 2]) -> Self {
        Self { kind, hash }
    }

    /// What the subject is.
    #[must_use]
    pub const fn kind(&self) -> SubjectKind {
        self.kind
    }

    /// The halves of the hash, low and high.
    #[must_use]
    pub const fn halves(&self) -> [u64; 2] {
        self.hash
    }

    /// True if it may be sanctioned: who proved who it is, or a network. Others could be made to look guilty.
    #[must_use]
    pub const fn can_be_sanctioned(&self) -> bool {
        matches!(self.kind, SubjectKind::Address | SubjectKind::User)
    }
}

impl SubjectKind {
    /// All of them, each at its own number.
    pub const ALL: [Self; 8] = [
        Self::Address,
        Self::User,
        Self::NamedUser,
        Self::Tenant,
        Self::Account,
        Self::Source,
        Self::Device,
        Self::Key,
    ];

    /// The name, as ids are written with.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::User => "user",
            Self::NamedUser => "named-user",
            Self::Tenant => "tenant",
            Self::Account => "account",
            Self::Source => "source",
            Self::Device => "device",
            Self::Key => "key",
        }
    }
}

impl fmt::Display for SubjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.hash;
        write!(f, "{}:{high:016x}{low:016x}", self.kind.name())
    }
}

impl fmt::Debug for SubjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SubjectId {
    type Err = SubjectIdError;

    fn from_str(text: &str) -> Result<Self, SubjectIdError> {
        let wrong = || SubjectIdError(text.chars().take(80).collect());
        let (kind, hash) = text.split_once(':').ok_or_else(wrong)?;
        let kind = SubjectKind::ALL.into_iter().find(|known| known.name() == kind).ok_or_else(wrong)?;
        if hash.len() != 32 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let half = |half: Option<&str>| half.and_then(|half| u64::from_str_radix(half, 16).ok());
        let (high, low) = (half(hash.get(..16)), half(hash.get(16..)));
        Ok(Self { kind, hash: [low.ok_or_else(wrong)?, high.ok_or_else(wrong)?] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        let key = Secret::new([7; 16]).subject_key();
        for kind in SubjectKind::ALL {
            let id = key.id(kind, &Subject::new("alice"));
            assert_eq!(id.to_string().parse(), Ok(id), "{id}");
        }
        for wrong in [
            "",
            "alice",
            "user:",
            "user:12",
            "robot:0123456789abcdef0123456789abcdef",
            "user:+123456789abcdef0123456789abcdef",
        ] {
            assert!(wrong.parse::<SubjectId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ids_and_fingerprints_belong_to_their_secret() {
        let (one, other) = (Secret::new([7; 16]), Secret::new([8; 16]));
        let id = |secret: &Secret| secret.subject_key().id(SubjectKind::User, &Subject::new("alice"));
        assert_ne!(id(&one), id(&other));
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_eq!(one.fingerprint(), Secret::new([7; 16]).fingerprint());
    }

    #[test]
    fn parts_one_by_one_make_the_same_id() {
        let key = Secret::new([7; 16]).subject_key();
        for length in 0..40 {
            let (one, other) = (vec![b'a'; length], vec![b'b'; 39 - length]);
            let mut name = Subject::default();
            name.push_marked(1, &one);
            name.push_marked(2, &other);
            let naming = key.begin().with(1, &one).with(2, &other);
            let id = key.id(SubjectKind::User, &name);
            assert_eq!((naming.id(SubjectKind::User), naming.low()), (id, id.halves()[0]), "{length}");
        }
    }

    #[test]
    fn only_users_who_proved_it_and_addresses_can_be_sanctioned() {
        let can: Vec<_> = SubjectKind::ALL
            .into_iter()
            .filter(|kind| SubjectId::from_raw(*kind, [0; 2]).can_be_sanctioned())
            .collect();
        assert_eq!(can, [SubjectKind::Address, SubjectKind::User]);
    }
}
