//! Every scenario that is shipped, played against the policy that it is meant for: what it expects comes true.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};

use threshold::engine::Rules;
use threshold::policy::Policy;
use threshold_foresight::replay::{Replay, secrets};
use threshold_foresight::{Nodes, Scenario, Tally};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios")
}

/// The scenarios of the folder: all files but the policies.
fn scenarios() -> Vec<(String, Scenario)> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".toml") && !name.ends_with("-policy.toml"))
        .collect();
    names.sort();
    let read = |name: String| {
        let text = fs::read_to_string(folder().join(&name)).unwrap();
        let scenario = Scenario::read(&name, &text).unwrap_or_else(|error| panic!("{error}"));
        (name, scenario)
    };
    names.into_iter().map(read).collect()
}

fn policy(scenario: &Scenario) -> Policy {
    let name = scenario.policy().expect("it says which policy it is for");
    let text = fs::read_to_string(folder().join(name)).unwrap();
    Policy::read(name, &text, &|_| None).unwrap_or_else(|error| panic!("{error}"))
}

/// How many requests of each actor were sent and how many refused.
fn play(scenario: &Scenario, policy: &Policy) -> Vec<(u64, u64)> {
    let mut counts = vec![(0, 0); scenario.actors().len()];
    let mut play = scenario.play(scenario.seed());
    let mut note = |actor: usize, allowed: bool| {
        counts[actor].0 += 1;
        counts[actor].1 += u64::from(!allowed);
    };
    match scenario.cluster() {
        Some(cluster) => {
            let mut nodes = Nodes::new(policy, cluster, &|_| None).unwrap();
            while let Some(sent) = play.next() {
                note(sent.actor, nodes.ask(&sent.request).is_ok_and(|judged| !judged.ending().is_refusal()));
            }
        }
        None => {
            let rules = Rules::new(policy, &secrets(), &|_| None).unwrap();
            let mut replay = Replay::new(rules).unwrap();
            while let Some(sent) = play.next() {
                note(sent.actor, replay.ask(&sent.request).decision.allowed());
            }
        }
    }
    counts
}

#[test]
fn every_attack_that_the_design_names_has_a_scenario() {
    let names: Vec<String> = scenarios().into_iter().map(|(name, _)| name).collect();
    let attacks = [
        "crawler",
        "credential-stuffing",
        "distributed-burst",
        "everyday",
        "header-forging",
        "key-flood",
        "node-crash",
        "noisy-tenant",
        "partition",
        "slow-drip",
        "store-outage",
        "window-edges",
    ];
    assert_eq!(names, attacks.map(|name| format!("{name}.toml")));
}

#[test]
fn what_scenarios_expect_comes_true() {
    let mut wrong = Vec::new();
    for (name, scenario) in scenarios() {
        assert!(scenario.about().is_some(), "{name} does not say what it shows");
        let counts = play(&scenario, &policy(&scenario));
        let mut honest = scenario.actors().iter().filter(|actor| actor.is_honest());
        assert!(honest.any(|actor| actor.expected().is_some()), "{name} says nothing of honest ones");
        for (actor, (sent, refused)) in scenario.actors().iter().zip(counts) {
            assert!(sent > 0, "{name}: {} sends nothing", actor.name());
            let line = format!("{name}: {} had {refused} of {sent} refused", actor.name());
            match actor.expected() {
                Some(expected) if !expected.holds(refused, sent) => {
                    wrong.push(format!("{line}, {expected} expected"));
                }
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_scenario_with_nodes_comes_out_the_same_every_time() {
    let all = scenarios();
    let (_, scenario) = all.iter().find(|(name, _)| name == "store-outage.toml").unwrap();
    let policy = policy(scenario);
    assert_eq!(play(scenario, &policy), play(scenario, &policy));
}

#[test]
fn whoever_finds_no_store_is_a_subject_that_was_refused() {
    let (_, scenario) =
        scenarios().into_iter().find(|(name, _)| name == "store-outage.toml").expect("it is shipped");
    let policy = policy(&scenario);
    let mut nodes = Nodes::new(&policy, scenario.cluster().expect("it has nodes"), &|_| None).unwrap();
    let rules = nodes.rules().expect("there is a node");
    let mut tally = Tally::new(rules.routes().len(), rules.ipv6_prefix());
    let (mut play, mut away) = (scenario.play(scenario.seed()), std::collections::HashSet::new());
    while let Some(sent) = play.next() {
        let judged = nodes.ask(&sent.request).unwrap();
        if judged.unavailable {
            away.insert(sent.request.client);
        }
        tally.see(&sent.request, &judged, None);
    }
    assert!(away.len() > 5, "{}", away.len());
    assert!(nodes.figures().unavailable > away.len() as u64);
    let refused = tally.subjects.met().filter(|subject| subject.denied > 0).count();
    assert!(refused >= away.len(), "{refused} of {}", away.len());
    let by_route: u64 = tally.routes.iter().map(|counts| counts.requests()).sum();
    assert_eq!(by_route, tally.totals.requests());
}
