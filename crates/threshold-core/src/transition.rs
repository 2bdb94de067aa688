//! The one pure transition: states + batch + now → states + outcome.
//!
//! Stores that run Rust call [`apply`] inside their atomic section; the others mirror it, and the contract
//! suite compares them with it. The meaning of a batch is fixed here and nowhere else:
//!
//! 1. Every step is judged, in order and without a short cut; each sees the charges of those before it.
//! 2. If an enforce step refuses, everything is taken back: a refused batch leaves every state as it was.
//! 3. An observe step never refuses. It is charged together with the rest if it would be admitted.

use std::num::NonZeroU64;

use smallvec::SmallVec;

use crate::algorithm::concurrency::PermitUndo;
use crate::algorithm::{Algorithm, Concurrency, SlidingLog, token_bucket};
use crate::batch::{Action, Outcome, Retry, Step, Verdict};
use crate::key::Key;
use crate::state::{Cell, Log, LogUndo, Permits};
use crate::time::{Span, Timestamp};

/// The states that a batch may touch, held still by the store while it runs.
pub trait States {
    /// The cell of `key`; [`Cell::EMPTY`] if there is none.
    fn cell(&mut self, key: &Key) -> Cell;

    /// The cell of `key` if it has one to itself, to be read and changed in place. What others share is not to be
    /// refunded to one of them.
    fn own_cell(&mut self, key: &Key) -> Option<&mut Cell>;

    /// Stores what an admission left behind; false if there is no room for it, which refuses the step.
    fn set_cell(&mut self, key: &Key, cell: Cell, now: Timestamp) -> bool;

    /// Puts back what [`States::cell`] gave before [`States::set_cell`] changed it.
    fn restore_cell(&mut self, key: &Key, cell: Cell);

    /// The log of `key`, if there is one.
    fn log(&mut self, key: &Key) -> Option<&mut Log>;

    /// The log of `key` if it is this key's alone, as for [`States::own_cell`].
    fn own_log(&mut self, key: &Key) -> Option<&mut Log>;

    /// The log of `key`, made if need be, with room for one more entry or, where memory is short, merged; none
    /// if there is no room even for that, which refuses the step.
    fn log_with_room(&mut self, key: &Key, algorithm: &SlidingLog, now: Timestamp) -> Option<&mut Log>;

    /// The permits of `key`, if there are any.
    fn permits(&mut self, key: &Key) -> Option<&mut Permits>;

    /// The permits of `key`, made if need be, with room for one more; none if there is no room, which
    /// refuses the step.
    fn permits_with_room(&mut self, key: &Key, limit: &Concurrency, now: Timestamp) -> Option<&mut Permits>;
}

/// A verdict whose numbers are not worked out yet, so that a store can let go of its locks first.
pub struct Pending(Numbers);

enum Numbers {
    Bucket(token_bucket::Judged),
    Known(Verdict),
}

impl Pending {
    /// Works the numbers out. `algorithm` and `now` are those it was judged with.
    #[must_use]
    #[inline]
    pub fn verdict(self, algorithm: &Algorithm, now: Timestamp) -> Verdict {
        match (self.0, algorithm) {
            (Numbers::Bucket(judged), Algorithm::TokenBucket(bucket)) => {
                bucket.verdict(judged, now.as_micros())
            }
            (Numbers::Bucket(_), _) => unfit(algorithm.capacity()),
            (Numbers::Known(verdict), _) => verdict,
        }
    }
}

/// What takes one charge back.
enum Undo {
    /// Putting the cell back, also where nothing was charged: that changes nothing.
    Cell(Cell),
    List(Option<ListUndo>),
}

enum ListUndo {
    Log(LogUndo),
    Permit(PermitUndo),
}

/// What takes a batch back: a cell for each step, and beside them the few lists. Apart, because cells are small
/// and most steps have nothing else.
#[derive(Default)]
struct Undos {
    cells: SmallVec<[Cell; 4]>,
    lists: SmallVec<[(usize, ListUndo); 4]>,
}

impl Undos {
    #[inline]
    fn push(&mut self, undo: Undo) {
        let cell = match undo {
            Undo::Cell(cell) => cell,
            Undo::List(list) => {
                let step = self.cells.len();
                self.lists.extend(list.map(|list| (step, list)));
                Cell::EMPTY
            }
        };
        self.cells.push(cell);
    }
}

/// Judges and charges `steps` as one.
#[inline]
pub fn apply(steps: &[Step], now: Timestamp, states: &mut impl States) -> Outcome {
    let mut outcome = Outcome::default();
    apply_into(steps, now, states, &mut outcome);
    outcome
}

