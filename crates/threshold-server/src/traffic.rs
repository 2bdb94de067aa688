//! Traffic: what decisions came to, second by second, for whoever looks back over the last minutes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use threshold::figures::{Ending, Figures, InLayer, Totals};
use threshold::policy::Layer;
use threshold::{Clock as _, SystemClock, Timestamp};

/// How many seconds can be looked back.
const KEPT: usize = 600;
const SECOND: Duration = Duration::from_secs(1);

/// The latest seconds.
pub(crate) struct Traffic {
    started: Timestamp,
    seen: Mutex<Seen>,
}

struct Seen {
    /// What was counted before the next second.
    before: Totals,
    /// When that was.
    at: Timestamp,
    seconds: VecDeque<Second>,
}

/// What there was in a second, or in more where nobody could look in time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Second {
    /// When it ended.
    at: Timestamp,
    seconds: f64,
    endings: [u64; Ending::ALL.len()],
    layers: [InLayer; Layer::ALL.len()],
}

impl Traffic {
    /// Follows `figures` for as long as somebody holds the traffic.
    pub(crate) fn start(figures: &Arc<Figures>) -> Arc<Self> {
        let traffic = Arc::new(Self::new(SystemClock::new().now()));
        tokio::spawn(follow(Arc::downgrade(&traffic), Arc::clone(figures)));
        traffic
    }

    /// Nothing was seen before `now`.
    fn new(now: Timestamp) -> Self {
        let seen = Seen { before: Totals::default(), at: now, seconds: VecDeque::with_capacity(KEPT) };
        Self { started: now, seen: Mutex::new(seen) }
    }

    /// Notes what was counted until `now`.
    fn look(&self, now: Timestamp, totals: Totals) {
        let mut seen = self.seen();
        let passed = now.since(seen.at).as_micros();
        if passed == 0 {
            return;
        }
        let second = Second {
            at: now,
            seconds: passed as f64 / 1e6,
            endings: more(totals.endings, seen.before.endings),
            layers: std::array::from_fn(|at| totals.layers[at].since(&seen.before.layers[at])),
        };
        if seen.seconds.len() == KEPT {
            seen.seconds.pop_front();
        }
        seen.seconds.push_back(second);
        (seen.before, seen.at) = (totals, now);
    }

    /// The seconds that ended after `after`, in seconds since 1970, as programs read them.
    pub(crate) fn to_json(&self, after: Option<f64>) -> Json {
        let seen = self.seen();
        let new = seen.seconds.iter().filter(|second| after.is_none_or(|after| second.at() > after));
        json!({ "started": self.started.to_string(), "samples": new.map(Second::told).collect::<Vec<_>>() })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at `figures` once a second.
async fn follow(traffic: Weak<Traffic>, figures: Arc<Figures>) {
    let (clock, mut seconds) = (SystemClock::new(), tokio::time::interval(SECOND));
    seconds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        seconds.tick().await;
        let Some(traffic) = traffic.upgrade() else { return };
        traffic.look(clock.now(), figures.totals());
    }
}

fn more<const N: usize>(now: [u64; N], before: [u64; N]) -> [u64; N] {
    std::array::from_fn(|at| now[at].saturating_sub(before[at]))
}

fn told_as((name, count): (&str, u64)) -> (String, Json) {
    (name.to_owned(), count.into())
}

impl Second {
    /// To the millisecond.
    fn at(&self) -> f64 {
        (self.at.as_micros() / 1_000) as f64 / 1e3
    }

    fn of(&self, wanted: impl Fn(Ending) -> bool) -> u64 {
        let each = Ending::ALL.iter().zip(self.endings);
        each.filter(|(ending, _)| wanted(**ending)).map(|(_, count)| count).sum()
    }

    fn told(&self) -> Json {
        let layer = |met: &InLayer| met.fields().into_iter().map(told_as).collect::<Map<_, _>>();
        let layers = Layer::ALL.iter().zip(&self.layers);
        let layers: Map<_, _> =
            layers.map(|(name, met)| (name.word().to_owned(), layer(met).into())).collect();
        json!({
            "at": self.at(),
            "seconds": self.seconds,
            "allowed": self.of(|ending| ending == Ending::Allowed),
            "warned": self.of(|ending| ending == Ending::Warned),
            "delayed": self.of(|ending| ending == Ending::Delayed),
            "denied": self.of(Ending::is_refusal),
            // Refused for what is held against them, not by a limit.
            "barred": self.of(|ending| ending.is_refusal() && ending != Ending::Limited),
            "layers": layers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn totals(allowed: u64, limited: u64) -> Totals {
        let mut totals = Totals::default();
        totals.endings[Ending::Allowed as usize] = allowed;
        totals.endings[Ending::Limited as usize] = limited;
        totals.layers[Layer::Edge as usize].allowed = allowed + limited;
        totals.layers[Layer::User as usize].denied = limited;
        totals
    }

    #[test]
    fn a_second_has_what_came_in_it() {
        let traffic = Traffic::new(at(100));
        traffic.look(at(101), totals(5, 0));
        traffic.look(at(104), totals(7, 3));
        traffic.look(at(104), totals(9, 3));
        let told = traffic.to_json(None);
        let samples = told["samples"].as_array().unwrap();
        assert_eq!(samples.len(), 2);
        assert_eq!((&samples[0]["allowed"], &samples[0]["denied"]), (&json!(5), &json!(0)));
        assert_eq!((&samples[1]["seconds"], &samples[1]["allowed"]), (&json!(3.0), &json!(2)));
        assert_eq!((&samples[1]["layers"]["user"]["denied"], &samples[1]["barred"]), (&json!(3), &json!(0)));
        assert_eq!(
            samples[1]["layers"]["edge"],
            json!({ "allowed": 5, "warned": 0, "delayed": 0, "denied": 0 })
        );
        assert_eq!(traffic.to_json(Some(101.0))["samples"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn so_many_seconds_are_kept() {
        let traffic = Traffic::new(at(0));
        for second in 1..2_000 {
            traffic.look(at(second), Totals::default());
        }
        let told = traffic.to_json(None);
        let samples = told["samples"].as_array().unwrap();
        assert_eq!((samples.len(), &samples[0]["at"]), (KEPT, &json!(1_400.0)));
    }
}
