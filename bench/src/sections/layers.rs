//! A whole decision over the four layers of a policy, against one limit alone; ours only.
//!
//! The user is known already (a token was verified before): what is timed is matching the route, choosing the limits,
//! making their keys, two store operations and the decision.

mod archiving;

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};

use threshold::engine::{Decision, Engine, Extras, Rules, Secrets};
use threshold::figures::{Ending, Figures, Seen, Watcher};
use threshold::identify::{Facts, Identity};
use threshold::ledger::{Change, Entry, SanctionKind};
use threshold::policy::Policy;
use threshold::recent::Recent;
use threshold::usage::Usage;
use threshold::{MemoryStore, RateLimiter, Secret, Span};

use crate::Outcome;
use crate::args::Args;
use crate::measure::{Contender, Plan, compare};
use crate::model::Report;
use crate::peers::Quota;
use crate::peers::threshold::{decide, limiter, store};
use crate::progress;
use crate::sections::thread_counts;
use crate::workload::{Asked, Pattern, user_keys};
use archiving::Archiving;

pub(crate) const PATTERN: &str = "layers-at-hand";
pub(crate) const SINGLE: &str = "one limit";
pub(crate) const LAYERS: &str = "four layers";
pub(crate) const STANDING: &str = "four layers with standing";
pub(crate) const COUNTED: &str = "four layers, counted";
pub(crate) const WATCHED: &str = "four layers, counted and archived";

/// Room for a row of each limit and client: what finds none costs less.
const ROWS: usize = 1 << 23;

/// So many others have something held against them while the clients ask: one for every hundred of those.
const SINNERS: usize = 10_000;

/// The users belong to so many tenants. With one alone, two threads would mostly wait for each other.
static TENANTS: LazyLock<Vec<String>> = LazyLock::new(|| (0..100).map(|i| format!("tenant-{i}")).collect());

/// Wide open, as the single limit is: what is timed are decisions, not refusals. Bursts rather than rates, so that every
/// address and user has a state that lives.
const POLICY: &str = r#"
[identity]
trusted_proxies = ["127.0.0.1"]
tenant = { header = "x-tenant" }
user = { header = "x-user" }
unknown_tier = "free"
[routes]
posts = "* /api/posts/**"
[tiers.free]
requests = "1000000000/s"
[[limit]]
id = "edge"
layer = "edge"
rate = "1 per 60s burst 1000000"
[[limit]]
id = "tenant"
layer = "tenant"
category = "requests"
[[limit]]
id = "user"
layer = "user"
rate = "1 per 60s burst 1000000"
[[limit]]
id = "endpoint"
layer = "endpoint"
route = "posts"
rate = "1 per 60s burst 1000000"
"#;

pub(crate) fn run(args: &Args, report: &mut Report) -> Outcome<()> {
    let references = &[SINGLE, LAYERS];
    let plan =
        |threads| Plan { section: "layers", pattern: PATTERN, keys: args.medium(), threads, references };
    let plans: Vec<Plan> =
        thread_counts().into_iter().map(plan).filter(|plan| args.wants(&plan.id())).collect();
    if plans.is_empty() {
        return Ok(());
    }
    let keys = progress::step("layers: keys", || user_keys(args.medium()));
    let single = limiter("user", Quota::OPEN, &store()?)?;
    // One store serves the edge and the other layers, as where everything is in memory; and both engines, whose keys are
    // the same.
    let store = store()?;
    let engine = engine(POLICY, &store)?;
    let standing = engine_with_standing(&store)?;
    // Counted, and shown to whoever listens, which nobody does: as a server is. And archived, as it is when all is on.
    let counted = engine_counted(&store)?;
    let usage = Arc::new(Usage::new(ROWS));
    let watched = engine_counted(&store)?.tracking(Arc::clone(&usage));
    let charged = progress::step("layers: filling", || {
        let mut decision = Decision::default();
        let mut numbered = keys.iter().map(|key| (number(key), key.as_str()));
        // Once for the archive as well, which has its memory from then on.
        for (place, user) in numbered.clone().enumerate() {
            ask(&watched, user, &mut decision);
            if place % 4_096 == 0 {
                usage.gather();
            }
        }
        keys.iter().all(|key| decide(&single, key, 1))
            && numbered.all(|user| ask(&engine, user, &mut decision))
    });
    if !charged {
        return Err("a key was refused before the timing".into());
    }
    let archiving = Archiving::start(&usage)?;
    let asked = Pattern::AtHand.asked(&keys, 1);
    let contenders = [
        one_limit(&single, &asked),
        four_layers(LAYERS, &engine, &asked),
        four_layers(STANDING, &standing, &asked),
        four_layers(COUNTED, &counted, &asked),
        four_layers(WATCHED, &watched, &asked),
    ];
    for plan in &plans {
        report.cells.push(compare(plan, &contenders, args)?);
    }
    report.notes.push(archiving.stop()?);
    Ok(())
}

