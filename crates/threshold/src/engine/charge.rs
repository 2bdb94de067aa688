//! Charges that callers name themselves: a limit of the policy or a rate, a key and a cost. They enter the path of a
//! decision at the plan: nobody is identified, and nothing is held against anybody.

mod adhoc;

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use threshold_core::{
    Action, Algorithm, AlgorithmKind, Batch, Clock, Consistency, Key, Ledger, LimitError, MAX_STEPS,
    OnFailure, Outcome, Rate, Retry, Sharing, Source, Span, Step, Store, StoreError, Timestamp,
};
use threshold_store::UniqueIds;

use super::decide::{Asked, Part};
use super::rules::Rule;
use super::select::{Plan, Request, Role, Selecting, Skipped};
use super::subject::{self, SubjectKeys, seal};
use super::{Asking, Engine, State, named};
use crate::policy::{Layer, nearest};

pub use adhoc::{AdhocCharge, AdhocCharged, AdhocKey, AdhocLimit};
pub(super) use adhoc::{AdhocError, is_adhoc, plan_adhoc};

/// Makes the keys of used receipts no others.
const RECEIPT: u64 = 0x7265_6365_6970_7421;

/// The most steps of one charge: a limit and its gate under two secrets, and one more for an override.
const MOST_STEPS: usize = 5;

/// What is charged to whom.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// By which limit.
    pub by: Chosen<'a>,
    /// To whom: a name of the caller's own, which meets no subject of requests.
    pub key: &'a str,
    /// How much.
    pub cost: NonZeroU64,
}

/// A limit, as a caller names it.
#[derive(Clone, Copy, Debug)]
pub enum Chosen<'a> {
    /// A limit of the policy; with a tier where the limit takes its rate from those.
    Limit(&'a str, Option<&'a str>),
    /// A rate of the caller's own. The same key under another rate of the same period is still the same count.
    Rate(Rate, AlgorithmKind),
}

/// What came of a charge.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Charged {
    /// The limit's id.
    pub limit: &'static str,
    /// Its layer; none for a rate of the caller's own.
    pub layer: Option<Layer>,
    /// True if the limit allows it. Whether it was charged also depends on those that were asked together with it.
    pub allowed: bool,
    /// True if it was charged.
    pub charged: bool,
    /// The capacity that was judged against.
    pub capacity: u64,
    /// How many more of cost 1 would be allowed at this instant.
    pub remaining: u64,
    /// When the same charge is allowed.
    pub retry: Retry,
    /// How long until the key is as new, if nothing else is charged.
    pub reset: Duration,
    /// The store's time of the decision.
    pub at: Timestamp,
    /// Where the answer came from.
    pub source: Source,
    /// By which it can be given back; none if nothing was charged, or not to the store itself.
    pub receipt: Option<Receipt>,
}

/// Proves a charge, so that nobody gives back what was never charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    at: u64,
    cost: u64,
    /// Which charge it was: many may be of the same cost at the same instant.
    number: u64,
    seal: [u64; 2],
}

