//! What belongs together where a backend cannot be atomic over everything.

use super::words::WordHasher;

/// Which keys are kept in one place where a backend cannot be atomic over everything: those of one tenant, or without one
/// of a user or an address, by 16 bits of a keyed hash. Those that share them share a place, which does no harm. Stores
/// that are atomic over everything ignore it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition(pub u16);

/// Finds the partition of a subject.
#[derive(Clone)]
pub(super) struct Partitions(WordHasher);

impl Partitions {
    pub(super) const fn new(hasher: WordHasher) -> Self {
        Self(hasher)
    }

    /// The partition of a subject whose parts are these words. It is its first part's that is not empty: a user's name
    /// begins with its tenant, so both go together, and an address is the same whatever it stands for.
    pub(super) fn of(&self, mut words: &[u64]) -> Partition {
        while let [first, rest @ ..] = words {
            // A mark above, which does not matter here, and the length in bytes.
            let length = usize::try_from(first & LENGTH).unwrap_or(usize::MAX).div_ceil(8).min(rest.len());
            if length > 0 {
                return self.hash(&rest[..length]);
            }
            words = rest;
        }
        self.hash(&[])
    }

    #[expect(clippy::cast_possible_truncation, reason = "16 bits are wanted")]
    fn hash(&self, words: &[u64]) -> Partition {
        Partition(self.0.hash(words)[0] as u16)
    }
}

const LENGTH: u64 = (1 << 56) - 1;

#[cfg(test)]
mod tests {
    use crate::{Algorithm, LimitId, LimitKey, Secret, Subject, Unit};

    fn keys(secret: Secret, id: &str) -> LimitKey {
        let rate = "5/min".parse().expect("a rate");
        let algorithm = Algorithm::token_bucket(&rate).expect("a limit");
        secret.limit_key(&LimitId::new(id).expect("a name"), &algorithm, Unit::Requests)
    }

    fn subject(parts: &[(u8, &str)]) -> Subject {
        let mut subject = Subject::default();
        parts.iter().for_each(|(mark, part)| subject.push_marked(*mark, part.as_bytes()));
        subject
    }

    #[test]
    fn a_tenant_and_its_users_go_together_under_every_limit() {
        let partitioning = || Secret::new([7; 16]).partitioning();
        let (one, other) = (keys(partitioning(), "one"), keys(partitioning(), "other"));
        let tenant = one.key_of(&subject(&[(1, "acme")])).partition();
        for name in ["alice", "bob"] {
            assert_eq!(other.key_of(&subject(&[(2, "acme"), (0, name)])).partition(), tenant);
        }
        let of = |name: &str| one.key_of(&subject(&[(2, ""), (0, name)])).partition();
        assert_ne!(of("alice"), of("bob"), "without a tenant each user for itself");
        assert_eq!(one.key("acme").partition(), tenant, "a single part is the same");
    }

    #[test]
    fn nobody_has_a_partition_unless_it_is_asked_for() {
        let with = keys(Secret::new([7; 16]).partitioning(), "one").key("acme");
        let without = keys(Secret::new([7; 16]), "one").key("acme");
        assert_eq!((without.partition().0, without.hash()), (0, with.hash()));
        assert_ne!(with.partition().0, 0);
    }
}
