//! A group of batches as the arrays that `apply` takes, and its answer read back.
//!
//! The server only says which batches it charged, and how the states were before the first of them. Everything else
//! follows, and is worked out here by the transition itself, batch after batch; the two must agree.

use threshold_core::mirror::{Found, PermitAct, Terms};
use threshold_core::state::{Entry, Permit};
use threshold_core::{
    Action, Algorithm, Mode, Outcome, PermitId, Step, StoreError, StoreErrorKind, Timestamp,
};
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// Numbers of each step.
const WIDTH: usize = 12;

/// A hash of 128 bits, as the server's uuid: it compares by bytes, as numbers do here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hash(pub(super) u128);

impl ToSql for Hash {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::UUID
    }

    to_sql_checked!();
}

/// The arrays of a group.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Sorted and different: states are locked in this order.
    pub(super) keys: Vec<Hash>,
    /// [`WIDTH`] numbers for each step.
    pub(super) steps: Vec<i64>,
    /// For each key with a list its place, which kind, and its period.
    pub(super) lists: Vec<i64>,
    /// The permits that are named.
    pub(super) ids: Vec<Hash>,
    /// A step of each key, which says what its state is.
    models: Vec<Option<Step>>,
}

impl Group {
    /// The group of these batches, in this order.
    pub(super) fn of<'a>(batches: impl Iterator<Item = &'a [Step]> + Clone) -> Self {
        let mut group = Self::with_keys(batches.clone().flatten());
        batches.for_each(|steps| group.push(steps));
        group.name_lists();
        group
    }

    /// What is to be taken back: steps, and when they were charged.
    pub(super) fn of_refunds<'a>(steps: impl Iterator<Item = (&'a Step, Timestamp)> + Clone) -> Self {
        let mut group = Self::with_keys(steps.clone().map(|(step, _)| step));
        for (step, at) in steps {
            let Some(terms) = Terms::of_refund(step) else { continue };
            let (kind, mut numbers) = numbers(&terms);
            if let (Terms::Bucket { .. }, Action::Consume(cost)) = (&terms, step.action) {
                numbers[6] = signed(cost.get().min(step.algorithm.capacity()));
            }
            let place = signed(group.place(step) as u64 + 1);
            group.steps.extend([place, kind, signed(at.as_micros())]);
            group.steps.extend(numbers);
        }
        group
    }

    fn with_keys<'a>(steps: impl Iterator<Item = &'a Step>) -> Self {
        let mut keys: Vec<Hash> = steps.map(|step| Hash(step.key.hash())).collect();
        keys.sort_unstable();
        keys.dedup();
        let models = vec![None; keys.len()];
        Self { keys, models, ..Self::default() }
    }

    fn place(&self, step: &Step) -> usize {
        self.keys.binary_search(&Hash(step.key.hash())).unwrap_or_default()
    }

    fn push(&mut self, batch: &[Step]) {
        for (index, step) in batch.iter().enumerate() {
            let terms = Terms::of(step);
            let (kind, mut numbers) = numbers(&terms);
            if let Terms::Permit { id, .. } = terms {
                self.ids.push(Hash(id.get()));
                numbers[4] = signed(self.ids.len() as u64);
            }
            let place = self.place(step);
            self.models[place].get_or_insert(*step);
            let flags = i64::from(index + 1 == batch.len())
                | i64::from(step.mode == Mode::Observe) << 1
                | i64::from(step.action == Action::Check) << 2
                | i64::from(batch.len() > 1) << 3;
            self.steps.extend([signed(place as u64 + 1), kind, flags]);
            self.steps.extend(numbers);
        }
    }

    fn name_lists(&mut self) {
        for (place, model) in self.models.iter().enumerate() {
            let (kind, period) = match model.map(|step| step.algorithm) {
                Some(Algorithm::SlidingLog(log)) => (1, log.period()),
                Some(Algorithm::Concurrency(limit)) => (2, limit.lifetime()),
                _ => continue,
            };
            self.lists.extend([signed(place as u64 + 1), kind, signed(period.as_micros())]);
        }
    }

    /// Reads the server's time and the states it found. The row begins with those.
    pub(super) fn found(&self, row: &Row) -> Result<(Timestamp, Found), StoreError> {
        let now = Timestamp::from_micros(unsigned(row.try_get(0).map_err(unreadable)?));
        let mut columns = [const { Vec::new() }; 3];
        for (index, column) in columns.iter_mut().enumerate() {
            *column = row.try_get::<_, Option<Vec<i64>>>(index + 1).map_err(unreadable)?.unwrap_or_default();
        }
        let more: Option<Vec<i64>> = row.try_get("more").map_err(unreadable)?;
        let more = more.unwrap_or_default();
        let mut found = Found::default();
        for (place, model) in self.models.iter().enumerate() {
            let Some(step) = model else { continue };
            let key = signed(place as u64 + 1);
            let listed = more.as_chunks().0.iter().filter(|[of, ..]: &&[i64; 4]| *of == key);
            match step.algorithm {
                Algorithm::SlidingLog(_) => {
                    let entry =
                        |[_, at, cost, _]: &[i64; 4]| Entry { at: unsigned(*at), cost: unsigned(*cost) };
                    found.add_log(step, listed.map(entry))?;
                }
                Algorithm::Concurrency(_) => {
                    found.add_permits(step, listed.map(|entry| self.permit(entry)))?;
                }
                _ => {
                    let number = |column: &Vec<i64>| column.get(place).copied().map(unsigned);
                    let [Some(at), Some(first), Some(second)] = columns.each_ref().map(number) else {
                        return Err(wrong("it left a state out".to_owned()));
                    };
                    found.add_cell(step, [at, first, second])?;
                }
            }
        }
        Ok((now, found))
    }

    /// A permit that was found. Those that nobody names all get one name, which is nobody's.
    fn permit(&self, [_, expires, cost, name]: &[i64; 4]) -> Permit {
        let named = usize::try_from(*name - 1).ok().and_then(|place| self.ids.get(place));
        let id = named.map_or_else(
            || (0..).find(|id| !self.ids.contains(&Hash(*id))).unwrap_or_default(),
            |Hash(id)| *id,
        );
        Permit { id: PermitId::new(id), expires: unsigned(*expires), cost: unsigned(*cost) }
    }

    /// Reads the answer to [`Group::of`] these batches: the outcome of each.
    pub(super) fn outcomes<'a>(
        &self,
        row: &Row,
        batches: impl Iterator<Item = &'a [Step]>,
    ) -> Result<Vec<Result<Outcome, StoreError>>, StoreError> {
        let (now, mut found) = self.found(row)?;
        let refused: Option<Vec<i32>> = row.try_get("refused").map_err(unreadable)?;
        let mut refused = refused.unwrap_or_default().into_iter().peekable();
        let mut judge = |(index, steps): (usize, &[Step])| {
            let is_refused = refused.next_if(|place| usize::try_from(*place) == Ok(index)).is_some();
            found.apply(steps, now, !is_refused)
        };
        Ok(batches.enumerate().map(&mut judge).collect())
    }
}

