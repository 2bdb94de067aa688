//! A new policy between two requests.

use threshold::engine::{Engine, Extras, Secrets};
use threshold::{Algorithm, AlgorithmKind, Clock, Retry, Secret, Span};
use threshold_testkit::scan::{Admitted, excess};

use crate::common::{Ask, IDENTITY, Service, rules, rules_with};

fn policy(rest: &str) -> String {
    format!("{IDENTITY}\n[[limit]]\nid = \"one\"\nlayer = \"user\"\n{rest}\n")
}

#[tokio::test]
async fn consumption_is_kept() {
    for kind in ["token-bucket", "fixed-window", "sliding-window", "sliding-log"] {
        let with = |rate: &str| policy(&format!("rate = \"{rate}\"\nalgorithm = \"{kind}\""));
        let service = Service::new(&with("10/hour"));
        let ask = Ask::get("/").by("alice");
        assert_eq!(service.drain(&ask, 6).await, 6);
        service.engine.reload(rules(&with("8/hour"))).unwrap();
        assert_eq!(service.drain(&ask, 20).await, 2, "{kind}: lowered");
        service.engine.reload(rules(&with("20/hour"))).unwrap();
        assert_eq!(service.drain(&ask, 20).await, 12, "{kind}: raised");
    }
}

#[tokio::test]
async fn a_limit_that_becomes_another_stays_in_force_for_one_of_its_windows() {
    let service = Service::new(&policy("rate = \"10/hour\""));
    let ask = Ask::get("/").by("alice");
    assert_eq!(service.drain(&ask, 20).await, 10);
    service.engine.reload(rules(&policy("rate = \"100/day\""))).unwrap();
    assert_eq!(service.drain(&ask, 20).await, 0, "the hour's limit still binds");
    service.wait(Span::from_secs(1800));
    assert_eq!(service.drain(&ask, 20).await, 5);
    service.wait(Span::from_secs(1801));
    assert_eq!(
        service.drain(&ask, 200).await,
        97,
        "from now on the day's alone: 100 less the five, and two came back"
    );
}

#[tokio::test]
async fn a_limit_that_comes_back_is_charged_once() {
    let (hour, day) = (policy("rate = \"10/hour\""), policy("rate = \"100/day\""));
    let service = Service::new(&hour);
    service.engine.reload(rules(&day)).unwrap();
    service.engine.reload(rules(&hour)).unwrap();
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 20).await, 10);
}

#[tokio::test]
async fn more_limits_than_fit_into_a_batch_are_refused() {
    let many: String =
        (0..101).map(|n| format!("[[limit]]\nid = \"l{n}\"\nlayer = \"user\"\nrate = \"1/s\"\n")).collect();
    let error = threshold::policy::Policy::read("many.toml", &many, &|_| None).unwrap_err();
    assert_eq!(error.problems.len(), 1);
    assert_eq!(error.problems[0].field, "limit[100].id");
}

#[tokio::test]
async fn a_limit_that_is_gone_is_gone() {
    let service = Service::new(&policy("rate = \"1/hour\""));
    let ask = Ask::get("/").by("alice");
    assert_eq!(service.drain(&ask, 5).await, 1);
    service.engine.reload(rules(IDENTITY)).unwrap();
    assert_eq!(service.drain(&ask, 5).await, 5);
}

/// While both are in force each of them holds as if it were alone: the old one over all that was ever admitted, the new
/// one over all that was admitted since.
#[tokio::test]
async fn never_more_than_either_policy_alone() {
    let (old, new) = ("20 per 10s", "30 per 40s");
    let service = Service::new(&policy(&format!("rate = \"{old}\"")));
    let ask = Ask::get("/").by("alice");
    let mut log = Vec::new();
    let (mut since, mut reloaded) = (0, Default::default());
    for tick in 0..200 {
        if tick == 60 {
            service.engine.reload(rules(&policy(&format!("rate = \"{new}\"")))).unwrap();
            (since, reloaded) = (log.len(), service.clock.advance(Span::ZERO));
        }
        for _ in 0..3 {
            let decision = service.ask(&ask).await;
            log.extend(decision.allowed().then(|| Admitted { at: decision.at(), cost: 1 }));
        }
        service.wait(Span::from_micros(137_000));
    }
    let guarantee =
        |rate: &str| Algorithm::new(AlgorithmKind::TokenBucket, &rate.parse().unwrap()).unwrap().guarantee();
    let both = log.partition_point(|one: &Admitted| one.at < reloaded.plus(Span::from_secs(10)));
    assert_eq!(excess(&log[..both], &guarantee(old)), None, "the old limit, until its window has passed");
    assert_eq!(excess(&log[since..], &guarantee(new)), None, "the new limit, from the reload on");
}

