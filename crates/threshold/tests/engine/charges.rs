//! Charges that callers name themselves.

use std::num::NonZeroU64;

use threshold::engine::{Charge, ChargeError, Charged, Chosen, Receipt};
use threshold::{AlgorithmKind, Retry, Span};

use crate::common::{IDENTITY, Service, rotate};

const POLICY: &str = r#"
unknown_tier = "free"

[tiers.free]
reports = "2/day"

[tiers.premium]
reports = "5/day"

[[limit]]
id = "calls"
layer = "user"
rate = "10/min"

[[limit]]
id = "reports"
layer = "tenant"
category = "reports"

[[limit]]
id = "blocking"
layer = "user"
rate = "1/min"
block_for = "1h"

[[limit]]
id = "at-once"
layer = "user"
algorithm = "concurrency"
rate = "3/min"

[[limit]]
id = "sleeping"
layer = "user"
rate = "1/min"
enforce = "off"
"#;

fn service() -> Service {
    Service::new(&format!("{IDENTITY}{POLICY}"))
}

fn charge<'a>(limit: &'a str, key: &'a str, cost: u64) -> Charge<'a> {
    Charge { by: Chosen::Limit(limit, None), key, cost: NonZeroU64::new(cost).expect("at least 1") }
}

fn rate<'a>(rate: &str, key: &'a str, cost: u64) -> Charge<'a> {
    let rate = rate.parse().expect("a rate");
    let by = Chosen::Rate(rate, AlgorithmKind::TokenBucket);
    Charge { by, key, cost: NonZeroU64::new(cost).expect("at least 1") }
}

