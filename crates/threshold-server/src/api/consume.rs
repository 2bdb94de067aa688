//! Charges that callers name themselves: one, or many as one.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use threshold::engine::{Charge, ChargeError, Charged, Chosen, Receipt};
use threshold::{AlgorithmKind, Rate};
use threshold_http::Answer;

use super::answer::Answered;
use super::idempotency::Known;
use super::read::{Object, Text, bad, body, given, question, unprocessable, whole};
use super::write::{charged, document, undecided};
use super::{Shared, ask};
use crate::keys::Caller;

/// The most charges of one question.
const MOST: usize = 1_000;
/// The longest key.
const KEY_BYTES: usize = 1_024;
/// How long an answer is remembered, and how long at most.
const REMEMBERED: Duration = Duration::from_secs(600);
const REMEMBERED_MOST: Duration = Duration::from_secs(24 * 60 * 60);

/// One charge.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One<'a> {
    #[serde(borrow, default, deserialize_with = "given")]
    limit: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    tier: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    rate: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    algorithm: Option<Text<'a>>,
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(default, deserialize_with = "given")]
    cost: Option<u64>,
}

/// One charge or a batch of them, and the name of the question.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Question<'a> {
    #[serde(borrow, default, deserialize_with = "given")]
    limit: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    tier: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    rate: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    algorithm: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    key: Option<Text<'a>>,
    #[serde(default, deserialize_with = "given")]
    cost: Option<u64>,
    #[serde(borrow, default, deserialize_with = "given")]
    batch: Option<Vec<Object<One<'a>>>>,
    #[serde(default, deserialize_with = "given")]
    atomic: Option<bool>,
    #[serde(borrow, default, deserialize_with = "given")]
    receipt: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    idempotency_key: Option<Text<'a>>,
    #[serde(default, deserialize_with = "given")]
    idempotency_ttl_ms: Option<u64>,
}

/// What is to be done with the charges.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Charge,
    Peek,
    Refund,
}

pub(super) async fn consume(
    shared: &Arc<Shared>,
    caller: Caller,
    request: Request<Incoming>,
) -> Result<Answered, Box<Answer>> {
    let body = body(request).await?;
    once(shared, caller, Verb::Charge, body).await
}

pub(super) async fn refund(
    shared: &Arc<Shared>,
    caller: Caller,
    request: Request<Incoming>,
) -> Result<Answered, Box<Answer>> {
    let body = body(request).await?;
    once(shared, caller, Verb::Refund, body).await
}

pub(super) async fn peek(shared: &Arc<Shared>, request: Request<Incoming>) -> Result<Answered, Box<Answer>> {
    let body = body(request).await?;
    let question: Question<'_> = question(&body)?;
    if question.idempotency_key.is_some() {
        return Err(bad("bad_request", "a look charges nothing, and needs no `idempotencyKey`"));
    }
    answer(shared, Verb::Peek, &question).await.map(document)
}

/// Answers a question; if it has a name, then once.
async fn once(
    shared: &Arc<Shared>,
    caller: Caller,
    verb: Verb,
    body: Bytes,
) -> Result<Answered, Box<Answer>> {
    let asked: Question<'_> = question(&body)?;
    let Some(name) = &asked.idempotency_key else {
        if asked.idempotency_ttl_ms.is_some() {
            return Err(bad("bad_request", "`idempotencyTtlMs` needs an `idempotencyKey`"));
        }
        return answer(shared, verb, &asked).await.map(document);
    };
    if name.as_str().is_empty() || name.as_str().len() > KEY_BYTES {
        return Err(bad("bad_request", "`idempotencyKey` must have 1 to 1024 bytes"));
    }
    let lifetime = match asked.idempotency_ttl_ms.map(Duration::from_millis) {
        None => REMEMBERED,
        Some(lifetime) if !lifetime.is_zero() && lifetime <= REMEMBERED_MOST => lifetime,
        Some(_) => return Err(bad("bad_request", "`idempotencyTtlMs` must be 1 to 86400000")),
    };
    let known = Known { caller, verb: verb as u8, name: name.as_str(), lifetime };
    let cell = shared.idempotency.find(&known);
    // On its own, so that a caller who breaks off does not leave a charge behind that nobody knows of.
    let (shared, body) = (Arc::clone(shared), body.clone());
    let asking = tokio::spawn(async move {
        let mut known = cell.lock().await;
        if let Some(answer) = shared.idempotency.repeated(known.as_ref(), &body)? {
            return Ok(answer);
        }
        let asked: Question<'_> = question(&body)?;
        let answer = answer(&shared, verb, &asked).await?;
        *known = Some(shared.idempotency.answered(&body, answer.clone()));
        Ok(answer)
    });
    match asking.await {
        Ok(answered) => answered.map(document),
        Err(_) => Err(Box::new(Answer::unavailable())),
    }
}

