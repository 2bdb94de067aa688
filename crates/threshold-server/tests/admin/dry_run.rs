//! Policies that are tried on what was asked, judged by a client's own log.

use std::collections::HashMap;

use proptest::prelude::{ProptestConfig, Strategy, any};
use proptest::test_runner::TestRunner;
use serde_json::{Value as Json, json};

use super::common::{Operated, POLICY, TOKEN, assert_problem};
use crate::support::client::Client;

/// One limit for each client and route, whose windows are so long that no time within the test passes one.
fn policy(rates: [u64; 2]) -> String {
    let [reads, writes] = rates;
    format!(
        "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\nclient_ip = \"x-forwarded-for\"\n\
         [routes]\nreads = \"GET /things\"\nwrites = \"POST /things\"\n\
         [[limit]]\nid = \"reads\"\nlayer = \"endpoint\"\nroute = \"reads\"\nper = \"ip\"\nrate = \"{reads}/day\"\n\
         algorithm = \"fixed-window\"\n\
         [[limit]]\nid = \"writes\"\nlayer = \"user\"\nroute = \"writes\"\nper = \"ip\"\nrate = \"{writes}/day\"\n\
         algorithm = \"fixed-window\"\n"
    )
}

/// What a client asked, and whether it passed.
#[derive(Clone, Copy, Debug)]
struct Logged {
    client: u8,
    write: bool,
    passed: bool,
}

/// Who is denied how often, if each client may read and write so often.
fn judge(log: &[Logged], rates: [u64; 2]) -> (Vec<bool>, [u64; 2]) {
    let (mut used, mut denied) = (HashMap::new(), [0; 2]);
    let passed = log.iter().map(|logged| {
        let kind = usize::from(logged.write);
        let used: &mut u64 = used.entry((logged.client, logged.write)).or_default();
        let passes = *used < rates[kind];
        *used += u64::from(passes);
        denied[kind] += u64::from(!passes);
        passes
    });
    (passed.collect(), denied)
}

async fn traffic(operated: &Operated, asked: &[(u8, bool)]) -> Vec<Logged> {
    let client = Client::new(operated.server.gateway);
    let mut log = Vec::new();
    for (number, write) in asked {
        let address = format!("203.0.113.{number}");
        let method = if *write { "POST" } else { "GET" };
        let headers = [("x-forwarded-for", address.as_str()), ("cookie", "session=hunter2")];
        let answer = client.send(client.request(method, "/things?token=hunter2", &headers, "")).await;
        // The application has nothing there, and says so to whoever passes.
        assert!([404, 429].contains(&answer.status.as_u16()), "{}", answer.text());
        log.push(Logged { client: *number, write: *write, passed: answer.status == 404 });
    }
    log
}

async fn tried(operated: &Operated, policy: &str) -> Json {
    operated.told("POST", "policy/dry-run", &json!({ "policy": policy }).to_string()).await
}

