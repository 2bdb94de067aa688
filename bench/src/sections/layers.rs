//! A whole decision over the four layers of a policy, against one limit alone; ours only.
//!
//! The user is known already (a token was verified before): what is timed is matching the route, choosing the limits,
//! making their keys, two store operations and the decision.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use threshold::RateLimiter;
use threshold::Secret;
use threshold::engine::{Engine, Extras, Rules, Secrets};
use threshold::identify::{Facts, Identity};
use threshold::policy::Policy;

use crate::Outcome;
use crate::args::Args;
use crate::measure::{Contender, Plan, compare};
use crate::model::Report;
use crate::peers::Quota;
use crate::peers::threshold::{decide, limiter, store};
use crate::progress;
use crate::sections::thread_counts;
use crate::workload::{Asked, Pattern, user_keys};

pub(crate) const PATTERN: &str = "layers-at-hand";
pub(crate) const SINGLE: &str = "one limit";
pub(crate) const LAYERS: &str = "four layers";

/// Wide open, as the single limit is: what is timed are decisions, not refusals.
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
rate = "1000000000/s"
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
    let references = &[SINGLE];
    let plan =
        |threads| Plan { section: "layers", pattern: PATTERN, keys: args.medium(), threads, references };
    let plans: Vec<Plan> =
        thread_counts().into_iter().map(plan).filter(|plan| args.wants(&plan.id())).collect();
    if plans.is_empty() {
        return Ok(());
    }
    let keys = progress::step("layers: keys", || user_keys(args.medium()));
    let single = limiter("user", Quota::OPEN, &store()?)?;
    let engine = engine()?;
    let charged = progress::step("layers: filling", || {
        keys.iter().all(|key| decide(&single, key, 1)) && keys.iter().all(|key| ask(&engine, key))
    });
    if !charged {
        return Err("a key was refused before the timing".into());
    }
    let asked = Pattern::AtHand.asked(&keys, 1);
    let contenders = [one_limit(&single, &asked), four_layers(&engine, &asked)];
    for plan in &plans {
        report.cells.push(compare(plan, &contenders, args)?);
    }
    Ok(())
}

fn engine() -> Outcome<Engine> {
    let secrets = Secrets::new(Secret::new([7; 16]));
    let policy = Policy::read("layers.toml", POLICY, &|_| None)?;
    let rules = Rules::new(&policy, &secrets, &|_| None)?;
    Ok(Engine::new(rules, secrets, store()?, store()?))
}

/// One request of a user from an address of its own.
fn ask(engine: &Engine, user: &str) -> bool {
    let number = user.bytes().skip(5).fold(0, |sum: u32, digit| sum * 10 + u32::from(digit - b'0'));
    let client = IpAddr::V4(Ipv4Addr::from(0x0B00_0000 | number));
    let identity = Identity {
        client,
        tenant: Some(Cow::Borrowed("acme")),
        tenant_verified: true,
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
    engine.decide_now(&facts, &identity, Extras::default()).allowed()
}

fn one_limit<'a>(limiter: &'a RateLimiter, asked: &'a Asked<'a>) -> Contender<'a> {
    let run = move |piece: &[u32]| {
        piece.iter().filter(|&&index| !decide(limiter, &asked.keys[index as usize], 1)).count() as u64
    };
    Contender { name: SINGLE.to_owned(), order: &asked.order, per_decision: 1, run: Box::new(run) }
}

fn four_layers<'a>(engine: &'a Engine, asked: &'a Asked<'a>) -> Contender<'a> {
    let run = move |piece: &[u32]| {
        piece.iter().filter(|&&index| !ask(engine, &asked.keys[index as usize])).count() as u64
    };
    Contender { name: LAYERS.to_owned(), order: &asked.order, per_decision: 1, run: Box::new(run) }
}