/// A charge that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChargeError {
    /// There is no such limit.
    #[error("there is no limit {limit:?}; {remedy}")]
    NoLimit {
        /// What was asked for.
        limit: String,
        /// What to do about it.
        remedy: String,
    },
    /// It is switched off.
    #[error("limit {0:?} is switched off; set `enforce`, or ask for another")]
    Off(&'static str),
    /// It has no rate that could be charged.
    #[error("limit {0:?} refuses whatever it is for, at no rate; ask for another")]
    Refuses(&'static str),
    /// There is no such tier.
    #[error("there is no tier {tier:?}; {remedy}")]
    NoTier {
        /// What was asked for.
        tier: String,
        /// What to do about it.
        remedy: String,
    },
    /// It needs a tier.
    #[error("limit {limit:?} takes its rate from a tier, and {what}; name one of {tiers}")]
    Tier {
        /// The limit.
        limit: &'static str,
        /// What is wrong with the tier.
        what: String,
        /// Those there are.
        tiers: String,
    },
    /// It counts how many there are at the same time.
    #[error("limit {0:?} counts how many there are at the same time, which no charge ends; ask for a rate")]
    Concurrency(String),
    /// The rate cannot be represented.
    #[error(transparent)]
    Rate(#[from] LimitError),
    /// They do not fit into one operation.
    #[error("these charges need more than {} steps as one; send fewer", MAX_STEPS)]
    TooMany,
    /// The receipt is of another charge, or of none.
    #[error(
        "this receipt is not of such a charge; send back the one that came with it, with the same limit and key"
    )]
    Receipt,
    /// The receipt was used before.
    #[error("this receipt was used already; what it stands for was given back")]
    Used,
    /// More is to be given back than was charged.
    #[error("{0} were charged, and no more can be given back")]
    TooMuch(u64),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Charges made ready: what is asked, and which steps are whose.
#[derive(Default)]
struct Charging {
    asked: Asked,
    steps: Vec<Range<usize>>,
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// Charges all of `charges`, or none of them if one is refused: one atomic operation.
    ///
    /// # Errors
    ///
    /// If one of them cannot be made, or the store could make no decision.
    pub async fn charge(&self, charges: &[Charge<'_>]) -> Result<Vec<Charged>, ChargeError> {
        let mut charging = self.charging(charges)?;
        charging.asked.outcome = self.store.apply(&charging.asked.plan.batch).await?;
        let Asked { outcome, .. } = &charging.asked;
        self.count_charge(outcome.admitted(), outcome.source, || charging.asked.layers(), 1);
        self.count_charges(&charging, charges);
        if !charging.asked.outcome.admitted()
            && let Some(gates) = charging.asked.close()
        {
            self.store.apply(&gates).await?;
        }
        Ok(charging.results(charges, Some(&Seals { keys: &self.subject_keys, numbers: &self.receipts })))
    }

    /// Counts those by limits of the policy. Rates of callers' own are left out: there is no end of those.
    fn count_charges(&self, charging: &Charging, charges: &[Charge<'_>]) {
        let limits = charging.steps.iter().zip(charges);
        let limits = limits.filter(|(_, charge)| matches!(charge.by, Chosen::Limit(..)));
        let id = |charge: &Charge<'_>| subject::key_id(self.subject_keys.current(), charge.key);
        let named = limits.map(|(steps, charge)| (steps.clone(), id(charge)));
        self.count_named((&charging.asked, charging.asked.outcome.admitted(), 1), named);
    }

    /// Whether `charge` can be made, whatever is left.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn chargeable(&self, charge: &Charge<'_>) -> Result<(), ChargeError> {
        self.charging(std::slice::from_ref(charge)).map(drop)
    }

    /// What [`charge`](Self::charge) would answer now; charges nothing.
    ///
    /// # Errors
    ///
    /// As [`charge`](Self::charge).
    pub async fn peek_charges(&self, charges: &[Charge<'_>]) -> Result<Vec<Charged>, ChargeError> {
        let mut charging = self.charging(charges)?;
        charging.asked.outcome = self.store.peek(&charging.asked.plan.batch).await?;
        Ok(charging.results(charges, None))
    }

    /// Forgets what was charged to the key of `charge` by its limit, and what keeps it out.
    ///
    /// # Errors
    ///
    /// If there is no such charge, or the store fails.
    pub async fn reset_charge(&self, charge: &Charge<'_>) -> Result<(), ChargeError> {
        let charging = self.charging(std::slice::from_ref(charge))?;
        let keys: Vec<Key> = charging.asked.plan.batch.steps().iter().map(|step| step.key).collect();
        Ok(self.store.reset(&keys).await?)
    }

    /// Gives back up to what `receipt` proves of a charge, as far as it is still felt. Once for each receipt, on whichever
    /// node: the store remembers it for as long as the charge is felt.
    ///
    /// # Errors
    ///
    /// If the receipt is not of this limit and key, if it was used before, if more is to be given back than was charged, or
    /// if the store fails.
    pub async fn refund_charge(
        &self,
        charge: &Charge<'_>,
        receipt: &Receipt,
    ) -> Result<Charged, ChargeError> {
        let mut charging = self.charging(std::slice::from_ref(charge))?;
        let Some(first) = charging.asked.plan.batch.steps().first() else { return Err(ChargeError::Receipt) };
        if !receipt.is_of(first, &self.subject_keys) {
            return Err(ChargeError::Receipt);
        }
        if charge.cost.get() > receipt.cost {
            return Err(ChargeError::TooMuch(receipt.cost));
        }
        let used = receipt.used(first).ok_or(ChargeError::Receipt)?;
        // Whatever the verdicts were, what was charged was admitted, and by the store: nothing else gives receipts.
        let batch = &charging.asked.plan.batch;
        let mut outcome = self.store.peek(batch).await?;
        outcome.source = Source::Exact;
        if !self.store.apply(&Batch::from(used)).await?.admitted() {
            return Err(ChargeError::Used);
        }
        (outcome.at, outcome.charged) = (Timestamp::from_micros(receipt.at), true);
        outcome
            .verdicts
            .iter_mut()
            .for_each(|verdict| (verdict.retry, verdict.later) = (Retry::Now, Span::ZERO));
        // If that fails, nobody knows whether it was done: the receipt stays used, which harms no limit.
        self.store.refund(batch, &outcome).await?;
        charging.asked.outcome = self.store.peek(batch).await?;
        charging.results(std::slice::from_ref(charge), None).pop().ok_or(ChargeError::Receipt)
    }

    fn charging(&self, charges: &[Charge<'_>]) -> Result<Charging, ChargeError> {
        let state = self.state.load();
        let mut charging = Charging::default();
        for charge in charges {
            let from = charging.asked.plan.steps.len();
            if from + MOST_STEPS > MAX_STEPS {
                return Err(ChargeError::TooMany);
            }
            match charge.by {
                Chosen::Limit(limit, tier) => {
                    let rule = find(&state, limit)?;
                    self.plan_limit(&state, (rule, tier), charge, &mut charging.asked.plan)?;
                }
                Chosen::Rate(rate, kind) => {
                    let subject = subject::adhoc(charge.key.as_bytes());
                    let of = (&subject, charge.cost);
                    plan_adhoc(&self.secrets, (rate, kind), of, &mut charging.asked.plan)?;
                }
            }
            charging.steps.push(from..charging.asked.plan.steps.len());
        }
        Ok(charging)
    }

    /// Plans a limit of the policy, with the overrides that hold for everyone.
    fn plan_limit(
        &self,
        state: &State,
        (rule, tier): (&Rule, Option<&str>),
        charge: &Charge<'_>,
        plan: &mut Plan,
    ) -> Result<(), ChargeError> {
        let frame = &state.rules.frame;
        if rule.refuses() {
            return Err(ChargeError::Refuses(rule.name));
        }
        let index = match tier {
            Some(name) => Some(frame.tier(name).ok_or_else(|| no_such_tier(state, name))?),
            None => frame.unknown_tier,
        };
        let facts = named::facts();
        let asking = Asking::nobody(&facts);
        let mut request = Request::nobody(frame, &asking, self.edge.now());
        request.asker.named(charge.key, index);
        request.charge = Some(charge.cost);
        match Selecting::new(&state.overrides, &request).try_add(rule, plan) {
            Ok(()) => Ok(()),
            Err(Skipped::Off) => Err(ChargeError::Off(rule.name)),
            Err(Skipped::Tier) => Err(no_tier(state, rule, "none was named")),
            Err(_) => Err(ChargeError::Concurrency(rule.name.to_owned())),
        }
    }
}

/// The limit called `limit`.
fn find<'a>(state: &'a State, limit: &str) -> Result<&'a Rule, ChargeError> {
    state.rules.limit(limit).ok_or_else(|| {
        let known: Vec<&str> = state.rules.limits().map(|rule| rule.name).collect();
        let remedy = match nearest(limit, &known) {
            Some(near) => format!("did you mean {near:?}?"),
            None => "name one of the policy, or send a `rate`".to_owned(),
        };
        ChargeError::NoLimit { limit: limit.to_owned(), remedy }
    })
}

fn no_such_tier(state: &State, name: &str) -> ChargeError {
    let remedy = match state.rules.frame.tiers.join(", ") {
        known if known.is_empty() => "the policy has none; leave it out".to_owned(),
        known => format!("name one of {known}"),
    };
    ChargeError::NoTier { tier: name.to_owned(), remedy }
}

fn no_tier(state: &State, rule: &Rule, what: &str) -> ChargeError {
    let tiers = state.rules.frame.tiers.join(", ");
    ChargeError::Tier { limit: rule.name, what: what.to_owned(), tiers }
}

impl Charging {
    /// What came of each charge; with receipts where there are `seals` for them.
    fn results(&self, charges: &[Charge<'_>], seals: Option<&Seals<'_>>) -> Vec<Charged> {
        let parts: Vec<Part<'_>> = self.asked.parts().collect();
        let each = self.steps.iter().zip(charges);
        each.filter_map(|(steps, charge)| result(&parts[steps.clone()], &self.asked.outcome, charge, seals))
            .collect()
    }
}

fn result(
    parts: &[Part<'_>],
    outcome: &Outcome,
    charge: &Charge<'_>,
    seals: Option<&Seals<'_>>,
) -> Option<Charged> {
    // The one that refuses, or else the limit itself, which comes first.
    let told = parts.iter().find(|part| part.refuses()).or_else(|| parts.first())?;
    let first = parts.first()?;
    let retry = wait(parts);
    let about = first.planned.about;
    let receipt = seals
        .filter(|_| first.charged && outcome.source == Source::Exact)
        .map(|seals| seals.receipt(first.step, outcome.charged_at(first.verdict), charge.cost));
    Some(Charged {
        limit: about.limit,
        layer: matches!(charge.by, Chosen::Limit(..)).then_some(about.layer),
        allowed: retry.is_none(),
        charged: first.charged,
        capacity: first.verdict.limit,
        remaining: told.verdict.remaining.min(first.verdict.remaining),
        retry: retry.unwrap_or(Retry::Now),
        reset: first.verdict.reset.into(),
        at: outcome.at,
        source: outcome.source,
        receipt,
    })
}

/// How long all of a limit's `parts` refuse; none if none of them does.
pub(super) fn wait(parts: &[Part<'_>]) -> Option<Retry> {
    let retry = parts.iter().filter(|part| part.refuses()).map(|part| part.verdict.retry).max();
    let Some(Retry::After(wait)) = retry else { return retry };
    // A gate that was closed just now keeps out for longer.
    let blocked = parts.iter().filter(|part| part.planned.role == Role::Gate);
    let gate = blocked.map(|part| part.step.algorithm.period()).max().unwrap_or(Span::ZERO);
    let closing = !parts.iter().any(|part| part.planned.role == Role::Gate && part.refuses());
    Some(Retry::After(if closing { wait.max(gate) } else { wait }))
}

/// By what receipts are made.
struct Seals<'a> {
    keys: &'a SubjectKeys,
    numbers: &'a UniqueIds,
}

impl Seals<'_> {
    fn receipt(&self, step: &Step, at: Timestamp, cost: NonZeroU64) -> Receipt {
        let (at, cost, number) = (at.as_micros(), cost.get(), self.numbers.next() as u64);
        Receipt { at, cost, number, seal: seal(self.keys.current(), step, [at, cost, number]) }
    }
}

impl Receipt {
    /// When it was charged.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        Timestamp::from_micros(self.at)
    }

    /// Uses it up: a window of one for as long as a charge by `step` is felt. Closed, because who cannot be told that it was
    /// used must not use it.
    fn used(&self, step: &Step) -> Option<Step> {
        // Longer than the charge is felt, should the limit be changed meanwhile.
        let felt = step.algorithm.memory().as_micros().saturating_mul(2).max(Span::DAY.as_micros());
        let rate = Rate::new(1, Span::from_micros(felt).min(Span::MAX)).ok()?;
        let algorithm = Algorithm::new(AlgorithmKind::FixedWindow, &rate).ok()?;
        let key = step.key.beside(self.number ^ RECEIPT);
        let sharing = Sharing { consistency: Consistency::Exact, on_failure: OnFailure::Closed };
        Some(Step { sharing, ..Step::consume(key, algorithm, NonZeroU64::MIN) })
    }

    /// True if it proves a charge by `step`.
    fn is_of(&self, step: &Step, keys: &SubjectKeys) -> bool {
        let consumes = matches!(step.action, Action::Consume(_));
        let charged = [self.at, self.cost, self.number];
        consumes && keys.all().any(|key| seal(key, step, charged) == self.seal)
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, cost, number, seal: [low, high] } = self;
        write!(f, "{at:x}.{cost:x}.{number:x}.{low:016x}{high:016x}")
    }
}

impl FromStr for Receipt {
    type Err = ChargeError;

    fn from_str(text: &str) -> Result<Self, ChargeError> {
        let number = |text: &str| u64::from_str_radix(text, 16).map_err(|_| ChargeError::Receipt);
        let &[at, cost, which, seal] = text.split('.').collect::<Vec<_>>().as_slice() else {
            return Err(ChargeError::Receipt);
        };
        let (at, cost, which) = (number(at)?, number(cost)?, number(which)?);
        match (seal.len(), seal.split_at_checked(16)) {
            (32, Some((low, high))) => {
                Ok(Self { at, cost, number: which, seal: [number(low)?, number(high)?] })
            }
            _ => Err(ChargeError::Receipt),
        }
    }
}
