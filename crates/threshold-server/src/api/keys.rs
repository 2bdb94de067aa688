//! Who may ask: whoever shows one of the keys that the policy has, or everybody where it has none.

use http::{HeaderMap, HeaderName, StatusCode, header};
use threshold_http::Answer;

use crate::keys::{Caller, Keys, bearer_of};

/// The header that carries a key where `Authorization` is somebody else's.
const KEY: HeaderName = HeaderName::from_static("x-threshold-key");

/// Who shows a key; `bearer` if it may stand in `Authorization`.
pub(super) fn admit(keys: &Keys, headers: &HeaderMap, bearer: bool) -> Result<Caller, Box<Answer>> {
    if keys.is_empty() {
        return Ok(Caller::NOBODY);
    }
    let of = |name: &HeaderName| headers.get(name).map(http::HeaderValue::as_bytes);
    look(keys, of(&KEY), of(&header::AUTHORIZATION).filter(|_| bearer), bearer)
}

/// The same for who has read the headers.
pub(super) fn admit_shown(
    keys: &Keys,
    key: Option<&[u8]>,
    authorization: Option<&[u8]>,
) -> Result<Caller, Box<Answer>> {
    if keys.is_empty() { Ok(Caller::NOBODY) } else { look(keys, key, authorization, true) }
}

fn look(
    keys: &Keys,
    key: Option<&[u8]>,
    authorization: Option<&[u8]>,
    bearer: bool,
) -> Result<Caller, Box<Answer>> {
    let shown = key.or_else(|| bearer_of(authorization?));
    let caller = shown.and_then(|key| keys.find(None, key));
    caller.ok_or_else(|| unknown(bearer, shown.is_some()))
}

fn unknown(bearer: bool, shown: bool) -> Box<Answer> {
    let remedy = match bearer {
        true => "send one of [api].keys as `Authorization: Bearer KEY` or `X-Threshold-Key: KEY`",
        false => "let the proxy send one of [api].keys as `X-Threshold-Key: KEY`",
    };
    let what = if shown { "this key is none of ours" } else { "a key is needed" };
    Box::new(Answer::new(StatusCode::UNAUTHORIZED, "unauthorized", &format!("{what}; {remedy}")))
}
