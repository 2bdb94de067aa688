//! Gates: who was over is kept out for as long as the limit blocks, and nobody else.

use std::num::NonZeroU64;

use proptest::prelude::*;
use threshold::Span;
use threshold::engine::Extras;

use crate::common::{Ask, IDENTITY, Service, limited, rotate, rules};

#[tokio::test]
async fn a_gate_closes_while_a_secret_is_rotated() {
    let text = limited("rate = \"2/min\"\nblock_for = \"1h\"");
    let service = rotate(&Service::new(&text), &text);
    let ask = Ask::get("/").by("alice");
    assert_eq!(service.drain(&ask, 5).await, 2);
    service.wait(Span::from_secs(60));
    assert_eq!(service.drain(&ask, 5).await, 0, "blocked for an hour");
}

#[tokio::test]
async fn a_closed_gate_of_one_limit_does_not_keep_anothers_open() {
    let text = format!(
        "{IDENTITY}\n[routes]\na = \"GET /a\"\n[[limit]]\nid = \"la\"\nlayer = \"user\"\nroute = \"a\"\nrate = \"1/hour\"\nblock_for = \"1h\"\n[[limit]]\nid = \"lb\"\nlayer = \"user\"\nrate = \"2/min\"\nblock_for = \"1h\"\n"
    );
    let service = Service::new(&text);
    let (a, b) = (Ask::get("/a").by("alice"), Ask::get("/b").by("alice"));
    assert!(service.allows(&a).await);
    assert!(!service.allows(&a).await); // la over: its gate closes
    assert!(service.allows(&b).await); // lb: 2 of 2
    assert!(!service.allows(&a).await); // la refuses, lb is over too
    service.wait(Span::from_secs(60));
    assert_eq!(service.drain(&b, 5).await, 0, "lb was over a minute ago: blocked for an hour");
}

#[tokio::test]
async fn a_gate_closes_when_the_network_is_over_as_well() {
    let text = "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\nclient_ip = \"x-forwarded-for\"\nipv6_aggregates = [{ prefix = 48, times = 1 }]\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"2/min\"\nblock_for = \"1h\"\n";
    let service = Service::new(text);
    let ask = Ask::get("/").from("2001:db8::1");
    assert_eq!(service.drain(&ask, 5).await, 2);
    service.wait(Span::from_secs(60));
    assert_eq!(service.drain(&ask, 5).await, 0, "blocked for an hour");
}

#[tokio::test]
async fn who_waits_as_told_finds_the_gate_open() {
    let service = Service::new(&limited("rate = \"2/min\"\nblock_for = \"1h\""));
    let ask = Ask::get("/").by("alice");
    assert_eq!(service.drain(&ask, 2).await, 2);
    let wait = service.ask(&ask).await.retry_after().unwrap();
    service.wait(Span::from_micros(wait.as_micros() as u64));
    assert!(service.allows(&ask).await, "waited {wait:?} as told");
}

#[tokio::test]
async fn a_closed_gate_outlasts_a_new_secret() {
    let text = limited("rate = \"2/min\"\nblock_for = \"1h\"");
    let service = Service::new(&text);
    let ask = Ask::get("/").by("alice");
    assert_eq!(service.drain(&ask, 5).await, 2);
    service.wait(Span::from_secs(60));
    assert_eq!(service.drain(&ask, 5).await, 0);
    assert_eq!(rotate(&service, &text).drain(&ask, 5).await, 0, "blocked for an hour");
}

#[tokio::test]
async fn a_closed_gate_outlasts_another_block_for() {
    let service = Service::new(&limited("rate = \"2/min\"\nblock_for = \"1h\""));
    let ask = Ask::get("/").by("alice");
    assert_eq!(service.drain(&ask, 5).await, 2);
    service.wait(Span::from_secs(60));
    assert_eq!(service.drain(&ask, 5).await, 0);
    service.engine.reload(rules(&limited("rate = \"2/min\"\nblock_for = \"2h\""))).unwrap();
    assert_eq!(service.drain(&ask, 5).await, 0, "blocked for an hour, even two");
}

#[tokio::test]
async fn a_retiring_limit_closes_its_own_gate_and_no_other() {
    let service = Service::new(&limited("per = \"user\"\nrate = \"2/hour\"\nblock_for = \"1h\""));
    let (alice, bob) = (Ask::get("/").by("alice"), Ask::get("/").by("bob"));
    assert_eq!(service.drain(&alice, 2).await, 2);
    service.engine.reload(rules(&limited("per = \"ip\"\nrate = \"100/hour\"\nblock_for = \"1h\""))).unwrap();
    assert!(!service.allows(&alice).await, "the old limit still holds");
    assert!(service.allows(&bob).await, "bob did nothing; the address has 100");
}

#[tokio::test]
async fn a_retiring_gate_lasts_as_long_as_it_blocks() {
    let service = Service::new(&limited("per = \"user\"\nrate = \"2/min\"\nblock_for = \"1h\""));
    let alice = Ask::get("/").by("alice");
    assert_eq!(service.drain(&alice, 5).await, 2);
    service.engine.reload(rules(&limited("per = \"ip\"\nrate = \"100/min\"\nblock_for = \"1h\""))).unwrap();
    service.wait(Span::from_secs(120));
    assert!(!service.allows(&alice.clone().from("192.0.2.77")).await, "blocked for an hour");
}