impl Service {
    async fn charges(&self, charges: &[Charge<'_>]) -> Vec<Charged> {
        self.engine.charge(charges).await.expect("memory answers")
    }

    async fn one(&self, charge: Charge<'_>) -> Charged {
        self.charges(&[charge]).await.remove(0)
    }
}

#[tokio::test]
async fn a_key_is_charged_by_a_limit_of_the_policy() {
    let service = service();
    let first = service.one(charge("calls", "alice", 4)).await;
    assert_eq!((first.allowed, first.limit, first.capacity, first.remaining), (true, "calls", 10, 6));
    let second = service.one(charge("calls", "alice", 7)).await;
    assert_eq!((second.allowed, second.remaining, second.receipt), (false, 6, None));
    assert_eq!(second.retry, Retry::After(Span::from_secs(6)));
    assert!(service.one(charge("calls", "bob", 10)).await.allowed);
}

#[tokio::test]
async fn a_key_is_charged_by_a_rate_of_the_callers_own() {
    let service = service();
    assert_eq!(service.one(rate("5/day", "a", 3)).await.remaining, 2);
    // Another number under the same period is still the same count.
    assert_eq!(service.one(rate("9/day", "a", 3)).await.remaining, 3);
    assert_eq!(service.one(rate("5/hour", "a", 3)).await.remaining, 2);
    assert_eq!(service.one(rate("5/day", "a", 6)).await.retry, Retry::Never);
    // Names of the policy's limits and of nobody's are apart.
    assert_eq!(service.one(charge("calls", "a", 1)).await.remaining, 9);
}

#[tokio::test]
async fn many_are_charged_as_one() {
    let service = service();
    let all = [rate("5/day", "a", 3), charge("calls", "a", 4), rate("5/day", "a", 3)];
    let refused = service.charges(&all).await;
    assert_eq!(refused.iter().map(|one| one.allowed).collect::<Vec<_>>(), [true, true, false]);
    assert!(refused.iter().all(|one| one.receipt.is_none()));
    assert_eq!(service.one(charge("calls", "a", 1)).await.remaining, 9);
    let allowed = service.charges(&all[..2]).await;
    assert!(allowed.iter().all(|one| one.allowed && one.receipt.is_some()));
    assert_eq!(service.engine.peek_charges(&all[..2]).await.expect("memory answers")[1].remaining, 5);
}

#[tokio::test]
async fn a_receipt_gives_back_what_was_charged_and_no_more() {
    let service = service();
    let receipt = service.one(charge("calls", "alice", 4)).await.receipt.expect("it was charged");
    let text: Receipt = receipt.to_string().parse().expect("its own text");
    assert_eq!(text, receipt);
    let back = |charge| {
        let engine = &service.engine;
        async move { engine.refund_charge(&charge, &receipt).await }
    };
    assert!(matches!(back(charge("calls", "bob", 4)).await, Err(ChargeError::Receipt)));
    assert!(matches!(back(rate("10/min", "alice", 4)).await, Err(ChargeError::Receipt)));
    assert!(matches!(back(charge("calls", "alice", 5)).await, Err(ChargeError::TooMuch(4))));
    assert_eq!(back(charge("calls", "alice", 4)).await.expect("its own").remaining, 10);
    for forged in ["", "1.2", "1.2.3", "1.4.00000000000000000000000000000000", "x.4.0"] {
        let receipt = forged.parse::<Receipt>();
        let refund = match &receipt {
            Ok(receipt) => service.engine.refund_charge(&charge("calls", "alice", 4), receipt).await.err(),
            Err(_) => Some(ChargeError::Receipt),
        };
        assert!(matches!(refund, Some(ChargeError::Receipt)), "{forged}");
    }
}

#[tokio::test]
async fn tiers_are_named_or_those_of_the_unknown() {
    let service = service();
    let of = |tier| Charge { by: Chosen::Limit("reports", tier), ..charge("reports", "acme", 1) };
    assert_eq!(service.one(of(None)).await.capacity, 2);
    assert_eq!(service.one(of(Some("premium"))).await.capacity, 5);
    let error = service.engine.charge(&[of(Some("gold"))]).await.expect_err("no such tier");
    assert!(error.to_string().contains("name one of free, premium"), "{error}");
}

#[tokio::test]
async fn a_limit_that_blocks_does_so_here_too() {
    let service = service();
    assert!(service.one(charge("blocking", "a", 1)).await.allowed);
    let refused = service.one(charge("blocking", "a", 1)).await;
    assert_eq!(refused.retry, Retry::After(Span::from_secs(3_600)));
    service.wait(Span::from_secs(3_599));
    assert!(!service.one(charge("blocking", "a", 1)).await.allowed);
    service.wait(Span::from_secs(1));
    assert!(service.one(charge("blocking", "a", 1)).await.allowed);
}

#[tokio::test]
async fn what_cannot_be_charged_is_told_with_a_remedy() {
    let service = service();
    for (limit, remedy) in [
        ("cals", "did you mean \"calls\"?"),
        ("zzzzzz", "send a `rate`"),
        ("at-once", "ask for a rate"),
        ("sleeping", "set `enforce`"),
    ] {
        let error = service.engine.charge(&[charge(limit, "a", 1)]).await.expect_err(limit);
        assert!(error.to_string().contains(remedy), "{error}");
    }
    let many = vec![charge("blocking", "a", 1); 600];
    let error = service.engine.charge(&many).await.expect_err("too many");
    assert!(error.to_string().contains("send fewer"), "{error}");
}

#[tokio::test]
async fn a_rate_made_ready_is_the_same_limit_on_the_same_key() {
    let service = service();
    let cost = |cost| NonZeroU64::new(cost).expect("at least 1");
    let ready = service.engine.adhoc(&"5/day".parse().expect("a rate"), AlgorithmKind::TokenBucket);
    let ready = ready.expect("it can be represented");
    let first =
        service.engine.charge_adhoc_at_once(&ready.charge(b"a", cost(3))).expect("memory never waits");
    assert_eq!((first.retry, first.capacity, first.remaining), (Retry::Now, 5, 2));
    assert_eq!(service.one(rate("5/day", "a", 1)).await.remaining, 1);
    let looked = service.engine.peek_adhoc(&ready.charge(b"a", cost(1))).await.expect("memory answers");
    let charged = service.engine.charge_adhoc(&ready.charge(b"a", cost(1))).await.expect("memory answers");
    assert_eq!((looked.remaining, charged.remaining), (1, 0));
    let refused =
        service.engine.charge_adhoc_at_once(&ready.charge(b"a", cost(1))).expect("memory never waits");
    assert_eq!(refused.retry, Retry::After(Span::from_secs(86_400 / 5)));
    assert_eq!(service.one(rate("5/day", "a", 1)).await.retry, refused.retry);
    let never =
        service.engine.charge_adhoc_at_once(&ready.charge(b"a", cost(6))).expect("memory never waits");
    assert_eq!(never.retry, Retry::Never);
    assert!(service.engine.adhoc(&"5/day".parse().expect("a rate"), AlgorithmKind::Concurrency).is_err());
}

#[tokio::test]
async fn a_rate_made_ready_counts_what_the_secret_before_did() {
    let service = service();
    let five = "5/day".parse().expect("a rate");
    let charge = |service: &Service| {
        let ready = service.engine.adhoc(&five, AlgorithmKind::TokenBucket).expect("it can be represented");
        ready.charge(b"a", NonZeroU64::new(3).expect("at least 1"))
    };
    assert!(service.engine.charge_adhoc_at_once(&charge(&service)).is_some());
    let rotated = rotate(&service, &format!("{IDENTITY}{POLICY}"));
    let again = charge(&rotated);
    assert!(rotated.engine.charge_adhoc_at_once(&again).is_none(), "two keys are one operation");
    let refused = rotated.engine.charge_adhoc(&again).await.expect("memory answers");
    assert_eq!((refused.retry == Retry::Now, refused.capacity, refused.remaining), (false, 5, 2));
}

#[tokio::test]
async fn a_key_that_is_reset_is_as_new_and_let_in_again() {
    let service = service();
    assert!(service.one(charge("blocking", "a", 1)).await.allowed);
    assert!(!service.one(charge("blocking", "a", 1)).await.allowed);
    service.engine.reset_charge(&charge("blocking", "a", 1)).await.expect("memory answers");
    assert!(service.one(charge("blocking", "a", 1)).await.allowed);
    assert!(service.engine.reset_charge(&charge("none", "a", 1)).await.is_err());
}
