//! A policy that is tried on what was asked of late, beside the one in force.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use threshold::figures::Ending;
use threshold::policy::{Layer, Policy};
use threshold::recent::{Asked, Reading};
use threshold::{Clock as _, Span, StoreError, SubjectId, SystemClock};
use threshold_http::Answer;
use tokio::sync::Semaphore;

use super::call::Call;
use super::policy::proposed;
use crate::api::read::unprocessable;
use crate::config;
use crate::engine::Engine;
use crate::replay::{Judged, Replay};

/// How many subjects are named.
const NAMED: usize = 10;
/// How long it may take.
const PATIENCE: Span = Span::from_secs(10);
/// How many requests are decided before the time is looked at.
const TURN: usize = 256;
/// One at a time: it takes a processor and some memory.
static TRYING: Semaphore = Semaphore::const_new(1);

/// Says what recent requests would have met by another policy, beside what they meet by the one in force.
pub(super) async fn dry_run(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let proposed = proposed(call)?;
    let admin = &call.admin;
    let Some(recent) = admin.recent.clone() else {
        let detail = "no requests are remembered; start the server with --remember REQUESTS, such as 10000";
        return Err(unprocessable("nothing_remembered", detail));
    };
    let _place = TRYING.acquire().await;
    let (engine, current) = (Arc::clone(&admin.engine), Arc::clone(&admin.policy.current().policy));
    let work = move || compare(&engine, [&current, &proposed], recent.read(engine.now()));
    let failed = |what: &str| unprocessable("not_tried", what);
    match tokio::task::spawn_blocking(work).await {
        Ok(told) => told.map_err(|what| failed(&what)),
        Err(_) => Err(failed("the policy could not be tried; see the log")),
    }
}

/// Tries both policies on what is remembered.
fn compare(engine: &Engine, [current, proposed]: [&Policy; 2], reading: Reading) -> Result<Json, String> {
    let tried = |policy: &Policy| {
        let rules = engine.prepare(policy, &config::variable).map_err(|error| error.to_string())?;
        Replay::new(engine, rules)
    };
    let mut pair = [tried(current)?, tried(proposed)?];
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| format!("no runtime could be started: {error}; try again"))?;
    let mut comparison = Comparison::default();
    runtime.block_on(comparison.run(&mut pair, &reading.asked)).map_err(|error| error.to_string())?;
    Ok(comparison.told(&reading))
}

/// What requests came to, by the policy in force and by the other.
#[derive(Default)]
struct Comparison {
    /// As it was, by the policy in force and by the other.
    counts: [Counts; 3],
    /// Refusals by limit.
    limits: BTreeMap<(&'static str, &'static str), [u64; 2]>,
    denied: HashMap<SubjectId, u64>,
    allowed: HashMap<SubjectId, u64>,
    requests: usize,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    allowed: u64,
    warned: u64,
    slowed: u64,
    denied: u64,
}

impl Comparison {
    /// Tries as many as there is time for.
    async fn run(
        &mut self,
        [current, proposed]: &mut [Replay; 2],
        asked: &[Asked],
    ) -> Result<(), StoreError> {
        let clock = SystemClock::new();
        let begun = clock.now();
        for some in asked.chunks(TURN) {
            for asked in some {
                let judged = [current.ask(asked).await?, proposed.ask(asked).await?];
                self.count(asked.ending, judged);
            }
            if clock.now().since(begun) > PATIENCE {
                return Ok(());
            }
        }
        Ok(())
    }

    fn count(&mut self, live: Ending, judged: [Judged; 2]) {
        self.requests += 1;
        self.counts[0].count(live);
        for (place, one) in judged.iter().enumerate() {
            self.counts[place + 1].count(one.ending);
            if let Some((limit, layer)) = one.limit {
                self.limits.entry((limit, Layer::word(layer))).or_default()[place] += 1;
            }
        }
        let [current, proposed] = judged;
        let changed = match (current.ending.is_refusal(), proposed.ending.is_refusal()) {
            (false, true) => &mut self.denied,
            (true, false) => &mut self.allowed,
            _ => return,
        };
        *changed.entry(proposed.subject).or_default() += 1;
    }

    fn told(&self, reading: &Reading) -> Json {
        let tried = &reading.asked[..self.requests];
        let (from, to) = (tried.first().map(|one| one.store), tried.last().map(|one| one.store));
        let limits = self.limits.iter().map(|((limit, layer), [current, proposed])| {
            json!({ "limit": limit, "layer": layer, "current": current, "proposed": proposed })
        });
        let [live, current, proposed] = self.counts.map(Counts::told);
        let mut notes = vec![
            "counters begin empty and nothing is held against anybody: both policies are tried alike, and may differ from what was",
            "who asked is as it was recognised then, whatever `[identity]` says: headers are not remembered",
            "limits of how many at the same time, undeclared bytes, logins and messages are passed over",
        ];
        if reading.one_in > 1 {
            notes.push("limits that several clients share see the part of their requests that is remembered");
        }
        if tried.len() < reading.asked.len() {
            notes.push("there was no time for all requests: the latest are left out");
        }
        json!({
            "requests": self.requests,
            "notTried": reading.asked.len() - self.requests,
            "notRemembered": reading.not_remembered,
            "oneClientIn": reading.one_in,
            "from": from.map(|at| at.to_string()),
            "to": to.map(|at| at.to_string()),
            "live": live,
            "current": current,
            "proposed": proposed,
            "limits": limits.collect::<Vec<_>>(),
            "newlyDenied": changed(&self.denied),
            "newlyAllowed": changed(&self.allowed),
            "notes": notes,
        })
    }
}

impl Counts {
    const fn count(&mut self, ending: Ending) {
        *match ending {
            Ending::Allowed => &mut self.allowed,
            Ending::Warned => &mut self.warned,
            Ending::Delayed => &mut self.slowed,
            _ => &mut self.denied,
        } += 1;
    }

    fn told(self) -> Json {
        let Self { allowed, warned, slowed, denied } = self;
        json!({ "allowed": allowed, "warned": warned, "slowed": slowed, "denied": denied })
    }
}

/// Those for whom most requests meet something else, by hashed ids.
fn changed(subjects: &HashMap<SubjectId, u64>) -> Json {
    let mut most: Vec<(String, u64)> =
        subjects.iter().map(|(subject, requests)| (subject.to_string(), *requests)).collect();
    most.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
    most.truncate(NAMED);
    let top = most.iter().map(|(subject, requests)| json!({ "subject": subject, "requests": requests }));
    json!({
        "requests": subjects.values().sum::<u64>(),
        "subjects": subjects.len(),
        "top": top.collect::<Vec<_>>(),
    })
}