/// [`apply`] for who has a place for the outcome, which is large: what it was before does not matter.
#[inline]
pub fn apply_into(steps: &[Step], now: Timestamp, states: &mut impl States, outcome: &mut Outcome) {
    let mut undos = Undos::default();
    charge_all(steps, now, states, outcome, &mut undos);
    outcome.charged = outcome.admitted();
    if !outcome.charged {
        take_back(steps, undos, states);
        report_uncharged(steps, outcome, states);
    }
}

/// Judges and charges one step: [`apply`] for the commonest batch, without its bookkeeping.
#[inline]
pub fn apply_one(
    key: &Key,
    algorithm: &Algorithm,
    action: Action,
    now: Timestamp,
    states: &mut impl States,
) -> Pending {
    tidy(key, algorithm, states);
    charge(Asked { key, algorithm, action }, now, states).0
}

/// Judges `steps` as [`apply`] would and leaves every state as it was.
pub fn peek(steps: &[Step], now: Timestamp, states: &mut impl States) -> Outcome {
    let (mut outcome, mut undos) = (Outcome::default(), Undos::default());
    charge_all(steps, now, states, &mut outcome, &mut undos);
    take_back(steps, undos, states);
    report_uncharged(steps, &mut outcome, states);
    outcome
}

/// Takes back what `steps` were charged by `outcome`, as far as it is still felt. What stays admitted stays
/// within the guarantee, whatever was admitted in between.
///
/// A smaller cost than was charged takes back that much. Steps that were not charged are passed over.
pub fn refund(steps: &[Step], outcome: &Outcome, now: Timestamp, states: &mut impl States) {
    if !outcome.charged {
        return;
    }
    let charged = steps.iter().zip(&outcome.verdicts).filter(|(_, verdict)| verdict.admitted());
    charged.for_each(|(step, verdict)| refund_one(step, outcome.charged_at(verdict), now, states));
}

fn refund_one(step: &Step, charged_at: Timestamp, now: Timestamp, states: &mut impl States) {
    let (key, charged_at, now) = (&step.key, charged_at.as_micros(), now.as_micros());
    let Action::Consume(cost) = step.action else { return };
    if let (Algorithm::SlidingLog(_), Some(log)) = (&step.algorithm, states.own_log(key)) {
        log.refund(charged_at, cost.get());
    }
    let Some(cell) = states.own_cell(key).copied() else { return };
    let cell = match &step.algorithm {
        Algorithm::TokenBucket(bucket) => bucket.refund(cell, cost.get(), charged_at, now),
        Algorithm::FixedWindow(window) => window.refund(cell, cost.get(), charged_at, now),
        Algorithm::SlidingWindow(window) => window.refund(cell, cost.get(), charged_at, now),
        Algorithm::SlidingLog(_) | Algorithm::Concurrency(_) => return,
    };
    states.restore_cell(key, cell);
}

/// One verdict and one undo for each step, everything admitted being charged.
#[inline]
fn charge_all(
    steps: &[Step],
    now: Timestamp,
    states: &mut impl States,
    outcome: &mut Outcome,
    undos: &mut Undos,
) {
    outcome.clear(now);
    steps.iter().for_each(|step| tidy(&step.key, &step.algorithm, states));
    for step in steps {
        if !charge_bucket(step, states, outcome, undos) {
            charge_other(step, states, outcome, undos);
        }
    }
}

/// Drops from a list what had expired when its latest entry was made. Before the first charge of a batch and at
/// no other time: an entry that may yet be taken back proves nothing about the time.
#[inline]
fn tidy(key: &Key, algorithm: &Algorithm, states: &mut impl States) {
    match algorithm {
        Algorithm::SlidingLog(log) => states.log(key).into_iter().for_each(|state| log.forget_expired(state)),
        Algorithm::Concurrency(limit) => {
            states.permits(key).into_iter().for_each(|permits| limit.drop_lapsed(permits));
        }
        Algorithm::TokenBucket(_) | Algorithm::FixedWindow(_) | Algorithm::SlidingWindow(_) => {}
    }
}

/// What a step asks of whom, without the step around it.
#[derive(Clone, Copy)]
struct Asked<'a> {
    key: &'a Key,
    algorithm: &'a Algorithm,
    action: Action,
}

