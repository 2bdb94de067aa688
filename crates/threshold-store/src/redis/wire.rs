//! Batches as the script reads them, and its answers.

use redis::Value;
use smallvec::SmallVec;
use threshold_core::mirror::{Found, PermitAct, Terms};
use threshold_core::state::{Entry, Permit};
use threshold_core::{
    Batch, Key, Mode, OnFailure, Outcome, PermitId, Step, StoreError, StoreErrorKind, Timestamp,
};

use crate::across::Op;

/// The length of one step.
const STEP: usize = 76;

/// What the script found of the keys of one batch, and whether it charged.
pub(super) struct Answer {
    pub(super) now: Timestamp,
    pub(super) charged: bool,
    pub(super) found: SmallVec<[Value; 4]>,
}

/// The keys of a group, each once.
#[derive(Default)]
pub(super) struct Keys(Vec<Key>);

impl Keys {
    /// The place of a key, counted from 1.
    fn place(&mut self, key: &Key) -> u16 {
        // Groups are small, and most keys of one differ: a table of hashes would take longer to fill.
        let at = self.0.iter().position(|known| known == key).unwrap_or(self.0.len());
        if at == self.0.len() {
            self.0.push(*key);
        }
        u16::try_from(at + 1).unwrap_or(u16::MAX)
    }

    pub(super) fn as_slice(&self) -> &[Key] {
        &self.0
    }
}

/// Writes the batches of a group.
pub(super) fn judged<'b>(group: impl ExactSizeIterator<Item = (Op, &'b Batch)>, keys: &mut Keys) -> Vec<u8> {
    let mut blob = Vec::with_capacity(3 + group.len() * (3 + STEP));
    blob.extend(u16::try_from(group.len()).unwrap_or(u16::MAX).to_le_bytes());
    blob.push(0);
    let (mut lists, mut closed) = (false, false);
    for (op, batch) in group {
        closed |= op == Op::Apply && is_closed(batch);
        blob.push(op as u8);
        blob.extend(u16::try_from(batch.steps().len()).unwrap_or(u16::MAX).to_le_bytes());
        for step in batch.steps() {
            let terms = Terms::of(step);
            lists |= matches!(terms, Terms::Log { .. } | Terms::Permit { .. });
            write(&mut blob, (step, &terms), keys.place(&step.key));
        }
    }
    blob[2] = u8::from(lists) | u8::from(closed) << 1;
    blob
}

/// True if a limit of it admits nothing that it cannot be sure of.
pub(super) fn is_closed(batch: &Batch) -> bool {
    batch.steps().iter().any(|step| step.sharing.on_failure == OnFailure::Closed)
}

/// Writes what is to be taken back of the steps that were charged, and says of which keys.
pub(super) fn refunded(steps: &[(&Step, Terms)], charged_at: Timestamp) -> Vec<u8> {
    let mut blob = Vec::with_capacity(8 + steps.len() * STEP);
    number(&mut blob, charged_at.as_micros());
    steps.iter().for_each(|(step, terms)| write(&mut blob, (step, terms), 0));
    blob
}

fn write(blob: &mut Vec<u8>, (step, terms): (&Step, &Terms), key: u16) {
    let end = blob.len() + STEP;
    let checks = step.action == threshold_core::Action::Check;
    let flags = u8::from(step.mode == Mode::Observe) | u8::from(checks) << 1;
    blob.extend([what(terms), flags]);
    blob.extend(key.to_le_bytes());
    let mut put = |numbers: &[u64]| numbers.iter().for_each(|one| number(blob, *one));
    match *terms {
        Terms::Unfit => {}
        Terms::Bucket {
            price: [price, fine],
            depth: [depth, rest],
            per,
            mark,
            changed: [spare, period, by],
        } => {
            put(&[price, fine, depth, rest, per, mark, spare, period, by]);
        }
        Terms::Fixed { cost, count, period, calendar } => put(&[cost, count, period, u64::from(calendar)]),
        Terms::Sliding { cost, count, period, slice, slices } => put(&[cost, count, period, slice, slices]),
        Terms::Log { cost, count, period } => put(&[cost, count, period]),
        Terms::Permit { id, cost, count, lifetime, .. } => {
            blob.extend(id.get().to_be_bytes());
            [cost, count, lifetime].into_iter().for_each(|one| number(blob, one));
        }
    }
    blob.resize(end, 0);
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

/// As a double, in which every number up to 2⁵³ is exact.
#[expect(clippy::cast_precision_loss, reason = "all terms are below 2⁵³")]
fn number(blob: &mut Vec<u8>, number: u64) {
    blob.extend((number as f64).to_le_bytes());
}

/// What a group was answered.
pub(super) enum Judged {
    /// Each batch, in order.
    All(Vec<Answer>),
    /// None of them: nobody knows this server, which says its time and who it is.
    Stranger(Timestamp, String),
}

/// Takes an answer to a group apart.
pub(super) fn answers<'b>(
    reply: Value,
    batches: impl Iterator<Item = &'b Batch>,
) -> Result<Judged, StoreError> {
    let Value::Array(values) = reply else { return Err(nonsense("no list")) };
    let mut values = values.into_iter();
    let mut whole = || match values.next() {
        Some(Value::Int(number)) => u64::try_from(number).map_err(|_| nonsense("a number below zero")),
        _ => Err(nonsense("no number where one belongs")),
    };
    let now = Timestamp::from_micros(whole()?);
    if let [Value::BulkString(server)] = values.as_slice() {
        return Ok(Judged::Stranger(now, String::from_utf8_lossy(server).into_owned()));
    }
    let mut answers = Vec::new();
    for batch in batches {
        let charged = match values.next() {
            Some(Value::Int(charged)) => charged == 1,
            _ => return Err(nonsense("no verdict")),
        };
        let found: SmallVec<[Value; 4]> = values.by_ref().take(batch.steps().len()).collect();
        if found.len() < batch.steps().len() {
            return Err(nonsense("fewer states than steps"));
        }
        answers.push(Answer { now, charged, found });
    }
    Ok(Judged::All(answers))
}

