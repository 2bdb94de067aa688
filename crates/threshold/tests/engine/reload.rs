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
    assert_eq!(service.ask(&ask).await.considered().len(), 400, "nothing was left out and nothing added");
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

#[tokio::test]
async fn a_retiring_limit_keeps_its_routes() {
    let with = |routes: &str, rate: &str| {
        format!(
            "{IDENTITY}\n[routes]\n{routes}\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nroute = \"posts\"\nrate = \"{rate}\"\n"
        )
    };
    let service = Service::new(&with("posts = \"GET /posts\"", "10/hour"));
    let alice = Ask::get("/posts").by("alice");
    assert_eq!(service.drain(&alice, 30).await, 10);
    service.engine.reload(rules(&with("about = \"GET /about\"\nposts = \"GET /posts\"", "100/day"))).unwrap();
    assert!(service.allows(&Ask::get("/about").by("alice")).await, "no limit is for /about");
    assert_eq!(service.drain(&alice, 30).await, 0, "the hour's limit still binds");
}

#[tokio::test]
async fn a_retiring_limit_keeps_its_tiers() {
    let with = |tiers: &str| {
        format!(
            "{IDENTITY}\n{tiers}\n[tenants]\nacme = \"free\"\n[[limit]]\nid = \"one\"\nlayer = \"tenant\"\ncategory = \"requests\"\n"
        )
    };
    let service =
        Service::new(&with("[tiers.free]\nrequests = \"10/hour\"\n[tiers.pro]\nrequests = \"1000/hour\""));
    let ask = Ask::get("/").of("acme");
    assert_eq!(service.drain(&ask, 30).await, 10);
    service.engine.reload(rules(&with("[tiers.basic]\nrequests = \"50/day\"\n[tiers.free]\nrequests = \"100/day\"\n[tiers.pro]\nrequests = \"10000/day\""))).unwrap();
    assert_eq!(service.drain(&ask, 30).await, 0, "the hour's limit still binds");
}

#[tokio::test]
async fn tiers_are_compared_one_by_one() {
    let with = |free: &str, pro: &str| {
        format!(
            "{IDENTITY}\n[tiers.free]\nrequests = \"{free}\"\n[tiers.pro]\nrequests = \"{pro}\"\n[tenants]\nacme = \"free\"\n[[limit]]\nid = \"one\"\nlayer = \"tenant\"\ncategory = \"requests\"\n"
        )
    };
    let service = Service::new(&with("10/hour", "1000/day"));
    let ask = Ask::get("/").of("acme");
    assert_eq!(service.drain(&ask, 30).await, 10);
    service.engine.reload(rules(&with("100/day", "1000/day"))).unwrap();
    assert_eq!(service.drain(&ask, 30).await, 0, "retired: no tier has hours any more");
    let service = Service::new(&with("10/hour", "1000/day"));
    assert_eq!(service.drain(&ask, 30).await, 10);
    service.engine.reload(rules(&with("100/day", "1000/hour"))).unwrap();
    assert_eq!(service.drain(&ask, 30).await, 0, "the hour's limit still binds free tenants");
}

#[tokio::test]
async fn another_ipv6_prefix_gives_no_fresh_budget() {
    let with = |p: u8| {
        format!(
            "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\nclient_ip = \"x-forwarded-for\"\nipv6_prefix = {p}\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"10/hour\"\n"
        )
    };
    let service = Service::new(&with(64));
    let ask = Ask::get("/").from("2001:db8::1");
    assert_eq!(service.drain(&ask, 30).await, 10);
    service.engine.reload(rules(&with(56))).unwrap();
    assert_eq!(service.drain(&ask, 30).await, 0, "what was consumed stays consumed");
}

#[tokio::test]
async fn a_limit_that_is_observed_from_now_on_does_not_retire() {
    let service =
        Service::new(&format!("{IDENTITY}\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"1/hour\"\n"));
    let alice = Ask::get("/").by("alice");
    assert_eq!(service.drain(&alice, 3).await, 1);
    service
        .engine
        .reload(rules(&format!(
            "{IDENTITY}\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"1/day\"\nenforce = \"observe\"\n"
        )))
        .unwrap();
    assert_eq!(service.drain(&alice, 3).await, 3, "observed only");
}

#[tokio::test]
async fn a_limit_that_counts_requests_instead_of_bytes_is_another() {
    let service = Service::new(&format!(
        "{IDENTITY}\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"1MB/hour\"\nalgorithm = \"fixed-window\"\n"
    ));
    let alice = Ask::post("/").by("alice").bytes(1000);
    assert!(service.allows(&alice).await);
    service.engine.reload(rules(&format!("{IDENTITY}\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"100/hour\"\nalgorithm = \"fixed-window\"\n"))).unwrap();
    assert!(service.allows(&alice).await, "one request was made this hour");
}
