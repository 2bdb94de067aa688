//! `ShouldRateLimit`: from the bytes of a question to those of its answer.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;
use threshold::engine::{
    Descriptor, DescriptorDecision, DescriptorError, DescriptorRun, DescriptorStatus, Engine, OwnLimit, Quota,
};
use threshold::{AlgorithmKind, Clock, Ledger, Rate, Retry, Span, Store};
use threshold_http::respond::{self, Shown};

use super::call::{Code, PREFIX, Status};
use super::wire::{self, Fields, Malformed, Value};

/// The most descriptors of one call.
const DESCRIPTORS: usize = 50;
/// The most entries of one descriptor.
const ENTRIES: usize = 32;

const OK: u64 = 1;
const OVER_LIMIT: u64 = 2;

/// What is left of a limit that is none.
const UNLIMITED: u64 = u32::MAX as u64;

/// Units by their numbers, with their lengths.
const UNITS: [(u64, Span); 7] = [
    (1, Span::SECOND),
    (2, Span::MINUTE),
    (3, Span::HOUR),
    (4, Span::DAY),
    (7, Span::from_secs(7 * DAY)),
    (5, Span::from_secs(30 * DAY)),
    (6, Span::from_secs(365 * DAY)),
];
const DAY: u64 = 24 * 60 * 60;

/// A question, read where it lies.
#[derive(Debug, Default)]
struct Question<'a> {
    domain: &'a str,
    /// The entries of all descriptors, one after the other.
    entries: SmallVec<[(&'a str, &'a str); 4]>,
    descriptors: SmallVec<[Asked; 2]>,
    hits: u32,
}

/// What is asked of one descriptor.
#[derive(Clone, Debug, Default)]
struct Asked {
    /// Where its entries are.
    entries: Range<usize>,
    hits: Option<u64>,
    negative: bool,
    own: Option<Own>,
}

/// A limit that comes with a descriptor, as it is written.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    count: u32,
    unit: u64,
}

/// What a question has come to.
pub(super) enum Begun {
    /// gRPC's prefix, and the answer behind it.
    Answered(Bytes),
    /// There is something to [wait](finish) for.
    Waits(Place),
}

/// What a run of like questions has come to.
pub(super) enum Run {
    /// All of them pass, with this answer.
    Passed(Bytes),
    /// There is something to [wait](finish_run) for.
    Waits(Place),
    /// They are to be asked one by one.
    Apart,
}

/// Answers `times` questions that are all `message`, if nothing is to be waited for.
pub(super) fn begin_run<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
    (message, times): (&[u8], NonZeroU64),
    shown: Option<Shown>,
) -> Result<Run, Status> {
    let mut question = Question::default();
    question.read(message)?;
    let descriptors = question.descriptors()?;
    let mut place = Place::take();
    let run = engine.rate_limit_run_at_once(question.domain, &descriptors, times, place.decision());
    Ok(match run.map_err(undecided)? {
        DescriptorRun::Passed => Run::Passed(write(place.decision(), shown)),
        DescriptorRun::Waits => Run::Waits(place),
        DescriptorRun::Apart => Run::Apart,
    })
}

/// Waits for what a run that has begun is to be answered with; none if its questions are to be asked one by one.
pub(super) async fn finish_run<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
    mut place: Place,
    shown: Option<Shown>,
) -> Result<Option<Bytes>, Status> {
    let passed = engine.finish_rate_limit_run(place.decision()).await.map_err(undecided)?;
    Ok(passed.then(|| write(place.decision(), shown)))
}

/// Answers the question in `message`, if nothing is to be waited for.
pub(super) fn begin<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
    message: &[u8],
    shown: Option<Shown>,
) -> Result<Begun, Status> {
    let mut question = Question::default();
    question.read(message)?;
    let descriptors = question.descriptors()?;
    let mut place = Place::take();
    let decided = engine.rate_limit_at_once(question.domain, &descriptors, place.decision());
    Ok(match decided.map_err(undecided)? {
        true => Begun::Answered(write(place.decision(), shown)),
        false => Begun::Waits(place),
    })
}

/// Waits for what a question that has begun is to be answered with.
pub(super) async fn finish<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
    mut place: Place,
    shown: Option<Shown>,
) -> Result<Bytes, Status> {
    engine.finish_rate_limit(place.decision()).await.map_err(undecided)?;
    Ok(write(place.decision(), shown))
}