impl Answer {
    /// The outcome of `batch`.
    pub(super) fn outcome(self, op: Op, batch: &Batch) -> Result<Outcome, StoreError> {
        let mut found = Found::default();
        let mut seen: SmallVec<[Key; 4]> = SmallVec::new();
        for (step, value) in batch.steps().iter().zip(self.found) {
            // What is unfit is refused without a look at its key: another step on it may know more.
            if !seen.contains(&step.key) && Terms::of(step) != Terms::Unfit {
                seen.push(step.key);
                add(&mut found, batch, (step, value))?;
            }
        }
        match op {
            Op::Apply => found.applied(batch.steps(), self.now, self.charged),
            Op::Peek => Ok(found.peeked(batch.steps(), self.now)),
        }
    }
}

fn add(found: &mut Found, batch: &Batch, (step, value): (&Step, Value)) -> Result<(), StoreError> {
    let bytes = match value {
        Value::BulkString(bytes) => bytes,
        Value::Nil => return Ok(()),
        _ => return Err(nonsense("no state where one belongs")),
    };
    match Terms::of(step) {
        Terms::Unfit => Ok(()),
        Terms::Bucket { .. } | Terms::Fixed { .. } | Terms::Sliding { .. } => {
            let mut numbers = Numbers(&bytes);
            found.add_cell(step, [numbers.next()?, numbers.next()?, numbers.next()?])
        }
        Terms::Log { .. } => log(found, step, &bytes),
        Terms::Permit { .. } => permits(found, (batch, step), &bytes),
    }
}

/// What is live of a log as one entry at the time of the last, less the first ones, which stand by themselves.
fn log(found: &mut Found, step: &Step, bytes: &[u8]) -> Result<(), StoreError> {
    let mut numbers = Numbers(bytes);
    let (mut live, last) = (numbers.next()?, numbers.next()?);
    let mut entries = Vec::new();
    while !numbers.0.is_empty() {
        let entry = Entry { at: numbers.next()?, cost: numbers.next()? };
        live = live.saturating_sub(entry.cost);
        entries.push(entry);
    }
    entries.extend((live > 0).then_some(Entry { at: last, cost: live }));
    found.add_log(step, entries)
}

/// The permits that the batch names, the first of the others, and what is left of those as one.
fn permits(found: &mut Found, (batch, step): (&Batch, &Step), bytes: &[u8]) -> Result<(), StoreError> {
    let mut numbers = Numbers(bytes);
    let (mut rest, last) = (numbers.next()?, numbers.next()?);
    let named = numbers.short()?;
    let mut held = Vec::new();
    while !numbers.0.is_empty() {
        let permit = Permit { id: numbers.permit()?, expires: numbers.next()?, cost: numbers.next()? };
        if held.len() >= usize::from(named) {
            rest = rest.saturating_sub(permit.cost);
        }
        held.push(permit);
    }
    if rest > 0 {
        held.push(Permit { id: nobody(batch), expires: last, cost: rest });
    }
    found.add_permits(step, held)
}

/// A permit that the batch does not name.
fn nobody(batch: &Batch) -> PermitId {
    let is_named = |id: &u128| {
        batch.steps().iter().any(|step| step.action.permit().is_some_and(|permit| permit.get() == *id))
    };
    PermitId::new((0..=u128::MAX).find(|id| !is_named(id)).unwrap_or_default())
}

/// Reads numbers as the script writes them.
struct Numbers<'b>(&'b [u8]);

impl Numbers<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let (first, rest) =
            self.0.split_first_chunk().ok_or_else(|| nonsense("a state that is too short"))?;
        self.0 = rest;
        Ok(*first)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
    fn next(&mut self) -> Result<u64, StoreError> {
        let number = f64::from_le_bytes(self.take()?);
        let whole = (0.0..9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0;
        if whole { Ok(number as u64) } else { Err(nonsense("a state with a number that is not whole")) }
    }

    fn short(&mut self) -> Result<u16, StoreError> {
        Ok(u16::from_le_bytes(self.take()?))
    }

    fn permit(&mut self) -> Result<PermitId, StoreError> {
        Ok(PermitId::new(u128::from_be_bytes(self.take()?)))
    }
}

fn nonsense(what: &str) -> StoreError {
    let detail = format!("the script answered {what}; see that nothing else writes under the store's prefix");
    StoreError::new(StoreErrorKind::Corrupt, "read Redis' answer", detail)
}
