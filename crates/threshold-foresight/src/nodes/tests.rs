//! Nodes, judged from outside: what was admitted, against what the limits promise.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use threshold::{Algorithm, AlgorithmKind, Guarantee, Rate};
use threshold_testkit::figures::size;
use threshold_testkit::scan::{Admitted, excess};
use threshold_testkit::simulate::Dice;

use super::*;
use crate::Headers;
use crate::scenario::Crash;

const START: Timestamp = Timestamp::from_micros(1_772_409_600_000_000);

/// One limit, and how nodes share it.
struct Limit {
    rate: &'static str,
    kind: AlgorithmKind,
    sharing: &'static str,
}

const LIMITS: [Limit; 6] = [
    Limit { rate: "100/min", kind: AlgorithmKind::TokenBucket, sharing: "" },
    Limit { rate: "40/min", kind: AlgorithmKind::SlidingLog, sharing: "" },
    Limit { rate: "60 per 10s", kind: AlgorithmKind::FixedWindow, sharing: "" },
    Limit { rate: "80 per 10s", kind: AlgorithmKind::SlidingWindow, sharing: "" },
    Limit { rate: "200/s burst 100", kind: AlgorithmKind::TokenBucket, sharing: "consistency = \"leased\"" },
    Limit { rate: "100/min", kind: AlgorithmKind::TokenBucket, sharing: "consistency = \"leased\"" },
];

fn policy(limit: &Limit, on_failure: &str) -> Policy {
    let Limit { rate, kind, sharing } = limit;
    let text = format!(
        "[store]\nurl = \"redis://127.0.0.1\"\nsecret = \"0123456789abcdef0123456789abcdef\"\nnodes = 5\n\
         [[limit]]\nid = \"all\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"{rate}\"\nalgorithm = \"{}\"\n{sharing}\n\
         on_store_failure = \"{on_failure}\"",
        kind.name()
    );
    Policy::read("p.toml", &text, &|_| None).unwrap_or_else(|error| panic!("{error}"))
}

/// A cluster to which something happens all the time.
fn cluster(dice: &mut Dice, length: Span, crashes: bool) -> Cluster {
    let at = |dice: &mut Dice| START.plus(Span::from_micros(dice.roll(length.as_micros())));
    let cuts = (0..dice.roll(6)).map(|_| {
        let from = at(dice);
        let until = from.plus(Span::from_micros(1 + dice.roll(length.as_micros() / 3)));
        let all = dice.once_in(3);
        Cut { nodes: if all { u64::MAX } else { dice.roll(32) }, from, until, loses_data: false }
    });
    let cuts = cuts.collect();
    let crashes = (0..if crashes { dice.roll(6) } else { 0 })
        .map(|_| Crash { node: u32::try_from(dice.roll(5)).expect("few"), at: at(dice) });
    let mut crashes: Vec<Crash> = crashes.collect();
    crashes.sort_by_key(|crash| crash.at);
    let spread = if dice.once_in(2) { Spread::Client } else { Spread::RoundRobin };
    Cluster { count: 5, spread, cuts, crashes }
}

fn request(at: Timestamp, client: u8) -> Request<'static> {
    Request {
        at,
        client: Ipv4Addr::new(192, 0, 2, client).into(),
        method: "GET",
        host: None,
        target: "/",
        bytes: None,
        status: None,
        agent: None,
        user: None,
        tenant: None,
        account: None,
        headers: Headers::NONE,
    }
}

/// What was admitted for each client in one run, and how nodes came by their answers.
fn run(policy: &Policy, dice: &mut Dice, crashes: bool) -> (HashMap<u8, Vec<Admitted>>, NodeFigures) {
    let length = Span::from_secs(20 + dice.roll(60));
    let cluster = cluster(dice, length, crashes);
    let mut nodes = Nodes::new(policy, &cluster, &|_| None).unwrap_or_else(|error| panic!("{error}"));
    let (mut log, mut at, pause) = (HashMap::<u8, Vec<Admitted>>::new(), START, 2_000 + dice.roll(60_000));
    while at < START.plus(length) {
        at = at.plus(Span::from_micros(dice.roll(2 * pause)));
        let client = u8::try_from(dice.roll(3)).expect("few");
        let request = request(at, client);
        if nodes.ask(&request).is_ok_and(|judged| !judged.ending().is_refusal()) {
            log.entry(client).or_default().push(Admitted { at, cost: 1 });
        }
    }
    assert!(nodes.stats().iter().all(|stats| stats.leases.overshoot == 0));
    (log, nodes.figures())
}

fn guarantee(limit: &Limit, times: u64) -> Guarantee {
    let rate: Rate = limit.rate.parse().expect("a rate");
    let more = Rate::new(rate.count() * times, rate.period()).expect("a rate");
    let more = match rate.burst() {
        Some(burst) => more.with_burst(burst * times).expect("a burst"),
        None => more,
    };
    Algorithm::new(limit.kind, &more).expect("a limit").guarantee()
}