/// What `told` must say of `log`, where the policy in force allows `rates` and the other one `other`.
fn assert_told(told: &Json, log: &[Logged], rates: [u64; 2], other: [u64; 2]) {
    let ((now, by_now), (then, by_then)) = (judge(log, rates), judge(log, other));
    let live: Vec<bool> = log.iter().map(|logged| logged.passed).collect();
    assert_eq!(live, now, "the log is what the policy in force means");
    let count = |passed: &[bool]| {
        let allowed = passed.iter().filter(|passed| **passed).count();
        json!({ "allowed": allowed, "warned": 0, "slowed": 0, "denied": passed.len() - allowed })
    };
    assert_eq!(
        (&told["live"], &told["current"], &told["proposed"]),
        (&count(&live), &count(&now), &count(&then)),
        "{told}"
    );
    assert_eq!((&told["requests"], &told["oneClientIn"]), (&json!(log.len()), &json!(1)), "{told}");
    let of = |limit: &str| {
        let limits = told["limits"].as_array().unwrap();
        let found = limits.iter().find(|one| one["limit"] == limit);
        found.map_or([0, 0], |one| ["current", "proposed"].map(|name| one[name].as_u64().unwrap()))
    };
    assert_eq!([of("reads"), of("writes")], [[by_now[0], by_then[0]], [by_now[1], by_then[1]]], "{told}");
    for (name, was, is) in [("newlyDenied", true, false), ("newlyAllowed", false, true)] {
        let mut each = HashMap::<u8, u64>::new();
        for ((logged, now), then) in log.iter().zip(&now).zip(&then) {
            if (*now, *then) == (was, is) {
                *each.entry(logged.client).or_default() += 1;
            }
        }
        let mut expected: Vec<u64> = each.into_values().collect();
        expected.sort_unstable_by(|one, other| other.cmp(one));
        let top: Vec<u64> = told[name]["top"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["requests"].as_u64().unwrap())
            .collect();
        assert_eq!((&told[name]["subjects"], top), (&json!(expected.len()), expected), "{name}: {told}");
    }
    let text = told.to_string();
    assert!(!text.contains("203.0.113") && !text.contains("hunter2"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_in_force_is_told_as_it_was_and_another_as_it_would_have_been() {
    let asked = proptest::collection::vec((0..8_u8, any::<bool>()), 40..160);
    let terms = (1..6_u64, 1..6_u64, asked);
    let mut runner = TestRunner::new(ProptestConfig::default());
    for _ in 0..3 {
        use proptest::strategy::ValueTree as _;
        let (reads, writes, asked) = terms.new_tree(&mut runner).unwrap().current();
        let rates = [reads * 2, writes * 2];
        let operated = Operated::start(&policy(rates));
        let log = traffic(&operated, &asked).await;
        assert_told(&tried(&operated, &policy(rates)).await, &log, rates, rates);
        assert_told(&tried(&operated, &policy([reads, writes])).await, &log, rates, [reads, writes]);
        let looser = [reads * 4, writes * 2];
        assert_told(&tried(&operated, &policy(looser)).await, &log, rates, looser);
        // Nothing of it was counted: what is left is what was left.
        let after = traffic(&operated, &asked).await;
        let both = [log, after].concat();
        assert_eq!(both.iter().map(|logged| logged.passed).collect::<Vec<_>>(), judge(&both, rates).0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_policy_is_refused_and_so_is_who_may_not_change_it() {
    let operated = Operated::start(POLICY);
    let broken = operated.ask("POST", "policy/dry-run", r#"{"policy": "limit = 1"}"#).await;
    assert_problem(&broken, 422, "policy_broken");
    let body = json!({ "policy": POLICY }).to_string();
    let operator = operated.token("operate");
    let refused = operated.ask_as(&operator, ("POST", "policy/dry-run"), &[], &body).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let forgetful = Operated::with(POLICY, &["--remember", "0"], &[("THRESHOLD_ADMIN_TOKEN", TOKEN)]);
    let refused = forgetful.ask("POST", "policy/dry-run", &body).await;
    assert_problem(&refused, 422, "nothing_remembered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_shows_a_dry_run() {
    let operated = Operated::start(POLICY);
    let statuses = [operated.status().await, operated.status().await, operated.status().await];
    assert_eq!(statuses, [200, 200, 429]);
    let file = operated.server.folder.path().join("other.toml");
    std::fs::write(&file, POLICY.replace("2/day", "1/day")).unwrap();
    let line = format!("policy dry-run other.toml --admin http://{}", operated.server.admin);
    let variables = [("THRESHOLD_ADMIN_TOKEN", TOKEN)];
    let ran = operated.run(&line, &variables);
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    for row in [
        "live      2        0       0       1",
        "proposed  1        0       0       2",
        "newly denied: 1 requests of 1 subjects",
    ] {
        assert!(said.contains(row), "{row}: {said}");
    }
    let ran = operated.run(&format!("{line} --json"), &variables);
    let told: Json = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&told["requests"], &told["proposed"]["denied"]), (&json!(3), &json!(2)));
}