#[tokio::test]
async fn a_new_secret_starts_nobody_afresh() {
    let text = policy("rate = \"10/hour\"");
    let service = Service::new(&text);
    let ask = Ask::get("/").by("alice");
    assert_eq!(service.drain(&ask, 7).await, 7);
    let rotated = Secrets { current: Secret::new([6; 16]), previous: Some(Secret::new([5; 16])) };
    let store = service.engine.store().clone();
    let rotated_engine = Engine::new(rules_with(&text, &rotated), rotated, store.clone(), store);
    let rotated = Service { engine: rotated_engine, clock: service.clock.clone() };
    assert_eq!(rotated.drain(&ask, 9).await, 3, "what was counted under the old secret still counts");
}

#[tokio::test]
async fn a_thousand_reloads_under_load_mix_no_two_policies() {
    // Under either policy both limits have the same numbers; a decision that mixed them would show two.
    let both = |rate: &str| {
        format!(
            "{IDENTITY}\n[[limit]]\nid = \"a\"\nlayer = \"user\"\nrate = \"{rate}\"\n\
             [[limit]]\nid = \"b\"\nlayer = \"endpoint\"\nrate = \"{rate}\"\n"
        )
    };
    let service = Service::new(&both("100000/s"));
    let rates = ["100000/s", "200000/s"];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..1000 {
                service.engine.reload(rules(&both(rates[round % 2]))).unwrap();
            }
        });
        for reader in 0..2 {
            let service = &service;
            scope.spawn(move || {
                for user in 0..5000 {
                    let ask = Ask::get("/").by(&format!("{reader}-{user}"));
                    let identity =
                        service.engine.rules().identify(&ask.facts(), service.clock.advance(Span::ZERO));
                    let decision = service.engine.decide_now(&ask.facts(), &identity, Default::default());
                    let rates: Vec<_> = decision.considered().iter().map(|one| one.rate).collect();
                    assert_eq!(rates.len(), 2);
                    assert_eq!(rates[0], rates[1], "one decision, two policies");
                }
            });
        }
    });
}

#[tokio::test]
async fn a_reload_that_would_keep_too_many_limits_in_force_is_refused_whole() {
    let with = |hours: usize| {
        let limit = |id: usize| {
            format!(
                "[[limit]]\nid = \"l{id}\"\nlayer = \"user\"\nrate = \"1000 per {hours}h\"\nblock_for = \"1h\"\n"
            )
        };
        format!("{IDENTITY}{}", (0..100).map(limit).collect::<String>())
    };
    let service = Service::new(&with(1));
    let ask = Ask::get("/").by("alice");
    let refused = (2..20).find_map(|hours| service.engine.reload(rules(&with(hours))).err());
    let message = refused.expect("at some point it is too much").to_string();
    assert!(message.contains("ends in 3601s: try again then"), "{message}");
    assert_eq!(service.ask(&ask).await.considered().len(), 1_000, "nothing was left out and nothing added");
    service.wait(Span::from_micros(30 * Span::HOUR.as_micros()));
    service.engine.reload(rules(&with(24))).unwrap();
    assert!(service.allows(&ask).await);
}

#[tokio::test]
async fn a_limit_that_moves_to_or_from_the_edge_or_changes_there_gives_no_fresh_budget() {
    let at = |layer: &str, rate: &str| {
        format!("{IDENTITY}\n[[limit]]\nid = \"all\"\nlayer = \"{layer}\"\nper = \"ip\"\nrate = \"{rate}\"\n")
    };
    let moves = [
        (at("edge", "5/hour"), at("user", "5/hour")),
        (at("user", "5/hour"), at("edge", "5/hour")),
        (at("edge", "5/hour"), at("edge", "5/day")),
    ];
    for (before, after) in moves {
        let service = Service::new(&before);
        assert_eq!(service.drain(&Ask::get("/"), 9).await, 5);
        service.engine.reload(rules(&after)).unwrap();
        assert_eq!(service.drain(&Ask::get("/"), 9).await, 0, "{before} -> {after}");
        let facts = Ask::get("/");
        let facts = facts.facts();
        let identity = service.engine.rules().identify(&facts, service.clock.now());
        let explained = service.engine.explain(&facts, &identity, Extras::default()).await.unwrap();
        assert_eq!(explained.considered.len(), 2, "the old one is still explained");
        assert_ne!(explained.passes, Retry::Now);
    }
}
