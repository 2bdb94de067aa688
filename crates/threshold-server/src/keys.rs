//! Keys of programs that ask for decisions: those that the policy has, whatever protocol they are shown in.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use threshold::policy::Policy;

/// What keys are hashed under: a secret of this process, the same for every policy that it reads.
static HASHER: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);

/// The keys, as hashes under a secret of this process: comparing those tells nothing about the keys.
pub(crate) struct Keys(Vec<(String, [u64; 2])>);

/// Who asks: the hash of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller([u64; 2]);

impl Caller {
    /// Whoever needs no key.
    pub(crate) const NOBODY: Self = Self([0; 2]);

    /// What tells it from others.
    pub(crate) const fn number(self) -> u64 {
        self.0[0]
    }
}

impl Keys {
    pub(crate) fn new(policy: &Policy) -> Self {
        let written = policy.api.iter().flat_map(|api| &api.keys.0);
        Self(written.map(|(name, key)| (name.value.clone(), hash(key.value.as_bytes()))).collect())
    }

    /// True if nobody needs one.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Who shows `key`, if it is one of them; that of `name`, if one is given.
    pub(crate) fn find(&self, name: Option<&[u8]>, key: &[u8]) -> Option<Caller> {
        let shown = hash(key);
        let named = |other: &str| name.is_none_or(|name| name == other.as_bytes());
        let known = self.0.iter().find(|(other, known)| *known == shown && named(other));
        known.map(|(_, known)| Caller(*known))
    }

    /// Who shows one in `authorization`, or nobody in particular where none is needed.
    pub(crate) fn find_bearer(&self, authorization: Option<&[u8]>) -> Option<Caller> {
        if self.is_empty() {
            return Some(Caller::NOBODY);
        }
        self.find(None, bearer_of(authorization?)?)
    }

    /// True if `caller` has one of them still.
    pub(crate) fn has(&self, caller: Caller) -> bool {
        self.0.iter().any(|(_, known)| *known == caller.0)
    }
}

/// The key in the value of an `Authorization` header.
pub(crate) fn bearer_of(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = authorization.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

fn hash(key: &[u8]) -> [u64; 2] {
    [HASHER[0].hash_one(key), HASHER[1].hash_one(key)]
}