/// Charges a bucket that has a cell to itself, and writes its verdict and undo straight to their places: the commonest
/// step by far. False if this is none.
#[inline(always)]
fn charge_bucket(step: &Step, states: &mut impl States, outcome: &mut Outcome, undos: &mut Undos) -> bool {
    let (Algorithm::TokenBucket(bucket), Action::Consume(cost)) = (&step.algorithm, step.action) else {
        return false;
    };
    let Some(own) = states.own_cell(&step.key) else { return false };
    let now = outcome.at.as_micros();
    undos.cells.push(*own);
    let judged = bucket.judge(*own, cost.get(), now);
    bucket.after(&judged).into_iter().for_each(|after| *own = after);
    outcome.push(step.mode, bucket.verdict(judged, now));
    true
}

/// Charges any other step.
#[inline(never)]
fn charge_other(step: &Step, states: &mut impl States, outcome: &mut Outcome, undos: &mut Undos) {
    let asked = Asked { key: &step.key, algorithm: &step.algorithm, action: step.action };
    let (pending, undo) = charge(asked, outcome.at, states);
    undos.push(undo);
    outcome.push(step.mode, pending.verdict(&step.algorithm, outcome.at));
}

/// Judges and charges, and says what takes the charge back.
#[inline]
fn charge(asked: Asked<'_>, now: Timestamp, states: &mut impl States) -> (Pending, Undo) {
    let Asked { key, algorithm, action } = asked;
    match (algorithm, action) {
        // The commonest, without a call: by way of `charge_cell` it would take half as long again.
        (Algorithm::TokenBucket(bucket), Action::Consume(cost)) => {
            let Some(own) = states.own_cell(key) else {
                return charge_cell(key, algorithm, cost, now, states);
            };
            let before = *own;
            let judged = bucket.judge(before, cost.get(), now.as_micros());
            bucket.after(&judged).into_iter().for_each(|after| *own = after);
            (Pending(Numbers::Bucket(judged)), Undo::Cell(before))
        }
        (Algorithm::FixedWindow(_) | Algorithm::SlidingWindow(_), Action::Consume(cost)) => {
            charge_cell(key, algorithm, cost, now, states)
        }
        (_, Action::Check) if algorithm.keeps_cell() => {
            (Pending(Numbers::Known(look(key, algorithm, now, states))), Undo::List(None))
        }
        _ => {
            let (verdict, undo) = charge_list(key, algorithm, action, now, states);
            (Pending(Numbers::Known(verdict)), Undo::List(undo))
        }
    }
}

/// Charges what is kept as a cell.
#[inline(never)]
fn charge_cell(
    key: &Key,
    algorithm: &Algorithm,
    cost: NonZeroU64,
    now: Timestamp,
    states: &mut impl States,
) -> (Pending, Undo) {
    let (before, cost, at) = (states.cell(key), cost.get(), now.as_micros());
    let (numbers, after) = match algorithm {
        Algorithm::TokenBucket(bucket) => {
            let judged = bucket.judge(before, cost, at);
            let after = bucket.after(&judged);
            (Numbers::Bucket(judged), after)
        }
        Algorithm::FixedWindow(window) => known(window.judge(before, cost, at)),
        Algorithm::SlidingWindow(window) => known(window.judge(before, cost, at)),
        Algorithm::SlidingLog(_) | Algorithm::Concurrency(_) => known((unfit(algorithm.capacity()), None)),
    };
    let numbers = match after {
        Some(after) if !states.set_cell(key, after, now) => Numbers::Known(no_room(algorithm.capacity())),
        _ => numbers,
    };
    (Pending(numbers), Undo::Cell(before))
}

/// The verdict on a cost of 1, and what is left, of a cell that is not charged.
#[cold]
fn look(key: &Key, algorithm: &Algorithm, now: Timestamp, states: &mut impl States) -> Verdict {
    let (cell, at) = (states.cell(key), now.as_micros());
    let judge = |cost| match algorithm {
        Algorithm::TokenBucket(bucket) => bucket.verdict(bucket.judge(cell, cost, at), at),
        Algorithm::FixedWindow(window) => window.judge(cell, cost, at).0,
        Algorithm::SlidingWindow(window) => window.judge(cell, cost, at).0,
        Algorithm::SlidingLog(_) | Algorithm::Concurrency(_) => unfit(algorithm.capacity()),
    };
    Verdict { retry: judge(1).retry, ..judge(TOO_MUCH) }
}

/// A cost that no capacity covers: judging it reads a state and changes nothing.
const TOO_MUCH: u64 = u64::MAX;