/// The kind of a step and the numbers it is judged by, as `apply` counts them from the fourth on.
fn numbers(terms: &Terms) -> (i64, [i64; WIDTH - 3]) {
    let mut numbers = [0; WIDTH - 3];
    let mut fill = |kind, given: &[u64]| {
        numbers.iter_mut().zip(given).for_each(|(number, given)| *number = signed(*given));
        (kind, numbers)
    };
    match *terms {
        Terms::Unfit => fill(0, &[]),
        Terms::Bucket { price, depth, per, mark, changed } => {
            fill(1, &[price[0], price[1], depth[0], depth[1], per, mark, changed[0], changed[1], changed[2]])
        }
        Terms::Fixed { cost, count, period, calendar } => {
            fill(2, &[cost, count, period, u64::from(calendar)])
        }
        Terms::Sliding { cost, count, period, slice, slices } => {
            fill(3, &[cost, count, period, slice, slices])
        }
        Terms::Log { cost, count, .. } => fill(4, &[cost, count]),
        Terms::Permit { act, cost, count, lifetime, .. } => {
            let act = match act {
                PermitAct::Acquire => 1,
                PermitAct::Renew => 2,
                PermitAct::Release => 3,
            };
            fill(5, &[act, cost, count, lifetime])
        }
    }
}

/// Everything that is sent is below 2⁵³.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What is below zero becomes what no state holds.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn unreadable(error: tokio_postgres::Error) -> StoreError {
    wrong(error.to_string()).caused_by(error)
}

fn wrong(detail: String) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, "read the answer of Postgres", detail)
}