async fn answer(shared: &Shared, verb: Verb, question: &Question<'_>) -> Result<Bytes, Box<Answer>> {
    match (&question.batch, question.single()?) {
        (Some(batch), None) => many(shared, verb, question, batch).await,
        (None, Some(one)) => {
            let charge = one.charge()?;
            let result = match (verb, &question.receipt) {
                (Verb::Refund, Some(receipt)) => {
                    let receipt: Receipt = receipt.as_str().parse().map_err(refused)?;
                    ask::refund(&shared.engine, &charge, &receipt).await
                }
                (Verb::Refund, None) => {
                    let detail =
                        "a refund needs the `receipt` of its charge; send back the one that came with it";
                    return Err(bad("bad_request", detail));
                }
                (_, Some(_)) => return Err(bad("bad_request", "a `receipt` is for /v1/refund")),
                (verb, None) => run(shared, verb, &[charge])
                    .await
                    .and_then(|mut all| all.pop().ok_or(ChargeError::TooMany)),
            };
            Ok(charged(&result.map_err(refused)?).to_string().into())
        }
        (Some(_), Some(_)) => Err(bad("bad_request", "send one charge or a `batch`, not both")),
        (None, None) => Err(bad("bad_request", "send `key` with `limit` or `rate`, or a `batch` of those")),
    }
}