fn known((verdict, after): (Verdict, Option<Cell>)) -> (Numbers, Option<Cell>) {
    (Numbers::Known(verdict), after)
}

/// Charges what is kept as a list: logs and permits.
fn charge_list(
    key: &Key,
    algorithm: &Algorithm,
    action: Action,
    now: Timestamp,
    states: &mut impl States,
) -> (Verdict, Option<ListUndo>) {
    match (algorithm, action) {
        (Algorithm::SlidingLog(log), Action::Consume(cost)) => {
            let Some(state) = states.log_with_room(key, log, now) else {
                return (no_room(log.count()), None);
            };
            let (verdict, undo) = log.consume(state, cost.get(), now.as_micros());
            (verdict, undo.map(ListUndo::Log))
        }
        (Algorithm::Concurrency(limit), Action::Acquire(..) | Action::Renew(_) | Action::Release(_)) => {
            let (verdict, undo) = charge_permit(key, limit, action, now, states);
            (verdict, undo.map(ListUndo::Permit))
        }
        // An action that its algorithm does not have: the caller's mistake, refused without touching a state.
        _ => (unfit(algorithm.capacity()), None),
    }
}

fn charge_permit(
    key: &Key,
    limit: &Concurrency,
    action: Action,
    now: Timestamp,
    states: &mut impl States,
) -> (Verdict, Option<PermitUndo>) {
    let at = now.as_micros();
    let mut none = Permits::default();
    match action {
        Action::Acquire(id, cost) => match states.permits_with_room(key, limit, now) {
            Some(permits) => limit.acquire(permits, (id, cost.get()), at),
            None => (no_room(limit.count()), None),
        },
        Action::Renew(id) => limit.renew(states.permits(key).unwrap_or(&mut none), id, at),
        Action::Release(id) => limit.release(states.permits(key).unwrap_or(&mut none), id, at),
        Action::Consume(_) | Action::Check => (unfit(limit.count()), None),
    }
}

/// The verdict on an action that its algorithm does not have.
const fn unfit(capacity: u64) -> Verdict {
    Verdict { retry: Retry::Never, limit: capacity, remaining: 0, reset: Span::ZERO, later: Span::ZERO }
}

/// The verdict where a store has no room to write an admission down: refused, because an admission that
/// nobody remembers would be one too many.
const fn no_room(capacity: u64) -> Verdict {
    Verdict {
        retry: Retry::After(Span::SECOND),
        limit: capacity,
        remaining: 0,
        reset: Span::SECOND,
        later: Span::ZERO,
    }
}

/// Takes the charges back, last first, so that a key charged twice ends where it began.
fn take_back(steps: &[Step], undos: Undos, states: &mut impl States) {
    let on_cells = |step: &Step| matches!(step.action, Action::Consume(_)) && step.algorithm.keeps_cell();
    for (step, before) in steps.iter().zip(undos.cells).rev().filter(|(step, _)| on_cells(step)) {
        states.restore_cell(&step.key, before);
    }
    for (step, undo) in undos.lists.into_iter().rev() {
        let key = &steps[step].key;
        match undo {
            ListUndo::Log(undo) => states.log(key).into_iter().for_each(|log| log.undo(undo)),
            ListUndo::Permit(undo) => states.permits(key).into_iter().for_each(|permits| undo.apply(permits)),
        }
    }
}

/// After a refusal nothing was charged: the verdicts of the steps that would have been admitted must say what
/// is really left.
fn report_uncharged(steps: &[Step], outcome: &mut Outcome, states: &mut impl States) {
    for (step, verdict) in steps.iter().zip(&mut outcome.verdicts) {
        if verdict.admitted() {
            let real = untouched(step, outcome.at, states);
            (verdict.remaining, verdict.reset) = (real.remaining, real.reset);
        }
    }
}

/// The verdict with what is left of a state that is not charged.
fn untouched(step: &Step, now: Timestamp, states: &mut impl States) -> Verdict {
    let (key, at) = (&step.key, now.as_micros());
    match &step.algorithm {
        Algorithm::TokenBucket(_) | Algorithm::FixedWindow(_) | Algorithm::SlidingWindow(_) => {
            look(key, &step.algorithm, now, states)
        }
        Algorithm::SlidingLog(log) => {
            log.consume(states.log(key).unwrap_or(&mut Log::default()), TOO_MUCH, at).0
        }
        Algorithm::Concurrency(limit) => {
            limit.verdict(states.permits(key).unwrap_or(&mut Permits::default()), at, Retry::Never)
        }
    }
}
