//! For stores that judge elsewhere: in a script, in a database, in a worker.
//!
//! Such a store mirrors the [`transition`] only as far as it must: whether every step is admitted, and
//! what that leaves behind. It gets the numbers of each step as [`Terms`], all of them whole and below 2⁵³, so that it
//! needs to do no more than add and compare. It answers with its time and the states as it [`Found`] them; everything
//! that is said to callers is then worked out here, by the transition itself, and the two must agree on whether the
//! batch was charged.

use std::num::NonZeroU64;

use smallvec::SmallVec;

use crate::algorithm::{Algorithm, Concurrency, SlidingLog};
use crate::batch::{Action, Outcome, PermitId, Step};
use crate::key::Key;
use crate::state::{Cell, Entry, Log, Permit, Permits};
use crate::store::{StoreError, StoreErrorKind};
use crate::time::Timestamp;
use crate::transition::{self, States};

/// The numbers that a step is judged by, all below 2⁵³. A cost above the capacity is given as one that never fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// An action that the algorithm does not have: refused without a look at the state.
    Unfit,
    /// A token bucket. Its state is the instant at which it is full again, a rest, and the mark of its rate.
    Bucket {
        /// What the cost adds to the instant and to the rest.
        price: [u64; 2],
        /// How far ahead of now the instant and the rest may be.
        depth: [u64; 2],
        /// A rest as large as this is one more microsecond.
        per: u64,
        /// The mark of its rate. A state with another mark, of an instant that is not over, is carried over.
        mark: u64,
        /// For that: the capacity less the cost, the period, and what the rate was reduced by.
        changed: [u64; 3],
    },
    /// A fixed window. Its state is its end and what was admitted in it.
    Fixed {
        /// The cost.
        cost: u64,
        /// The most of one window.
        count: u64,
        /// The length of a window.
        period: u64,
        /// True if windows are aligned to multiples of the period.
        calendar: bool,
    },
    /// A sliding window. Its state is when nothing of it counts any more, the window before, and the current one.
    Sliding {
        /// The cost.
        cost: u64,
        /// The count.
        count: u64,
        /// The length of a window.
        period: u64,
        /// The length of a slice.
        slice: u64,
        /// Slices in a window.
        slices: u64,
    },
    /// A sliding log. Its state is a list of admissions.
    Log {
        /// The cost.
        cost: u64,
        /// The count.
        count: u64,
        /// The window.
        period: u64,
    },
    /// A concurrency limit. Its state is a list of permits.
    Permit {
        /// The permit that is taken, kept or given back.
        id: PermitId,
        /// What is done with it.
        act: PermitAct,
        /// The cost, where it is taken.
        cost: u64,
        /// How many there are.
        count: u64,
        /// How long one lasts.
        lifetime: u64,
    },
}

/// What is done with a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitAct {
    /// It is taken, or renewed if it is held.
    Acquire,
    /// It is kept.
    Renew,
    /// It is given back.
    Release,
}

/// A price that no bucket admits, small enough to be added exactly.
const NEVER: u64 = 1 << 52;

impl Terms {
    /// The numbers of `step`.
    #[must_use]
    pub fn of(step: &Step) -> Self {
        let cost = match step.action {
            Action::Consume(cost) if step.algorithm.charges() => cost,
            Action::Check if step.algorithm.keeps_cell() => NonZeroU64::MIN,
            Action::Consume(_) | Action::Check => return Self::Unfit,
            action => return Self::permit(&step.algorithm, action),
        };
        Self::consuming(&step.algorithm, cost.get().min(step.algorithm.capacity() + 1))
    }

    /// The numbers of what is taken back of `step`; none if there is nothing to take back.
    #[must_use]
    pub fn of_refund(step: &Step) -> Option<Self> {
        let Action::Consume(cost) = step.action else { return None };
        let most = match &step.algorithm {
            Algorithm::TokenBucket(bucket) => bucket.capacity(),
            Algorithm::Concurrency(_) => return None,
            _ => NEVER,
        };
        Some(Self::consuming(&step.algorithm, cost.get().min(most)))
    }

    fn consuming(algorithm: &Algorithm, cost: u64) -> Self {
        match algorithm {
            Algorithm::TokenBucket(bucket) => {
                let (price, spare) = match bucket.capacity().checked_sub(cost) {
                    Some(spare) => (bucket.price_parts(cost), spare),
                    None => ([NEVER, 0], 0),
                };
                let (_, per) = bucket.interval();
                let (mark, divisor) = bucket.mark_and_divisor();
                let changed = [spare, bucket.period().as_micros(), divisor];
                Self::Bucket { price, depth: bucket.depth_parts(), per, mark, changed }
            }
            Algorithm::FixedWindow(window) => {
                let (count, calendar) = (window.count(), window.is_calendar());
                Self::Fixed { cost, count, period: window.period().as_micros(), calendar }
            }
            Algorithm::SlidingWindow(window) => {
                let (slice, slices) = window.slicing();
                let period = window.period().as_micros();
                Self::Sliding { cost, count: window.count(), period, slice, slices }
            }
            Algorithm::SlidingLog(log) => {
                Self::Log { cost, count: log.count(), period: log.period().as_micros() }
            }
            Algorithm::Concurrency(_) => Self::Unfit,
        }
    }

