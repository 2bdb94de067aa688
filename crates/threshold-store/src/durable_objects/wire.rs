//! Batches as the Worker reads them, and its answers.
//!
//! The Worker only says which batches it charged, and how the states were before the first of them. Everything else
//! follows, and is worked out here by the transition itself, batch after batch; the two must agree.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::Value;
use threshold_core::mirror::{Found, PermitAct, Terms};
use threshold_core::state::{Entry, Permit};
use threshold_core::{Action, Algorithm, Batch, Mode, Outcome, PermitId, Step, StoreError, Timestamp};

use super::error::Trouble;
use crate::across::Op;
use crate::halves::ByHalf;

/// A group of batches, as it is sent.
pub(super) struct Group {
    body: String,
    keys: Keys,
    /// The permits that are named.
    named: Vec<PermitId>,
}

/// The keys of a group, each once.
#[derive(Default)]
struct Keys {
    places: HashMap<u128, usize, ByHalf>,
    /// A step of each key, which says what its state is; none if it is refused without a look at it.
    models: Vec<Option<Step>>,
    /// As they are written.
    text: String,
}

impl Keys {
    fn place(&mut self, step: &Step, terms: &Terms) -> usize {
        let next = self.models.len();
        let place = *self.places.entry(step.key.hash()).or_insert(next);
        if place == next {
            self.models.push(None);
            let comma = if next == 0 { "" } else { "," };
            let _ = write!(self.text, "{comma}\"{:032x}\"", step.key.hash());
        }
        if *terms != Terms::Unfit {
            self.models[place].get_or_insert(*step);
        }
        place
    }
}

impl Group {
    /// The group of these batches, in this order; `now` is for tests.
    pub(super) fn judged<'b>(batches: impl Iterator<Item = (Op, &'b Batch)>, now: Option<Timestamp>) -> Self {
        let (mut keys, mut named, mut text) = (Keys::default(), Vec::new(), String::new());
        for (op, batch) in batches {
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(text, "{comma}[{}", op as u8);
            for step in batch.steps() {
                let terms = Terms::of(step);
                named.extend(step.action.permit());
                text.push(',');
                write_step(&mut text, (step, &terms), keys.place(step, &terms));
            }
            text.push(']');
        }
        let body = format!("{{{}\"keys\":[{}],\"batches\":[{text}]}}", time(now), keys.text);
        Self { body, keys, named }
    }

    /// What is sent.
    pub(super) fn body(&mut self) -> String {
        std::mem::take(&mut self.body)
    }

    /// The outcome of each batch, by the answer to the group.
    pub(super) fn outcomes<'b>(
        &self,
        answer: &[u8],
        batches: impl Iterator<Item = (Op, &'b Batch)>,
    ) -> Result<Vec<Result<Outcome, StoreError>>, Trouble> {
        let answer = parsed(answer)?;
        let now = now(&answer)?;
        let mut found = self.found(&answer)?;
        let charged = list(&answer, "charged")?;
        let mut outcomes = Vec::with_capacity(charged.len());
        for (at, (op, batch)) in batches.enumerate() {
            let charged = charged.get(at).and_then(Value::as_u64).ok_or_else(|| nonsense("no verdict"))?;
            outcomes.push(match op {
                Op::Apply => found.apply(batch.steps(), now, charged == 1),
                Op::Peek => Ok(found.peek(batch.steps(), now)),
            });
        }
        Ok(outcomes)
    }

    fn found(&self, answer: &Value) -> Result<Found, Trouble> {
        let states = list(answer, "found")?;
        if states.len() != self.keys.models.len() {
            return Err(nonsense("another number of states than keys"));
        }
        let mut found = Found::default();
        for (model, state) in self.keys.models.iter().zip(states) {
            let (Some(step), Some(numbers)) = (model, state.as_array()) else { continue };
            let mut numbers = Numbers(numbers);
            match Terms::of(step) {
                Terms::Unfit => {}
                Terms::Bucket { .. } | Terms::Fixed { .. } | Terms::Sliding { .. } => {
                    let cell = [numbers.next()?, numbers.next()?, numbers.next()?];
                    let added = found.add_cell(step, cell);
                    added.map_err(|error| nonsense(&error.to_string()))?;
                }
                Terms::Log { .. } => {
                    let added = found.add_log(step, log(numbers)?);
                    added.map_err(|error| nonsense(&error.to_string()))?;
                }
                Terms::Permit { .. } => {
                    let added = found.add_permits(step, self.permits(numbers)?);
                    added.map_err(|error| nonsense(&error.to_string()))?;
                }
            }
        }
        Ok(found)
    }

    /// The permits that the group names, the first of the others, and what is left of those as one.
    fn permits(&self, mut numbers: Numbers<'_>) -> Result<Vec<Permit>, Trouble> {
        let (mut rest, last, named) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let mut held: Vec<Permit> = Vec::new();
        while !numbers.0.is_empty() {
            let permit = Permit { id: numbers.permit()?, expires: numbers.next()?, cost: numbers.next()? };
            if held.len() as u64 >= named {
                rest = rest.saturating_sub(permit.cost);
            }
            held.push(permit);
        }
        if rest > 0 {
            held.push(Permit { id: self.nobody(), expires: last, cost: rest });
        }
        Ok(held)
    }

    /// A permit that the group does not name.
    fn nobody(&self) -> PermitId {
        (0..).map(PermitId::new).find(|id| !self.named.contains(id)).unwrap_or(PermitId::new(0))
    }
}

