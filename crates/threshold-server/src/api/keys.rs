//! Who may ask: whoever shows one of the keys that the policy has, or everybody where it has none.

use std::hash::{BuildHasher as _, RandomState};

use http::{HeaderMap, StatusCode, header};
use threshold::policy::Policy;
use threshold_http::Answer;

/// The header that carries a key where `Authorization` is somebody else's.
const KEY: &str = "x-threshold-key";

/// The keys, as hashes under a secret of this process: comparing those tells nothing about the keys.
pub(super) struct Keys {
    hasher: [RandomState; 2],
    known: Vec<[u64; 2]>,
}

/// Who asks: the place of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caller(u64);

impl Caller {
    /// Whoever needs no key.
    pub(super) const NOBODY: Self = Self(0);

    /// What tells it from others.
    pub(super) const fn number(self) -> u64 {
        self.0
    }
}

impl Keys {
    pub(super) fn new(policy: &Policy) -> Self {
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
        if self.known.is_empty() {
            return Ok(Caller::NOBODY);
        }
        let shown = headers.get(KEY).map(http::HeaderValue::as_bytes);
        let authorization = headers.get(header::AUTHORIZATION).filter(|_| bearer);
        let shown = shown.or_else(|| {
            let value = authorization?.as_bytes();
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