    fn permit(algorithm: &Algorithm, action: Action) -> Self {
        let Algorithm::Concurrency(limit) = algorithm else { return Self::Unfit };
        let (count, lifetime) = (limit.count(), limit.lifetime().as_micros());
        let (act, id) = match action {
            Action::Acquire(id, _) => (PermitAct::Acquire, id),
            Action::Renew(id) => (PermitAct::Renew, id),
            Action::Release(id) => (PermitAct::Release, id),
            Action::Consume(_) | Action::Check => return Self::Unfit,
        };
        let cost = action.cost().min(count + 1);
        Self::Permit { id, act, cost, count, lifetime }
    }
}

/// The state of one key, as a store found it.
#[derive(Clone, Debug)]
enum State {
    Cell(Cell),
    Log(Log),
    Permits(Permits),
}

/// The states that a batch met, or several that follow one another: of each key as it was before. A key that is not
/// here had none.
#[derive(Clone, Debug, Default)]
pub struct Found(
    /// Sorted by key: a group of batches has hundreds.
    SmallVec<[(Key, State); 4]>,
);

impl Found {
    /// Adds the three numbers of a key that keeps a cell, in the order of [`Terms`]; zeros where there are fewer.
    ///
    /// # Errors
    ///
    /// If they are larger than any store writes.
    pub fn add_cell(&mut self, step: &Step, [at, first, second]: [u64; 3]) -> Result<(), StoreError> {
        let wide = matches!(step.algorithm, Algorithm::FixedWindow(_));
        let cell = if wide { Cell::checked_wide(at, first) } else { Cell::checked(at, first, second) };
        let cell =
            cell.ok_or_else(|| corrupt(format!("the numbers {at}, {first}, {second} are no state")))?;
        self.make(&step.key, State::Cell(cell));
        Ok(())
    }

    /// Adds what is left of a log: its live entries, oldest first. Where only the first few matter, the others may be
    /// given as one entry with the time of the last.
    ///
    /// # Errors
    ///
    /// If they are larger, or more, than any store writes.
    pub fn add_log(
        &mut self,
        step: &Step,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<(), StoreError> {
        let entries = fit(entries, |entry| (entry.at, entry.cost))?;
        // Nothing here expires before it was judged.
        self.make(&step.key, State::Log(Log::from_entries(entries, u64::MAX)));
        Ok(())
    }

    /// Adds the live permits of a key. Where only the first few and the named ones matter, the others may be given as
    /// one with the time of the last.
    ///
    /// # Errors
    ///
    /// If they are larger, or more, than any store writes.
    pub fn add_permits(
        &mut self,
        step: &Step,
        held: impl IntoIterator<Item = Permit>,
    ) -> Result<(), StoreError> {
        let held = fit(held, |permit| (permit.expires, permit.cost))?;
        self.make(&step.key, State::Permits(Permits::from_held(held, u64::MAX)));
        Ok(())
    }

    /// The outcome of `steps` at `now`, which the store says it has charged or not.
    ///
    /// # Errors
    ///
    /// If the store and the transition do not agree.
    pub fn applied(mut self, steps: &[Step], now: Timestamp, charged: bool) -> Result<Outcome, StoreError> {
        self.apply(steps, now, charged)
    }

    /// [`Found::applied`] for one of several batches that were judged one after the other: the next one meets what this
    /// one left.
    ///
    /// # Errors
    ///
    /// If the store and the transition do not agree.
    pub fn apply(&mut self, steps: &[Step], now: Timestamp, charged: bool) -> Result<Outcome, StoreError> {
        let outcome = transition::apply(steps, now, self);
        if outcome.charged == charged {
            return Ok(outcome);
        }
        let verb = if charged { "charged" } else { "refused" };
        Err(corrupt(format!("it {verb} what by the states it found was to be judged otherwise")))
    }

    /// The outcome of a look at `now`.
    #[must_use]
    pub fn peeked(mut self, steps: &[Step], now: Timestamp) -> Outcome {
        self.peek(steps, now)
    }

    /// [`Found::peeked`] between batches that are judged one after the other: the next one meets what this one met.
    pub fn peek(&mut self, steps: &[Step], now: Timestamp) -> Outcome {
        transition::peek(steps, now, self)
    }

    fn find(&mut self, key: &Key) -> Option<&mut State> {
        self.place(key).ok().map(|place| &mut self.0[place].1)
    }

    /// The state of `key`, made if need be.
    fn make(&mut self, key: &Key, state: State) -> &mut State {
        let place = self.place(key).unwrap_or_else(|place| {
            self.0.insert(place, (*key, state));
            place
        });
        &mut self.0[place].1
    }

    fn place(&self, key: &Key) -> Result<usize, usize> {
        self.0.binary_search_by(|(of, _)| of.cmp(key))
    }
}

/// The members of a list that somebody else wrote, if sums of their times and costs cannot overflow.
fn fit<T>(members: impl IntoIterator<Item = T>, numbers: fn(&T) -> (u64, u64)) -> Result<Vec<T>, StoreError> {
    /// More than the longest list, and what stands for the rest of it.
    const MOST: usize = 1 << 16;
    let members: Vec<T> = members.into_iter().take(MOST + 1).collect();
    let unfit = members.iter().map(numbers).find(|(at, cost)| *at >= 1 << 52 || *cost > u64::from(u32::MAX));
    match unfit {
        Some((at, cost)) => Err(corrupt(format!("the numbers {at}, {cost} are no member of a list"))),
        None if members.len() > MOST => Err(corrupt(format!("a list has more than {MOST} members"))),
        None => Ok(members),
    }
}

fn corrupt(detail: String) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, "judge a batch", detail)
}