async fn many(
    shared: &Shared,
    verb: Verb,
    question: &Question<'_>,
    batch: &[Object<One<'_>>],
) -> Result<Bytes, Box<Answer>> {
    if verb == Verb::Refund || question.receipt.is_some() {
        return Err(bad("bad_request", "charges are given back one by one; send no `batch`"));
    }
    if batch.is_empty() || batch.len() > MOST {
        return Err(bad("bad_request", "a `batch` has 1 to 1000 charges; send the rest as another"));
    }
    let charges = batch
        .iter()
        .enumerate()
        .map(|(place, Object(one))| one.charge().map_err(|answer| placed(*answer, place)));
    let charges: Vec<Charge<'_>> = charges.collect::<Result<_, _>>()?;
    let atomic = question.atomic.unwrap_or(true);
    let (allowed, results) = match atomic {
        true => match run(shared, verb, &charges).await {
            Ok(all) => (all.iter().all(|one| one.allowed), all.iter().map(charged).collect()),
            Err(error) => {
                all_chargeable(shared, &charges)?;
                return Err(refused(error));
            }
        },
        false => each(shared, verb, &charges).await?,
    };
    Ok(json!({ "allowed": allowed, "atomic": atomic, "results": results }).to_string().into())
}

/// Whether all of `charges` are allowed, each for itself, and what came of each. One that cannot be decided does not take the
/// results of the others with it: those were charged.
async fn each(shared: &Shared, verb: Verb, charges: &[Charge<'_>]) -> Result<(bool, Vec<Json>), Box<Answer>> {
    // Before the first is charged: a question that makes no sense is refused whole.
    all_chargeable(shared, charges)?;
    let (mut allowed, mut all, mut first) = (true, Vec::with_capacity(charges.len()), None);
    let mut undecided_only = true;
    for charge in charges {
        let one = run(shared, verb, std::slice::from_ref(charge)).await;
        match one.and_then(|mut one| one.pop().ok_or(ChargeError::TooMany)) {
            Ok(one) => {
                (allowed, undecided_only) = (allowed && one.allowed, false);
                all.push(charged(&one));
            }
            Err(error) => {
                let answer = refused(error);
                allowed = false;
                all.push(undecided(charge, &answer));
                first = first.or(Some(answer));
            }
        }
    }
    match first {
        Some(answer) if undecided_only => Err(answer),
        _ => Ok((allowed, all)),
    }
}

/// Names the first charge that cannot be made, whatever is left.
fn all_chargeable(shared: &Shared, charges: &[Charge<'_>]) -> Result<(), Box<Answer>> {
    charges.iter().enumerate().try_for_each(|(place, charge)| {
        shared.engine.chargeable(charge).map_err(|error| placed(*refused(error), place))
    })
}

async fn run(shared: &Shared, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Charged>, ChargeError> {
    match verb {
        Verb::Peek => ask::peek(&shared.engine, charges).await,
        Verb::Charge | Verb::Refund => ask::charge(&shared.engine, charges).await,
    }
}

impl<'a> Question<'a> {
    /// The one charge that it is about, if it is about one.
    fn single(&self) -> Result<Option<One<'a>>, Box<Answer>> {
        let Self { limit, tier, rate, algorithm, key, cost, .. } = self;
        let Some(key) = key.clone() else {
            let texts = [limit, tier, rate, algorithm];
            return match texts.iter().any(|text| text.is_some()) || cost.is_some() {
                true => Err(bad("bad_request", "`key` is missing: whom is it charged to?")),
                false => Ok(None),
            };
        };
        let [limit, tier, rate, algorithm] = [limit, tier, rate, algorithm].map(Clone::clone);
        Ok(Some(One { limit, tier, rate, algorithm, key, cost: *cost }))
    }
}

impl One<'_> {
    fn charge(&self) -> Result<Charge<'_>, Box<Answer>> {
        let [limit, tier, rate, algorithm] = [&self.limit, &self.tier, &self.rate, &self.algorithm]
            .map(|text| text.as_ref().map(Text::as_str));
        let key = self.key.as_str();
        if key.is_empty() || key.len() > KEY_BYTES {
            return Err(bad("bad_request", "`key` must have 1 to 1024 bytes"));
        }
        let cost = match self.cost {
            None => NonZeroU64::MIN,
            Some(cost) => NonZeroU64::new(whole("cost", 0, cost)?).ok_or_else(|| {
                bad("bad_request", "`cost` must be at least 1; to look without charging, use /v1/peek")
            })?,
        };
        let by = match (limit, rate) {
            (Some(limit), None) if algorithm.is_none() => Chosen::Limit(limit, tier),
            (Some(_), None) => {
                return Err(bad("bad_request", "a `limit` has an algorithm of its own; leave it out"));
            }
            (None, Some(_)) if tier.is_some() => {
                return Err(bad("bad_request", "a `rate` is the same for every tier; leave it out"));
            }
            (None, Some(rate)) => Chosen::Rate(parse(rate)?, kind(algorithm)?),
            (Some(_), Some(_)) => return Err(bad("bad_request", "send a `limit` or a `rate`, not both")),
            (None, None) => {
                return Err(bad(
                    "bad_request",
                    "send a `limit` of the policy, or a `rate` such as \"100/min\"",
                ));
            }
        };
        Ok(Charge { by, key, cost })
    }
}

fn parse(rate: &str) -> Result<Rate, Box<Answer>> {
    rate.parse().map_err(|error: threshold::RateError| bad("bad_rate", &format!("`rate`: {error}")))
}

fn kind(name: Option<&str>) -> Result<AlgorithmKind, Box<Answer>> {
    let Some(name) = name else { return Ok(AlgorithmKind::default()) };
    AlgorithmKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
        let known = AlgorithmKind::ALL.map(AlgorithmKind::name).join(", ");
        bad("bad_request", &format!("`algorithm`: there is no {name:?}; there are {known}"))
    })
}

/// Why a charge could not be made.
fn refused(error: ChargeError) -> Box<Answer> {
    match &error {
        ChargeError::Store(_) => Box::new(Answer::unavailable()),
        ChargeError::NoLimit { .. } => {
            Box::new(Answer::new(StatusCode::NOT_FOUND, "no_such_limit", &error.to_string()))
        }
        ChargeError::Used => Box::new(Answer::new(StatusCode::CONFLICT, "receipt_used", &error.to_string())),
        ChargeError::Receipt | ChargeError::TooMuch(_) => unprocessable("bad_receipt", &error.to_string()),
        _ => unprocessable("cannot_be_charged", &error.to_string()),
    }
}

/// The same, for one of many.
fn placed(answer: Answer, place: usize) -> Box<Answer> {
    Box::new(answer.with("place", place))
}
