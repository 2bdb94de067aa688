//! Who may ask: whoever shows one of the keys that the policy has, or everybody where it has none.

use std::hash::{BuildHasher as _, RandomState};

use http::{HeaderMap, HeaderName, StatusCode, header};
use threshold::policy::Policy;
use threshold_http::Answer;

/// The header that carries a key where `Authorization` is somebody else's.
const KEY: HeaderName = HeaderName::from_static("x-threshold-key");

/// The keys, as hashes under a secret of this process: comparing those tells nothing about the keys.
pub(crate) struct Keys {
    hasher: [RandomState; 2],
    known: Vec<[u64; 2]>,
}

/// Who asks: the place of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller(u64);

impl Caller {
    /// Whoever needs no key.
    pub(super) const NOBODY: Self = Self(0);

    /// What tells it from others.
    pub(super) const fn number(self) -> u64 {
        self.0
    }
}

impl Keys {
    pub(crate) fn new(policy: &Policy) -> Self {
        let mut keys = Self { hasher: [RandomState::new(), RandomState::new()], known: Vec::new() };
        let written = policy.api.iter().flat_map(|api| &api.keys.0);
        keys.known = written.map(|(_, key)| keys.hash(key.value.as_bytes())).collect();
        keys
    }

    fn hash(&self, key: &[u8]) -> [u64; 2] {
        [self.hasher[0].hash_one(key), self.hasher[1].hash_one(key)]
    }

    /// Who shows a key; `bearer` if it may stand in `Authorization`.
    pub(super) fn admit(&self, headers: &HeaderMap, bearer: bool) -> Result<Caller, Box<Answer>> {
        if self.is_empty() {
            return Ok(Caller::NOBODY);
        }
        let of = |name: &HeaderName| headers.get(name).map(http::HeaderValue::as_bytes);
        self.look(of(&KEY), of(&header::AUTHORIZATION).filter(|_| bearer), bearer)
    }

    /// The same for who has read the headers.
    pub(crate) fn admit_shown(
        &self,
        key: Option<&[u8]>,
        authorization: Option<&[u8]>,
    ) -> Result<Caller, Box<Answer>> {
        if self.is_empty() { Ok(Caller::NOBODY) } else { self.look(key, authorization, true) }
    }

    /// True if nobody needs one.
    pub(crate) const fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn look(
        &self,
        key: Option<&[u8]>,
        authorization: Option<&[u8]>,
        bearer: bool,
    ) -> Result<Caller, Box<Answer>> {
        let shown = key.or_else(|| {
            let value = authorization?;
            let (scheme, token) = value.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
        });
        let hash = shown.map(|key| self.hash(key));
        let place = hash.and_then(|hash| self.known.iter().position(|known| *known == hash));
        match place {
            Some(_) => Ok(Caller(hash.map_or(0, |hash| hash[0]))),
            None => Err(unknown(bearer, shown.is_some())),
        }
    }
}

fn unknown(bearer: bool, shown: bool) -> Box<Answer> {
    let remedy = match bearer {
        true => "send one of [api].keys as `Authorization: Bearer KEY` or `X-Threshold-Key: KEY`",
        false => "let the proxy send one of [api].keys as `X-Threshold-Key: KEY`",
    };
    let what = if shown { "this key is none of ours" } else { "a key is needed" };
    Box::new(Answer::new(StatusCode::UNAUTHORIZED, "unauthorized", &format!("{what}; {remedy}")))
}
