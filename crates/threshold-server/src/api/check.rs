//! May this request go on, by all layers of the policy.

use std::num::NonZeroU64;

use bytes::Bytes;
use http::Request;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::Value as Json;
use threshold::engine::{Engine, Extras};
use threshold::identify::Headers;
use threshold::{Clock, Ledger, Store};
use threshold_http::respond::Notes;
use threshold_http::{Answer, Place};

use super::answer::Answered;
use super::read::{Address, Lines, Text, bad, body, given, question, whole};
use super::write::{Told, document, explained};
use super::{Settings, Shared, ask};
use crate::described::{self, Described};

/// A request that somebody else has received.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Check<'a> {
    ip: Address,
    #[serde(borrow)]
    method: Text<'a>,
    #[serde(borrow)]
    path: Text<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    host: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    tenant: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    tier: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    user: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    account: Option<Text<'a>>,
    #[serde(default, deserialize_with = "given")]
    cost: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    bytes: Option<u64>,
    #[serde(borrow, default)]
    headers: Lines<'a>,
}

impl Headers for Lines<'_> {
    fn each<'h>(&'h self, name: &str, visit: &mut dyn FnMut(&'h [u8])) {
        let named = self.0.iter().filter(|(other, _)| other.as_str().eq_ignore_ascii_case(name));
        named.for_each(|(_, value): &(Text<'_>, Bytes)| visit(value));
    }
}

/// What is answered.
pub(super) enum Verdict {
    /// It may go on: what is said of it, and what its headers show.
    Allowed { text: String, notes: Notes },
    /// It may not.
    Refused(Answered),
}

pub(super) async fn check(
    shared: &Shared,
    settings: &Settings,
    request: Request<Incoming>,
) -> Result<Answered, Box<Answer>> {
    let explain = wants_explanation(request.uri().query())?;
    let body = body(request).await?;
    match ask::check(&shared.engine, settings, &body, explain).await? {
        Verdict::Allowed { text, notes } => {
            let mut response = document(text);
            notes.add_to(response.headers_mut());
            Ok(response)
        }
        Verdict::Refused(response) => Ok(response),
    }
}

/// Reads the question in `body` and has it decided.
pub(super) async fn decide<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
    settings: &Settings,
    body: &[u8],
    explain: bool,
) -> Result<Verdict, Box<Answer>> {
    let check: Check<'_> = question(body)?;
    let (account, described) = (check.spelled_account()?, check.described()?);
    let facts = described.facts(&check.headers).map_err(|detail| bad("bad_request", &detail))?;
    let extras = Extras { account: account.as_deref(), cost: check.whole_cost()?, ..Extras::default() };
    let mut decision = Place::take();
    let identity = described.identify(engine.identify(&facts));
    let unavailable = |_| Box::new(Answer::unavailable());
    engine.decide_for_into(&facts, &identity, extras, &mut decision).await.map_err(unavailable)?;
    let explanation = match explain {
        true => Some(engine.explain(&facts, &identity, extras).await.map_err(unavailable)?),
        false => None,
    };
    let told = Told { decision: &decision };
    if let Some(answer) = Answer::refused(&decision, settings.shown) {
        let members = told.refused(explanation.as_ref());
        let answer = members.into_iter().fold(answer, |answer, (name, value)| answer.with(name, value));
        return Ok(Verdict::Refused(answer.into_response()));
    }
    let text = told.allowed(explanation.as_ref());
    Ok(Verdict::Allowed { text, notes: Notes::new(&decision, settings.shown) })
}

/// Reads the question in `body` and says what would be decided and why. Nothing is charged.
pub(crate) async fn explain_only<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
    body: &[u8],
) -> Result<Json, Box<Answer>> {
    let check: Check<'_> = question(body)?;
    let (account, described) = (check.spelled_account()?, check.described()?);
    let facts = described.facts(&check.headers).map_err(|detail| bad("bad_request", &detail))?;
    let extras = Extras { account: account.as_deref(), cost: check.whole_cost()?, ..Extras::default() };
    let identity = described.identify(engine.identify(&facts));
    let explanation = engine.explain(&facts, &identity, extras).await;
    Ok(explained(&explanation.map_err(|_| Box::new(Answer::unavailable()))?))
}

impl<'a> Check<'a> {
    fn spelled_account(&self) -> Result<Option<String>, Box<Answer>> {
        self.account.as_ref().map(spelled).transpose()
    }

    fn whole_cost(&self) -> Result<Option<NonZeroU64>, Box<Answer>> {
        Ok(self.cost.map(|cost| whole("cost", 1, cost)).transpose()?.and_then(NonZeroU64::new))
    }

    fn described(&'a self) -> Result<Described<'a>, Box<Answer>> {
        let text = |text: &'a Option<Text<'a>>| text.as_ref().map(Text::as_str);
        Ok(Described {
            ip: self.ip.0,
            method: self.method.as_str(),
            path: self.path.as_str(),
            host: text(&self.host),
            tenant: text(&self.tenant),
            tier: text(&self.tier),
            user: text(&self.user),
            bytes: whole("bytes", 0, self.bytes.unwrap_or(0))?,
        })
    }
}

/// The one spelling of an account.
pub(super) fn spelled(account: &Text<'_>) -> Result<String, Box<Answer>> {
    described::spelled(account.as_str()).map_err(|detail| bad("bad_request", &detail))
}

/// Whether `?explain=true` was asked for.
fn wants_explanation(query: Option<&str>) -> Result<bool, Box<Answer>> {
    let mut explain = false;
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        explain = match pair.split_once('=').unwrap_or((pair, "true")) {
            ("explain", "true" | "1") => true,
            ("explain", "false" | "0") => false,
            ("explain", _) => return Err(bad("bad_request", "`explain` is true or false")),
            (name, _) => {
                let detail = format!("there is no parameter {name:?}; there is `explain`");
                return Err(bad("bad_request", &detail));
            }
        };
    }
    Ok(explain)
}