/// How many places a thread keeps.
const PLACES: usize = 64;

/// Handed out and taken back without being moved.
type Free = Vec<Box<DescriptorDecision>>;

thread_local! {
    static FREE: RefCell<Free> = const { RefCell::new(Vec::new()) };
}

/// A place for a decision, which is large: used again, and never moved.
pub(super) struct Place(Option<Box<DescriptorDecision>>);

impl Place {
    fn take() -> Self {
        Self(FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten())
    }

    fn decision(&mut self) -> &mut DescriptorDecision {
        self.0.get_or_insert_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(place) = self.0.take() else { return };
        // A thread that ends keeps nothing.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < PLACES {
                free.push(place);
            }
        });
    }
}

fn undecided(error: DescriptorError) -> Status {
    match error {
        DescriptorError::Store(error) => Status::new(Code::Unavailable, error.to_string()),
        other => Status::new(Code::InvalidArgument, other.to_string()),
    }
}

impl<'a> Question<'a> {
    /// Reads the question in `message`.
    fn read(&mut self, message: &'a [u8]) -> Result<(), Status> {
        let mut fields = Fields::of(message);
        while let Some((field, value)) = fields.next().map_err(malformed)? {
            match field {
                1 => self.domain = value.text().map_err(malformed)?,
                2 => self.add(value.bytes().map_err(malformed)?)?,
                3 => self.hits = value.number32().map_err(malformed)?,
                _ => {}
            }
        }
        if self.domain.is_empty() {
            return Err(invalid("the domain is empty; set `domain` in the proxy's rate limit filter"));
        }
        if self.descriptors.is_empty() {
            return Err(invalid(
                "there are no descriptors; configure `rate_limits` with actions in the proxy",
            ));
        }
        Ok(())
    }

    fn add(&mut self, message: &'a [u8]) -> Result<(), Status> {
        if self.descriptors.len() == DESCRIPTORS {
            return Err(invalid(format!(
                "there are more than {DESCRIPTORS} descriptors; send fewer in a call"
            )));
        }
        let from = self.entries.len();
        let (mut asked, mut fields) = (Asked::default(), Fields::of(message));
        while let Some((field, value)) = fields.next().map_err(malformed)? {
            match field {
                1 if self.entries.len() - from == ENTRIES => {
                    return Err(invalid(format!("a descriptor has more than {ENTRIES} entries; send fewer")));
                }
                1 => self.entries.push(entry(value).map_err(malformed)?),
                2 => asked.own = Some(own(value).map_err(malformed)?),
                3 => asked.hits = Some(wrapped(value).map_err(malformed)?),
                4 => asked.negative = value.number().map_err(malformed)? > 0,
                _ => {}
            }
        }
        asked.entries = from..self.entries.len();
        self.descriptors.push(asked);
        Ok(())
    }

    /// The same as the engine is asked it.
    fn descriptors(&self) -> Result<SmallVec<[Descriptor<'_>; 2]>, Status> {
        let each = self.descriptors.iter().map(|asked| {
            // The call's own number of hits is one unless told; that of a descriptor may be none, to look only. Nothing is
            // given back here: anybody could make room for itself.
            let hits = asked.hits.unwrap_or_else(|| u64::from(self.hits.max(1)));
            let hits = NonZeroU64::new(hits).filter(|_| !asked.negative);
            let own = asked.own.map(Own::limit).transpose()?;
            Ok(Descriptor { entries: &self.entries[asked.entries.clone()], hits, own })
        });
        each.collect()
    }
}

impl Own {
    fn limit(self) -> Result<OwnLimit, Status> {
        let period = UNITS.iter().find(|(unit, _)| *unit == self.unit).map(|(_, period)| *period);
        let Some(period) = period else {
            return Err(invalid(format!("a descriptor's limit has the unit {}, which is none", self.unit)));
        };
        // Windows by the clock where there are such, as other services count.
        let kind =
            if period <= Span::DAY { AlgorithmKind::CalendarWindow } else { AlgorithmKind::FixedWindow };
        Ok(match Rate::new(u64::from(self.count), period) {
            Ok(rate) => OwnLimit::Rate(rate, kind),
            Err(_) => OwnLimit::Nothing,
        })
    }
}