fn judge(on_failure: &str, times: u64, crashes: bool) {
    let mut all = NodeFigures::default();
    for seed in 0..size(120, 5_000) {
        let limit = &LIMITS[usize::try_from(seed).expect("few") % LIMITS.len()];
        let (policy, mut dice) = (policy(limit, on_failure), Dice::new(seed));
        let (log, figures) = run(&policy, &mut dice, crashes);
        all.unavailable += figures.unavailable;
        all.decided.iter_mut().zip(figures.decided).for_each(|(sum, more)| *sum += more);
        for (client, log) in &log {
            let over = excess(log, &guarantee(limit, times));
            assert!(over.is_none(), "seed {seed}, {} of client {client}: {over:?}", limit.rate);
        }
    }
    // Something was tried: by the store, by leases, and without either.
    let decided =
        |source| all.decided[Source::ALL.iter().position(|one| *one == source).expect("one of them")];
    assert!(decided(Source::Exact) > 1_000 && decided(Source::Leased) > 1_000, "{all:?}");
    let without = if on_failure == "closed" { all.unavailable } else { decided(Source::Fallback) };
    assert!(without > 1_000, "{all:?}");
}

#[test]
fn closed_and_leased_limits_are_never_passed_whatever_happens_to_nodes_and_store() {
    judge("closed", 1, true);
}

#[test]
fn nodes_that_go_on_with_their_share_stay_within_twice_the_limit() {
    judge("share", 2, false);
}

#[test]
fn an_open_limit_lets_everybody_pass_while_the_store_is_gone_and_binds_afterwards() {
    let policy = policy(&Limit { rate: "10/hour", kind: AlgorithmKind::SlidingLog, sharing: "" }, "open");
    let away = Cut {
        nodes: u64::MAX,
        from: START.plus(Span::MINUTE),
        until: START.plus(Span::from_secs(120)),
        loses_data: false,
    };
    let cluster = Cluster { count: 3, spread: Spread::RoundRobin, cuts: vec![away], crashes: Vec::new() };
    let mut nodes = Nodes::new(&policy, &cluster, &|_| None).expect("nodes");
    let mut admitted = [0; 3];
    for second in 0..180 {
        let request = request(START.plus(Span::from_secs(second)), 1);
        let allowed = nodes.ask(&request).is_ok_and(|judged| !judged.ending().is_refusal());
        admitted[usize::try_from(second / 60).expect("a minute")] += u64::from(allowed);
    }
    // A refusal that is known is obeyed for a second more by each node.
    assert_eq!(admitted[0], 10);
    assert!((57..=60).contains(&admitted[1]), "{admitted:?}");
    assert!(admitted[2] <= 3, "{admitted:?}: only until the breaker has asked again");
}

#[test]
fn a_store_that_comes_back_empty_is_exhausted_for_closed_limits() {
    let policy =
        policy(&Limit { rate: "10 per 10min", kind: AlgorithmKind::SlidingLog, sharing: "" }, "closed");
    let from = START.plus(Span::MINUTE);
    let away = Cut { nodes: u64::MAX, from, until: from.plus(Span::SECOND), loses_data: true };
    let cluster = Cluster { count: 3, spread: Spread::RoundRobin, cuts: vec![away], crashes: Vec::new() };
    let mut nodes = Nodes::new(&policy, &cluster, &|_| None).expect("nodes");
    let mut log = Vec::new();
    for second in 0..1_200 {
        let request = request(START.plus(Span::from_secs(second)), 1);
        if nodes.ask(&request).is_ok_and(|judged| !judged.ending().is_refusal()) {
            log.push(Admitted { at: request.at, cost: 1 });
        }
    }
    let rate = "10 per 10min".parse().expect("a rate");
    let algorithm = Algorithm::new(AlgorithmKind::SlidingLog, &rate).expect("a limit");
    assert!(excess(&log, &algorithm.guarantee()).is_none() && log.len() > 10, "{}", log.len());
}

#[test]
fn a_ban_by_one_node_is_known_to_the_others() {
    let text = "[[limit]]\nid = \"all\"\nlayer = \"user\"\nrate = \"2/min\"\n[ladder]\nrungs = [{ strikes = 1, ban = \"1h\" }]";
    let policy = Policy::read("p.toml", text, &|_| None).unwrap_or_else(|error| panic!("{error}"));
    let cluster = Cluster { count: 4, spread: Spread::RoundRobin, cuts: Vec::new(), crashes: Vec::new() };
    let mut nodes = Nodes::new(&policy, &cluster, &|_| None).expect("nodes");
    for second in 0..60 {
        let request = request(START.plus(Span::from_secs(10 * second)), 1);
        let _ = nodes.ask(&request).map(|judged| !judged.ending().is_refusal());
        if second % 5 == 0 {
            (0..5).for_each(|_| assert!(nodes.ask(&request).is_ok_and(|judged| !judged.unavailable)));
        }
    }
    assert_eq!(nodes.sanctions().bans, 1, "{:?}", nodes.sanctions());
    let late = request(START.plus(Span::from_secs(700)), 1);
    for _ in 0..4 {
        assert!(!nodes.ask(&late).expect("a decision").decision.allowed());
    }
}

#[test]
fn a_policy_for_fewer_nodes_is_refused() {
    let policy = policy(&LIMITS[0], "share");
    let cluster = Cluster { count: 6, spread: Spread::Client, cuts: Vec::new(), crashes: Vec::new() };
    let Err(error) = Nodes::new(&policy, &cluster, &|_| None) else { panic!("it was accepted") };
    assert!(error.to_string().contains("nodes = 5 and the scenario has 6"), "{error}");
}