impl States for Found {
    fn cell(&mut self, key: &Key) -> Cell {
        self.own_cell(key).copied().unwrap_or_default()
    }

    fn own_cell(&mut self, key: &Key) -> Option<&mut Cell> {
        match self.find(key) {
            Some(State::Cell(cell)) => Some(cell),
            _ => None,
        }
    }

    fn set_cell(&mut self, key: &Key, cell: Cell, _: Timestamp) -> bool {
        *self.make(key, State::Cell(cell)) = State::Cell(cell);
        true
    }

    fn restore_cell(&mut self, key: &Key, cell: Cell) {
        *self.make(key, State::Cell(cell)) = State::Cell(cell);
    }

    fn log(&mut self, key: &Key) -> Option<&mut Log> {
        match self.find(key) {
            Some(State::Log(log)) => Some(log),
            _ => None,
        }
    }

    fn own_log(&mut self, key: &Key) -> Option<&mut Log> {
        self.log(key)
    }

    fn log_with_room(&mut self, key: &Key, _: &SlidingLog, _: Timestamp) -> Option<&mut Log> {
        match self.make(key, State::Log(Log::default())) {
            State::Log(log) => Some(log),
            _ => None,
        }
    }

    fn permits(&mut self, key: &Key) -> Option<&mut Permits> {
        match self.find(key) {
            Some(State::Permits(permits)) => Some(permits),
            _ => None,
        }
    }

    fn permits_with_room(&mut self, key: &Key, _: &Concurrency, _: Timestamp) -> Option<&mut Permits> {
        match self.make(key, State::Permits(Permits::default())) {
            State::Permits(permits) => Some(permits),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::AlgorithmKind;
    use crate::key::{LimitId, Secret};
    use crate::rate::{Rate, Unit};
    use crate::time::Span;

    fn step(kind: AlgorithmKind) -> Step {
        let rate = Rate::new(5, Span::MINUTE).unwrap();
        let algorithm = Algorithm::new(kind, &rate).unwrap();
        let id = LimitId::new("a").unwrap();
        let key = Secret::new([7; 16]).limit_key(&id, &algorithm, Unit::Requests).key("alice");
        Step::consume(key, algorithm, NonZeroU64::MIN)
    }

    /// They come from another program, over a network.
    #[test]
    fn numbers_that_no_store_writes_are_refused_and_overflow_nowhere() {
        let (log, permits) = (step(AlgorithmKind::SlidingLog), step(AlgorithmKind::Concurrency));
        let mut found = Found::default();
        for (at, cost) in [(u64::MAX, 1), (1 << 52, 1), (1, u64::MAX)] {
            assert!(found.add_cell(&step(AlgorithmKind::TokenBucket), [at, cost, 0]).is_err());
            assert!(found.add_log(&log, [Entry { at, cost }]).is_err());
            assert!(
                found.add_permits(&permits, [Permit { id: PermitId::new(1), expires: at, cost }]).is_err()
            );
        }
        assert!(found.add_log(&log, (0..).map(|at| Entry { at, cost: 1 })).is_err());
        let largest = Entry { at: (1 << 52) - 1, cost: u64::from(u32::MAX) };
        found.add_log(&log, [largest, largest]).unwrap();
        assert_eq!(found.peek(&[log], Timestamp::from_micros(1)).verdicts[0].remaining, 0);
    }
}