fn entry(value: Value<'_>) -> Result<(&str, &str), Malformed> {
    let (mut key, mut text, mut fields) = ("", "", Fields::of(value.bytes()?));
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => key = value.text()?,
            2 => text = value.text()?,
            _ => {}
        }
    }
    Ok((key, text))
}

fn own(value: Value<'_>) -> Result<Own, Malformed> {
    let (mut own, mut fields) = (Own::default(), Fields::of(value.bytes()?));
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => own.count = value.number32()?,
            2 => own.unit = value.number()?,
            _ => {}
        }
    }
    Ok(own)
}

/// A number in a message of its own, so that none is not nought.
fn wrapped(value: Value<'_>) -> Result<u64, Malformed> {
    let (mut number, mut fields) = (0, Fields::of(value.bytes()?));
    while let Some((field, value)) = fields.next()? {
        if field == 1 {
            number = value.number()?;
        }
    }
    Ok(number)
}

fn malformed(_: Malformed) -> Status {
    Status::new(Code::Internal, "this is no RateLimitRequest; send protobuf as the service has it")
}

fn invalid(what: impl Into<String>) -> Status {
    Status::new(Code::InvalidArgument, what)
}

thread_local! {
    static OUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Writes the answer, with gRPC's prefix before it.
fn write(decision: &DescriptorDecision, shown: Option<Shown>) -> Bytes {
    // Written where there is room already, and then kept in no more than it needs.
    let mut out = OUT.try_with(Cell::take).unwrap_or_default();
    out.clear();
    out.extend_from_slice(&[0; PREFIX]);
    wire::number(&mut out, 1, if decision.allowed() { OK } else { OVER_LIMIT });
    decision.statuses().for_each(|status| wire::message(&mut out, 2, |out| write_status(&status, out)));
    if let Some(shown) = shown {
        write_headers(decision, shown, &mut out);
    }
    super::call::prefix(&mut out);
    let answer = Bytes::copy_from_slice(&out);
    let _ = OUT.try_with(|place| place.set(out));
    answer
}

fn write_status(status: &DescriptorStatus, out: &mut Vec<u8>) {
    match status {
        DescriptorStatus::Free => wire::number(out, 1, OK),
        DescriptorStatus::Unlimited => {
            wire::number(out, 1, OK);
            wire::number(out, 3, UNLIMITED);
        }
        DescriptorStatus::Nothing => wire::number(out, 1, OVER_LIMIT),
        DescriptorStatus::Limited { quota, retry, own } => {
            wire::number(out, 1, if *retry == Retry::Now { OK } else { OVER_LIMIT });
            wire::message(out, 2, |out| write_limit(quota, *own, out));
            wire::number(out, 3, quota.remaining.min(UNLIMITED));
            let reset = match retry {
                Retry::After(wait) => (*wait).into(),
                Retry::Now | Retry::Never => quota.reset,
            };
            wire::message(out, 4, |out| {
                wire::number(out, 1, reset.as_secs());
                wire::number(out, 2, u64::from(reset.subsec_nanos()));
            });
        }
    }
}

fn write_limit(quota: &Quota, own: bool, out: &mut Vec<u8>) {
    // The capacity is what an override makes of the count; a burst makes something else of it.
    let count = if quota.rate.burst().is_none() { quota.capacity } else { quota.rate.count() };
    wire::number(out, 1, count.min(u64::from(u32::MAX)));
    let unit = UNITS.iter().find(|(_, period)| *period == quota.period);
    wire::number(out, 2, unit.map_or(0, |(unit, _)| *unit));
    if !own {
        wire::text(out, 3, quota.limit.as_bytes());
    }
}

/// What the proxy is to tell its client.
fn write_headers(decision: &DescriptorDecision, shown: Shown, out: &mut Vec<u8>) {
    let retry = decision.retry_after().map(std::time::Duration::from);
    let mut add = |name: &str, value: &[u8]| wire::pair(out, 3, name.as_bytes(), value);
    if let Some(quota) = decision.quota() {
        respond::show_bytes(&quota, retry, decision.at(), shown, &mut add);
    }
    if let Some(retry) = retry {
        let seconds = respond::whole_seconds(retry);
        add("retry-after", itoa::Buffer::new().format(seconds).as_bytes());
    }
}