#[tokio::test]
async fn a_gate_closes_while_its_limit_retires() {
    let service = Service::new(&limited("rate = \"4/min\"\nblock_for = \"1h\""));
    service.engine.reload(rules(&limited("rate = \"4 per 2min\"\nblock_for = \"1h\""))).unwrap();
    let alice = Ask::get("/").by("alice");
    assert_eq!(service.drain(&alice, 9).await, 4);
    service.wait(Span::from_secs(50));
    assert_eq!(service.drain(&alice, 9).await, 0, "blocked for an hour");
}

#[tokio::test]
async fn a_network_that_is_over_closes_the_gate_of_nobody_in_it() {
    let text = "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\nclient_ip = \"x-forwarded-for\"\nipv6_aggregates = [{ prefix = 48, times = 2 }]\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"2/min\"\nblock_for = \"1h\"\n";
    let service = Service::new(text);
    let at = |n: usize| Ask::get("/").from(&format!("2001:db8:0:{n}::1"));
    for n in 1..3 {
        assert_eq!(service.drain(&at(n), 2).await, 2);
    }
    assert!(!service.allows(&at(9)).await, "network over");
    service.wait(Span::from_secs(60));
    assert!(service.allows(&at(9)).await, "this /64 sent one request, ever; the network is as new");
}

#[tokio::test]
async fn a_cost_that_never_fits_closes_no_gate() {
    let service = Service::new(&format!(
        "{IDENTITY}\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"1MB/min\"\nblock_for = \"1h\"\n"
    ));
    assert!(!service.allows(&Ask::post("/").by("alice").bytes(2_000_000)).await);
    assert!(service.allows(&Ask::post("/").by("alice").bytes(10)).await);
}

/// What the limit "one" answers to requests of `sent`, each with its cost and the wait before it: true if it refuses, or
/// would.
async fn refusals(policy: &str, sent: &[(u64, u64)]) -> Vec<bool> {
    let service = Service::new(policy);
    let mut refusals = Vec::new();
    for (cost, wait) in sent {
        service.wait(Span::from_micros(*wait));
        let extras = Extras { cost: NonZeroU64::new(*cost), ..Extras::default() };
        let ask = Ask::get("/").by("alice");
        let decision = service.engine.decide(&ask.facts(), extras).await.expect("memory answers");
        refusals.push(!decision.allowed() || decision.uses().any(|used| used.refuses));
    }
    refusals
}

proptest! {
    #[test]
    fn a_limit_that_blocks_would_refuse_the_same_while_it_is_observed(
        algorithm in prop::sample::select(vec!["token-bucket", "fixed-window", "sliding-window", "sliding-log"]),
        layer in prop::sample::select(vec!["edge", "user", "endpoint"]),
        (count, block) in (2..8_u64, 1..30_u64),
        sent in prop::collection::vec((1..3_u64, 0..4_000_000_u64), 1..60),
    ) {
        let policy = |enforce: &str| format!(
            "{IDENTITY}\n[[limit]]\nid = \"one\"\nlayer = \"{layer}\"\nper = \"ip\"\nrate = \"{count} per 5s\"\n\
             algorithm = \"{algorithm}\"\nblock_for = \"{block}s\"\nenforce = \"{enforce}\"\n"
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let [on, observed] =
            ["on", "observe"].map(|enforce| runtime.block_on(refusals(&policy(enforce), &sent)));
        prop_assert_eq!(observed, on);
    }
}

#[tokio::test]
async fn an_observed_gate_refuses_nobody_and_charges_nothing_while_it_is_closed() {
    let policy = |enforce: &str| {
        limited(&format!("rate = \"3/hour\"\nblock_for = \"1min\"\nenforce = \"{enforce}\""))
            + "[[limit]]\nid = \"two\"\nlayer = \"endpoint\"\nrate = \"100/hour\"\n"
    };
    let service = Service::new(&policy("observe"));
    let ask = Ask::get("/").by("alice");
    assert_eq!(service.drain(&ask, 50).await, 50, "nobody is refused");
    assert_eq!(service.ask(&ask).await.quota().unwrap().remaining, 49, "the limit in force counts them all");
    service.wait(Span::from_secs(20 * 60));
    let decision = service.ask(&ask).await;
    let one = decision.uses().find(|used| used.limit == "one").unwrap();
    assert!(!one.refuses, "the gate is open, and a third of an hour is enough for one");
}

#[tokio::test]
async fn a_body_that_an_observed_gate_would_keep_out_is_given_back_once() {
    let policy = format!(
        "{IDENTITY}\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"100B/hour\"\nblock_for = \"1s\"\nenforce = \"observe\"\n"
    );
    let service = Service::new(&policy);
    let ask = |bytes| Ask::post("/").by("alice").bytes(bytes);
    let left = |decision: &threshold::engine::Decision| decision.uses().next().unwrap().remaining;
    assert!(service.ask(&ask(60)).await.allowed());
    assert!(service.ask(&ask(60)).await.allowed(), "over, and its gate closes");
    let mut kept_out = service.ask(&ask(30)).await;
    service.engine.refund_bytes(&mut kept_out, 0).await.unwrap();
    service.wait(Span::from_secs(1));
    assert_eq!(left(&service.ask(&ask(1)).await), 39, "60 and 1 of 100");
}