fn engine(policy: &str, store: &MemoryStore) -> Outcome<Engine> {
    let secrets = Secrets::new(Secret::new([7; 16]));
    let policy = Policy::read("layers.toml", policy, &|_| None)?;
    let rules = Rules::new(&policy, &secrets, &|_| None)?;
    Ok(Engine::new(rules, secrets, store.clone(), store.clone()))
}

/// The same policy, with everything counted and the latest requests remembered, as a server does unless it is told otherwise.
fn engine_counted(store: &MemoryStore) -> Outcome<Engine> {
    let engine = engine(POLICY, store)?.measured(Arc::new(Figures::new())).watched(Arc::new(Nobody));
    Ok(engine.recalling(Arc::new(Recent::new(10_000))))
}

/// Nobody listens.
struct Nobody;

impl Watcher for Nobody {
    fn wants(&self, _: Ending) -> bool {
        false
    }

    fn see(&self, _: &Seen<'_>) {}
}

/// The same policy with a ladder and reputation, where many others are banned.
fn engine_with_standing(store: &MemoryStore) -> Outcome<Engine> {
    let engine = engine(&format!("{POLICY}[ladder]\n[reputation]\n"), store)?;
    let (subjects, at) = (engine.subjects(), store.now());
    let ban = |number: usize| Entry::Operator {
        by: "bench".to_owned(),
        at,
        change: Change::Impose {
            subject: subjects.user(None, &format!("sinner-{number}")),
            kind: SanctionKind::Ban,
            until: at.plus(Span::DAY),
            reason: String::new(),
        },
    };
    let bans: Vec<Entry> = (0..SINNERS).map(ban).collect();
    engine.ledger().write_now(&bans)?;
    engine.refresh_now();
    match engine.standing_figures() {
        (SINNERS, 0) => Ok(engine),
        (held, _) => Err(format!("{held} of {SINNERS} are held").into()),
    }
}

/// The number in a user's name.
fn number(user: &str) -> u32 {
    user.bytes().skip(5).fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'))
}

/// One request of the user of that number, from an address of its own.
fn ask(engine: &Engine, (number, user): (u32, &str), decision: &mut Decision) -> bool {
    let client = IpAddr::V4(Ipv4Addr::from(0x0B00_0000 | number));
    let identity = Identity {
        client,
        tenant: Some(Cow::Borrowed(&TENANTS[number as usize % TENANTS.len()])),
        tenant_verified: true,
        tier: None,
        user: Some(Cow::Borrowed(user)),
        user_kind: None,
        doubts: Default::default(),
    };
    let facts = Facts {
        peer: client,
        method: "GET",
        host: Some("acme.example.com"),
        path: "/api/posts/17",
        bytes: Some(0),
        headers: &(),
    };
    engine.decide_into(&facts, &identity, Extras::default(), decision);
    decision.allowed()
}

fn one_limit<'a>(limiter: &'a RateLimiter, asked: &'a Asked<'a>) -> Contender<'a> {
    let run = move |piece: &[u32]| {
        piece.iter().filter(|&&index| !decide(limiter, &asked.keys[index as usize], 1)).count() as u64
    };
    Contender { name: SINGLE.to_owned(), order: &asked.order, per_decision: 1, run: Box::new(run) }
}

fn four_layers<'a>(name: &str, engine: &'a Engine, asked: &'a Asked<'a>) -> Contender<'a> {
    let numbers: Vec<u32> = asked.keys.iter().map(|key| number(key)).collect();
    let run = move |piece: &[u32]| {
        let mut decision = Decision::default();
        let mut refuses = |index: u32| {
            let index = index as usize;
            !ask(engine, (numbers[index], &asked.keys[index]), &mut decision)
        };
        piece.iter().filter(|&&index| refuses(index)).count() as u64
    };
    Contender { name: name.to_owned(), order: &asked.order, per_decision: 1, run: Box::new(run) }
}
