//! The three ways to ask agree: a fresh decision, one whose place is used again, and an explanation.

use threshold::engine::{Decision, Extras};
use threshold::{Clock, PermitId, Retry, Span};

use crate::common::{Ask, IDENTITY, Service};

/// Something of everything.
const POLICY: &str = r#"
[routes]
a = "GET /a/**"
up = "POST /up"
[tiers.free]
requests = "20/min"
[tiers.pro]
requests = "50/min"
[tenants]
acme = "free"
beta = "pro"
[[limit]]
id = "e"
layer = "edge"
rate = "30/min"
block_for = "10s"
[[limit]]
id = "t"
layer = "tenant"
category = "requests"
[[limit]]
id = "u"
layer = "user"
rate = "8/min"
algorithm = "sliding-log"
block_for = "5s"
[[limit]]
id = "w"
layer = "user"
route = "a"
rate = "5/min"
algorithm = "sliding-window"
enforce = "50%"
[[limit]]
id = "c"
layer = "endpoint"
rate = "2 per 10s"
algorithm = "concurrency"
[[limit]]
id = "b"
layer = "endpoint"
route = "up"
rate = "1MB/min"
"#;

/// Two services of the same policy: one asked for explanations and with a decision that is used again and again.
#[tokio::test]
async fn a_decision_used_again_says_what_a_fresh_one_says_and_an_explanation_said_so_before() {
    let text = format!("{IDENTITY}{POLICY}");
    let (one, two) = (Service::new(&text), Service::new(&text));
    let mut state = 77_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut reused = Decision::default();
    for round in 0..5_000_u128 {
        let path = ["/a/x", "/b", "/up", "/%zz", "/a"][(next() % 5) as usize];
        let mut ask = if next() % 3 == 0 { Ask::post(path) } else { Ask::get(path) };
        ask = ask.from(["192.0.2.1", "192.0.2.2", "2001:db8::1"][(next() % 3) as usize]);
        if next() % 2 == 0 {
            ask = ask.of(["acme", "beta", "x"][(next() % 3) as usize]);
        }
        if next() % 2 == 0 {
            ask = ask.by(["al", "bo", "ci"][(next() % 3) as usize]);
        }
        ask.bytes = [None, Some(0), Some(500_000), Some(2_000_000)][(next() % 4) as usize];
        let facts = ask.facts();
        let extras = Extras { permit: (next() % 2 == 0).then(|| PermitId::new(round)), ..Extras::default() };
        let identity = one.engine.rules().identify(&facts, one.clock.now());
        let explained = one.engine.explain(&facts, &identity, extras).await.unwrap();
        one.engine.decide_into(&facts, &identity, extras, &mut reused);
        let mut fresh = two.engine.decide(&facts, extras).await.unwrap();
        assert_eq!(reused.allowed(), fresh.allowed(), "{round}");
        assert_eq!(reused.refusal(), fresh.refusal(), "{round}");
        assert_eq!(reused.quota(), fresh.quota(), "{round}");
        assert_eq!(reused.considered(), fresh.considered(), "{round}");
        assert_eq!(reused.at(), fresh.at(), "{round}");
        assert_eq!(explained.passes == Retry::Now, fresh.allowed(), "{round} {path}");
        let seen = next() % 600_000;
        if next() % 2 == 0 {
            one.engine.refund_bytes(&mut reused, seen).await.unwrap();
            two.engine.refund_bytes(&mut fresh, seen).await.unwrap();
        }
        if next() % 2 == 0 {
            one.engine.release(&reused).await.unwrap();
            two.engine.release(&fresh).await.unwrap();
        }
        let gone = Span::from_micros(next() % 3_000_000);
        one.wait(gone);
        two.wait(gone);
    }
}
