//! Instances of the service over real sockets, Postgres and Redis, judged from the client.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/site.rs"]
mod site;

use std::collections::BTreeMap;
use std::sync::Arc;

use communique::settings::Window;
use serde_json::json;
use site::{Site, Stores, settings};
use threshold::{ManualClock, MemoryStore, Span, Timestamp};
use threshold_testkit::servers::{Postgres, PostgresOptions, Redis};

/// How often each answer came when so many contributions are made at once, by turns at each of `sites`.
async fn at_once(sites: &[Site], metric: &str, many: usize) -> BTreeMap<u16, usize> {
    let mut asking = tokio::task::JoinSet::new();
    for turn in 0..many {
        let (site, metric) = (sites[turn % sites.len()].clone(), metric.to_owned());
        asking.spawn(async move { site.post("/contribute", &json!({ "metric": metric })).await.status });
    }
    let mut statuses = BTreeMap::new();
    for status in asking.join_all().await {
        *statuses.entry(status).or_default() += 1;
    }
    statuses
}

async fn two(stores: &Stores, implementation: &str, window: Window) -> [Site; 2] {
    let settings = settings(implementation, window, stores);
    [Site::start(&settings).await, Site::start(&settings).await]
}

/// One setting, and the same service counts elsewhere. Two instances share a hundred a day wherever they can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_has_its_number_of_each_metric_wherever_counters_live() {
    let redis = Redis::start();
    for window in [Window::Day, Window::Sliding] {
        for implementation in ["postgres", "hybrid", "redis"] {
            let postgres = Postgres::start();
            let stores = Stores { postgres: Some(postgres.url()), redis: Some(redis.url()) };
            let sites = two(&stores, implementation, window).await;
            let admitted = at_once(&sites, "template_view", 150).await;
            assert_eq!(admitted, BTreeMap::from([(200, 100), (429, 50)]), "{implementation} {window:?}");
            let admitted = at_once(&sites, "delivery_attempt", 30).await;
            assert_eq!(admitted, BTreeMap::from([(200, 10), (429, 20)]), "{implementation} {window:?}");
            assert_eq!(at_once(&sites, "page_view", 5).await, BTreeMap::from([(200, 5)]), "another metric");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_instance_needs_no_store() {
    let site = Site::start(&settings("memory", Window::Day, &Stores::default())).await;
    let sites = [site];
    assert_eq!(at_once(&sites, "template_view", 150).await, BTreeMap::from([(200, 100), (429, 50)]));
    assert_eq!(at_once(&sites, "delivery_attempt", 30).await, BTreeMap::from([(200, 10), (429, 20)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approximate_is_the_limit_of_each_instance_and_money_is_exact_all_the_same() {
    let postgres = Postgres::start();
    let stores = Stores { postgres: Some(postgres.url()), redis: None };
    let sites = two(&stores, "approximate", Window::Day).await;
    assert_eq!(at_once(&sites, "delivery_attempt", 60).await, BTreeMap::from([(200, 20), (429, 40)]));
    assert_eq!(sites[0].post("/spend", &json!({"cents": 300})).await.status, 200);
    assert_eq!(sites[1].post("/spend", &json!({"cents": 300})).await.status, 429);
    let answer = sites[1].post("/spend", &json!({"cents": 200})).await;
    assert_eq!((answer.status, answer.json["remainingCents"].as_u64()), (200, Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_are_checked_in_one_round_trip_and_each_by_itself() {
    let postgres = PostgresOptions::new().set("track_functions", "all").start();
    let stores = Stores { postgres: Some(postgres.url()), redis: None };
    let [site, _] = two(&stores, "postgres", Window::Day).await;
    // As the database counts them, where nobody else is.
    let calls = || {
        postgres.sql("select pg_stat_force_next_flush()");
        let calls = postgres
            .sql("select coalesce(sum(calls), 0) from pg_stat_user_functions where funcname like 'apply%'");
        calls.trim().parse::<u64>().unwrap()
    };
    let key = |last: usize, metric: &str| json!({"address": format!("192.0.2.{last}"), "metric": metric});
    let mut keys: Vec<_> = (0..40).map(|last| key(last, "page_view")).collect();
    keys.extend((0..12).map(|_| key(200, "delivery_attempt")));
    let before = calls();
    let answer = site.post("/check", &json!({ "keys": keys })).await;
    let results = answer.json["results"].as_array().unwrap().clone();
    let allowed: Vec<bool> = results.iter().map(|result| result["allowed"].as_bool().unwrap()).collect();
    assert_eq!(allowed, [vec![true; 50], vec![false; 2]].concat(), "the last two are too many");
    drop(site);
    // Sessions report when they are idle or end.
    let mut after = calls();
    for _ in 0..100 {
        if after > before {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        after = calls();
    }
    assert_eq!(after - before, 1, "one call for 52 keys");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_postgres_is_gone_contributions_pass_and_money_does_not() {
    let mut postgres = Postgres::start();
    let stores = Stores { postgres: Some(postgres.url()), redis: None };
    let [site, _] = two(&stores, "hybrid", Window::Day).await;
    assert_eq!(site.post("/spend", &json!({"cents": 400})).await.status, 200);
    let delivery = json!({"metric": "delivery_attempt"});
    for _ in 0..10 {
        assert_eq!(site.post("/contribute", &delivery).await.status, 200);
    }
    assert_eq!(site.post("/contribute", &delivery).await.status, 429);
    postgres.kill();
    let view = json!({"metric": "page_view"});
    for _ in 0..200 {
        let answer = site.post("/contribute", &view).await;
        assert_eq!((answer.status, answer.json["source"].as_str()), (200, Some("open")));
    }
    assert_eq!(site.post("/spend", &json!({"cents": 1})).await.status, 503);
    postgres.start_again();
    let mut spent = site.post("/spend", &json!({"cents": 101})).await;
    for _ in 0..400 {
        if spent.status != 503 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        spent = site.post("/spend", &json!({"cents": 101})).await;
    }
    assert_eq!((spent.status, spent.json["remainingCents"].as_u64()), (429, Some(100)), "it remembers");
    assert_eq!(site.post("/contribute", &delivery).await.status, 429, "so it does here");
    assert!(site.said().iter().any(|line| line.contains("store is down")), "{:?}", site.said());
    assert!(site.said().iter().any(|line| line.contains("store is up")), "{:?}", site.said());
}

/// The first refusal is told to Redis, and counters continue there: the half of each limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_redis_before_it_instances_share_refusals_and_go_on_without_postgres() {
    let (mut postgres, redis) = (Postgres::start(), Redis::start());
    let stores = Stores { postgres: Some(postgres.url()), redis: Some(redis.url()) };
    let [one, other] = two(&stores, "redis", Window::Day).await;
    let delivery = json!({"metric": "delivery_attempt"});
    for _ in 0..11 {
        one.post("/contribute", &delivery).await;
    }
    let answer = other.post("/contribute", &delivery).await;
    assert_eq!((answer.status, answer.json["source"].as_str()), (429, Some("denial-cache")));
    postgres.kill();
    let view = json!({"metric": "page_view"});
    let mut allowed = 0;
    for turn in 0..150 {
        let site = if turn % 2 == 0 { &one } else { &other };
        let answer = site.post("/contribute", &view).await;
        assert_eq!(answer.json["source"].as_str(), Some("fallback"));
        allowed += u32::from(answer.status == 200);
    }
    assert_eq!(allowed, 50, "both instances together");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_longer_counts_is_swept_and_the_number_is_said() {
    let postgres = Postgres::start();
    let stores = Stores { postgres: Some(postgres.url()), redis: None };
    for window in [Window::Day, Window::Sliding] {
        let [site, _] = two(&stores, "postgres", window).await;
        site.contribute_from(20).await;
        let stats = site.get("/stats").await.json;
        assert_eq!(stats, json!({"activeEntries": 20, "todayEntries": 20, "implementation": "postgres"}));
        // As if the first fifteen had been written two days ago.
        postgres.sql(&format!(
            "update threshold.states set at = at - {} where key in (select key from threshold.states limit 15)",
            Span::DAY.as_micros() * 2
        ));
        site.sweep_once().await;
        assert!(
            site.said().contains(&"swept: 15 of 20 entries no longer count".to_owned()),
            "{:?}",
            site.said()
        );
        let stats = site.get("/stats").await.json;
        assert_eq!((stats["activeEntries"].as_u64(), stats["todayEntries"].as_u64()), (Some(5), Some(5)));
        postgres.sql("delete from threshold.states");
    }
}

/// A clock that is set by hand, because nobody waits for midnight.
#[tokio::test]
async fn a_day_ends_at_midnight_and_24_hours_do_not() {
    for (window, at_midnight, a_day_later) in [(Window::Day, 10, 10), (Window::Sliding, 0, 10)] {
        // An hour before midnight.
        let clock =
            ManualClock::starting_at(Timestamp::from_micros((20_000 * 24 - 1) * Span::HOUR.as_micros()));
        let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
        let site = Site::over(Arc::new(store), &settings("memory", window, &Stores::default())).await;
        let sites = [site.clone()];
        let passed = async || at_once(&sites, "delivery_attempt", 15).await.get(&200).copied().unwrap_or(0);
        assert_eq!(passed().await, 10);
        clock.advance(Span::from_micros(2 * Span::HOUR.as_micros()));
        assert_eq!(passed().await, at_midnight, "{window:?}");
        clock.advance(Span::from_micros(2 * Span::DAY.as_micros()));
        assert_eq!(passed().await, a_day_later, "{window:?}");
        clock.advance(Span::from_micros(2 * Span::DAY.as_micros() + 1));
        let stats = site.get("/stats").await.json;
        assert_eq!(
            (stats["activeEntries"].as_u64(), stats["todayEntries"].as_u64()),
            (Some(1), Some(0)),
            "{window:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyone_together_spends_five_dollars_a_day_and_not_a_cent_more() {
    let postgres = Postgres::start();
    let stores = Stores { postgres: Some(postgres.url()), redis: None };
    let sites = two(&stores, "postgres", Window::Day).await;
    let mut asking = tokio::task::JoinSet::new();
    for turn in 0..60_u64 {
        let (site, cents) = (sites[usize::try_from(turn % 2).unwrap()].clone(), 7 + turn % 13);
        asking.spawn(async move { (cents, site.post("/spend", &json!({ "cents": cents })).await.status) });
    }
    let spent: u64 = asking
        .join_all()
        .await
        .into_iter()
        .filter(|(_, status)| *status == 200)
        .map(|(cents, _)| cents)
        .sum();
    assert!(spent <= 500 && spent > 500 - 19, "{spent} cents");
    let too_much = sites[0].post("/spend", &json!({"cents": 501})).await;
    assert_eq!(too_much.status, 422, "never");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_address_reaches_the_database() {
    let postgres = Postgres::start();
    let stores = Stores { postgres: Some(postgres.url()), redis: None };
    let [site, _] = two(&stores, "postgres", Window::Day).await;
    site.post("/check", &json!({"keys": [{"address": "203.0.113.77", "metric": "page_view"}]})).await;
    let rows = postgres.sql("select states::text from threshold.states states");
    assert!(!rows.trim().is_empty());
    for secret in ["203.0.113.77", "page_view"] {
        assert!(!rows.contains(secret), "{rows}");
    }
}

#[tokio::test]
async fn what_cannot_be_understood_is_told_with_a_remedy() {
    let site = Site::start(&settings("memory", Window::Day, &Stores::default())).await;
    for (path, wish, told) in [
        (
            "/contribute",
            json!({"metric": "clicks"}),
            "template_view, template_share, page_view, delivery_attempt",
        ),
        ("/contribute", json!({}), "send {\"metric\""),
        ("/check", json!({"keys": [{"address": 7}]}), "send {\"keys\""),
        ("/spend", json!({"cents": 0}), "at least 1"),
        ("/spend", json!({"cents": -4}), "send {\"cents\""),
    ] {
        let answer = site.post(path, &wish).await;
        assert_eq!(answer.status, 400, "{path} {wish}");
        assert!(answer.json["error"].as_str().unwrap().contains(told), "{}", answer.json);
    }
    let keys: Vec<_> = (0..1_025).map(|_| json!({"address": "192.0.2.1", "metric": "page_view"})).collect();
    assert_eq!(site.post("/check", &json!({ "keys": keys })).await.status, 400);
}

#[test]
fn settings_say_what_is_missing() {
    for (given, told) in [
        (vec![("RATE_LIMIT", "mysql")], "memory, postgres, hybrid, approximate, redis"),
        (vec![("RATE_LIMIT", "postgres")], "RATE_LIMIT_SECRET is not set"),
        (vec![("RATE_LIMIT", "hybrid"), ("RATE_LIMIT_SECRET", "short")], "too short"),
        (vec![("RATE_LIMIT", "redis"), ("RATE_LIMIT_SECRET", site::SECRET)], "DATABASE_URL is not set"),
        (vec![("RATE_LIMIT_WINDOW", "week")], "neither day nor 24h"),
        (vec![("RATE_LIMIT_NODES", "0")], "how many instances"),
    ] {
        let error = communique::settings::Settings::read(&site::variables(&given)).unwrap_err();
        assert!(error.contains(told), "{error}");
    }
}