/// What is live of a log as one entry at the time of the last, less the first ones, which stand by themselves.
fn log(mut numbers: Numbers<'_>) -> Result<Vec<Entry>, Trouble> {
    let (mut live, last) = (numbers.next()?, numbers.next()?);
    let mut entries = Vec::new();
    while !numbers.0.is_empty() {
        let entry = Entry { at: numbers.next()?, cost: numbers.next()? };
        live = live.saturating_sub(entry.cost);
        entries.push(entry);
    }
    entries.extend((live > 0).then_some(Entry { at: last, cost: live }));
    Ok(entries)
}

/// What is to be taken back: steps, and when they were charged.
pub(super) fn refunds<'b>(
    refunds: impl Iterator<Item = (Timestamp, &'b Batch)>,
    now: Option<Timestamp>,
) -> String {
    let (mut keys, mut text) = (Keys::default(), String::new());
    for (at, batch) in refunds {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}[{}", at.as_micros());
        for step in batch.steps() {
            let Some(terms) = Terms::of_refund(step) else { continue };
            text.push(',');
            write_step(&mut text, (step, &terms), keys.place(step, &terms));
        }
        text.push(']');
    }
    format!("{{{}\"keys\":[{}],\"refunds\":[{text}]}}", time(now), keys.text)
}

/// What is to be forgotten.
pub(super) fn resets<'k>(keys: impl Iterator<Item = &'k threshold_core::Key>) -> String {
    let keys: Vec<String> = keys.map(|key| format!("\"{:032x}\"", key.hash())).collect();
    format!("{{\"keys\":[{}]}}", keys.join(","))
}

fn time(now: Option<Timestamp>) -> String {
    now.map_or_else(String::new, |now| format!("\"now\":{},", now.as_micros()))
}

/// What it is, 1 if it only observes and 2 if it only checks, its key, and the numbers it is judged by.
fn write_step(text: &mut String, (step, terms): (&Step, &Terms), key: usize) {
    let flags = u8::from(step.mode == Mode::Observe) | u8::from(step.action == Action::Check) << 1;
    let _ = write!(text, "[{},{flags},{key}", what(terms));
    if let Terms::Permit { id, .. } = terms {
        let _ = write!(text, ",\"{:032x}\"", id.get());
    }
    let mut put = |numbers: &[u64]| {
        for one in numbers {
            let _ = write!(text, ",{one}");
        }
    };
    match *terms {
        Terms::Unfit => put(&tidied(&step.algorithm)),
        Terms::Bucket { price, depth, per, mark, changed } => {
            [&price[..], &depth, &[per, mark], &changed].into_iter().for_each(put);
        }
        Terms::Fixed { cost, count, period, calendar } => put(&[cost, count, period, u64::from(calendar)]),
        Terms::Sliding { cost, count, period, slice, slices } => put(&[cost, count, period, slice, slices]),
        Terms::Log { cost, count, period } => put(&[cost, count, period]),
        Terms::Permit { cost, count, lifetime, .. } => put(&[cost, count, lifetime]),
    }
    text.push(']');
}

/// What is refused without a look still has its list forget what is over, as the transition does.
fn tidied(algorithm: &Algorithm) -> Vec<u64> {
    match algorithm {
        Algorithm::SlidingLog(log) => vec![4, log.period().as_micros()],
        Algorithm::Concurrency(limit) => vec![5, limit.lifetime().as_micros()],
        _ => Vec::new(),
    }
}

const fn what(terms: &Terms) -> u8 {
    match terms {
        Terms::Unfit => 0,
        Terms::Bucket { .. } => 1,
        Terms::Fixed { .. } => 2,
        Terms::Sliding { .. } => 3,
        Terms::Log { .. } => 4,
        Terms::Permit { act: PermitAct::Acquire, .. } => 5,
        Terms::Permit { act: PermitAct::Renew, .. } => 6,
        Terms::Permit { act: PermitAct::Release, .. } => 7,
    }
}

pub(super) fn parsed(answer: &[u8]) -> Result<Value, Trouble> {
    serde_json::from_slice(answer).map_err(|_| nonsense("no JSON"))
}

pub(super) fn now(answer: &Value) -> Result<Timestamp, Trouble> {
    let now = answer.get("now").and_then(Value::as_u64);
    now.map(Timestamp::from_micros).ok_or_else(|| nonsense("no time"))
}

fn list<'v>(answer: &'v Value, name: &str) -> Result<&'v Vec<Value>, Trouble> {
    answer.get(name).and_then(Value::as_array).ok_or_else(|| nonsense("a list less"))
}

/// The members of a state, one after the other.
struct Numbers<'v>(&'v [Value]);

impl Numbers<'_> {
    fn take(&mut self) -> Result<&Value, Trouble> {
        let (first, rest) = self.0.split_first().ok_or_else(|| nonsense("a state that is too short"))?;
        self.0 = rest;
        Ok(first)
    }

    fn next(&mut self) -> Result<u64, Trouble> {
        self.take()?.as_u64().ok_or_else(|| nonsense("a state with a number that is not whole"))
    }

    fn permit(&mut self) -> Result<PermitId, Trouble> {
        let id = self.take()?.as_str().and_then(|id| u128::from_str_radix(id, 16).ok());
        id.map(PermitId::new).ok_or_else(|| nonsense("a permit without a name"))
    }
}

fn nonsense(what: &str) -> Trouble {
    Trouble::nonsense(what)
}
