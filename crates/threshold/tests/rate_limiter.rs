//! The simple form, as a program that adds the crate sees it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use threshold::{
    AlgorithmKind, BuildError, Clock, ConsumeError, DynStore, ManualClock, MemoryStore, PermitId,
    RateLimiter, RateLimiterBuilder, Secret, Span, Store, Timestamp,
};
use tokio::task::JoinSet;

const NOON: Timestamp = Timestamp::from_micros(43_200_000_000);

type Limiter = RateLimiter<MemoryStore<ManualClock>>;

#[tokio::test]
async fn allows_up_to_the_limit_and_then_says_when_to_come_back() {
    let (clock, limiter) = limiter("3/min");
    for left in [2, 1, 0] {
        let decision = limiter.consume("alice", 1).await.unwrap();
        assert!(decision.allowed());
        assert_eq!((decision.limit(), decision.remaining()), (3, left));
        assert_eq!((decision.retry_after(), decision.retryable()), (None, true));
        assert_eq!(decision.at(), NOON);
    }
    let refused = limiter.consume("alice", 1).await.unwrap();
    assert!(!refused.allowed());
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(20)), "one of three in a minute");
    assert_eq!(refused.reset_after(), Duration::from_secs(60));
    clock.advance(Span::from_micros(19_999_999));
    assert!(!limiter.consume("alice", 1).await.unwrap().allowed(), "one tick early");
    clock.advance(Span::TICK);
    assert!(limiter.consume("alice", 1).await.unwrap().allowed(), "exactly then");
}

#[tokio::test]
async fn a_cost_counts_as_many_as_it_says() {
    let (_, limiter) = limiter("10/min");
    assert!(limiter.consume("alice", 7).await.unwrap().allowed());
    let refused = limiter.consume("alice", 4).await.unwrap();
    assert!(!refused.allowed());
    assert_eq!(refused.remaining(), 3, "a refusal charges nothing");
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(6)), "for the one that is missing");
    assert!(limiter.consume("alice", 3).await.unwrap().allowed());
}

#[tokio::test]
async fn a_cost_above_the_capacity_is_not_worth_another_try() {
    for kind in AlgorithmKind::ALL.into_iter().filter(|kind| *kind != AlgorithmKind::Concurrency) {
        let (clock, limiter) = limiter_with(|builder| builder.rate("10/min").algorithm(kind));
        for _ in 0..2 {
            let refused = limiter.consume("alice", 11).await.unwrap();
            assert!(!refused.allowed(), "{kind}");
            assert_eq!((refused.retry_after(), refused.retryable()), (None, false), "{kind}");
            assert_eq!(refused.remaining(), 10, "{kind}");
            clock.advance(Span::DAY);
        }
        assert!(limiter.consume("alice", 10).await.unwrap().allowed(), "{kind}");
    }
}

#[tokio::test]
async fn a_cost_of_zero_is_a_mistake() {
    let (_, limiter) = limiter("10/min");
    let said = "a cost must be at least 1; to look without charging, use peek";
    let decision = limiter.consume("alice", 1).await.unwrap();
    for error in [
        limiter.consume("alice", 0).await.unwrap_err(),
        limiter.consume_now("alice", 0).unwrap_err(),
        limiter.peek("alice", 0).await.unwrap_err(),
        limiter.refund("alice", 0, &decision).await.unwrap_err(),
        limiter.acquire("alice", PermitId::new(1), 0).await.unwrap_err(),
    ] {
        assert!(matches!(error, ConsumeError::ZeroCost));
        assert_eq!(error.to_string(), said);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_token_is_never_spent_twice() {
    let (_, limiter) = limiter("1000/min");
    let mut clients = JoinSet::new();
    for _ in 0..100 {
        let limiter = limiter.clone();
        clients.spawn(async move {
            let mut allowed = 0;
            for _ in 0..50 {
                allowed += u64::from(limiter.consume("shared", 1).await.unwrap().allowed());
                tokio::task::yield_now().await;
            }
            allowed
        });
    }
    assert_eq!(clients.join_all().await.iter().sum::<u64>(), 1_000);
}

#[tokio::test]
async fn every_key_has_a_limit_of_its_own() {
    let (_, limiter) = limiter("1/min");
    for user in ["alice", "bob", "", "ALICE", "alice "] {
        assert!(limiter.consume(user, 1).await.unwrap().allowed(), "{user:?}");
        assert!(!limiter.consume(user, 1).await.unwrap().allowed(), "{user:?}");
    }
}

#[tokio::test]
async fn parts_of_a_key_never_run_into_each_other() {
    let (_, limiter) = limiter("1/min");
    assert!(limiter.consume(("ab", "c"), 1).await.unwrap().allowed());
    assert!(limiter.consume(("a", "bc"), 1).await.unwrap().allowed());
    assert!(limiter.consume("abc", 1).await.unwrap().allowed());
    assert!(limiter.consume(("a", "b", "c"), 1).await.unwrap().allowed());
    assert!(limiter.consume(("abc", ""), 1).await.unwrap().allowed());
    assert!(limiter.consume(("", "abc"), 1).await.unwrap().allowed());
    assert!(!limiter.consume(("ab", "c"), 1).await.unwrap().allowed(), "the same parts, the same key");
    let (name, parts, bytes) = (String::from("abc"), ["ab", "c"], b"abc");
    assert!(!limiter.consume(&name, 1).await.unwrap().allowed(), "an owned text is the same text");
    assert!(!limiter.consume(parts.as_slice(), 1).await.unwrap().allowed(), "a list is a tuple");
    assert!(!limiter.consume(bytes.as_slice(), 1).await.unwrap().allowed(), "text is its bytes");
}

#[tokio::test]
async fn limiters_over_one_store_stay_apart() {
    let store = MemoryStore::new();
    let secret = Secret::new([1; 16]);
    let build = |id: &str, rate: &str, kind| {
        let limiter = RateLimiter::builder(id).rate(rate).algorithm(kind).secret(secret.clone());
        limiter.store(store.clone()).build().unwrap()
    };
    let apart = [
        build("api", "1/hour", AlgorithmKind::TokenBucket),
        build("login", "1/hour", AlgorithmKind::TokenBucket),
        build("api", "1/day", AlgorithmKind::TokenBucket),
        build("api", "1/hour", AlgorithmKind::FixedWindow),
        build("api", "1/hour", AlgorithmKind::SlidingLog),
    ];
    for limiter in &apart {
        assert!(limiter.consume("alice", 1).await.unwrap().allowed());
        assert!(!limiter.consume("alice", 1).await.unwrap().allowed());
    }
    let again = build("api", "1/hour", AlgorithmKind::TokenBucket);
    assert!(!again.consume("alice", 1).await.unwrap().allowed(), "the same limit, built twice");
}

#[tokio::test]
async fn without_a_secret_every_limiter_draws_its_own() {
    let store = MemoryStore::new();
    let build = || RateLimiter::builder("api").rate("1/hour").store(store.clone()).build().unwrap();
    assert!(build().consume("alice", 1).await.unwrap().allowed());
    assert!(build().consume("alice", 1).await.unwrap().allowed());
}

#[test]
fn what_cannot_be_built_says_why_and_how_to_mend_it() {
    use AlgorithmKind::{CalendarWindow, FixedWindow, SlidingLog, TokenBucket};
    for (id, rate, kind, said) in [
        (
            "two words",
            "1/s",
            TokenBucket,
            "limit id \"two words\" must be 1 to 64 printable ASCII characters without spaces, quotes or \
             backslashes, such as \"login\"",
        ),
        (
            "api",
            "ten/s",
            TokenBucket,
            "rate \"ten/s\", column 1: expected a number; write a rate such as \"100/min\" or \"5 per 15min\"",
        ),
        (
            "api",
            "0/s",
            TokenBucket,
            "rate \"0/s\", column 1: the number must be at least 1; to refuse everything use a deny list",
        ),
        (
            "api",
            "1/day burst 9999",
            TokenBucket,
            "1/day burst 9999: a bucket of 9999 takes more than 3257 days to fill; lower the burst or raise the rate",
        ),
        (
            "api",
            "274877906945 per 1us",
            TokenBucket,
            "274877906945 per 1us cannot be represented exactly; use a rounder number, or a count of at most 274877906943",
        ),
        (
            "api",
            "10001/s",
            SlidingLog,
            "sliding-log takes a count of at most 10000, not 10001; use a smaller one, or another algorithm",
        ),
        ("api", "5/s burst 9", FixedWindow, "fixed-window has no burst; drop \"burst\", or use token-bucket"),
        (
            "api",
            "5 per 7min",
            CalendarWindow,
            "a calendar window of 7min does not divide a UTC day; use a minute, an hour, a day or a divisor",
        ),
    ] {
        let builder = RateLimiter::builder(id).rate(rate).algorithm(kind);
        let error = builder.store(MemoryStore::new()).build().unwrap_err();
        assert_eq!(error.to_string(), said);
    }
    let error = RateLimiter::builder("api").store(MemoryStore::new()).build().unwrap_err();
    assert_eq!(error, BuildError::NoRate("api".into()));
    assert_eq!(error.to_string(), "limit \"api\" has no rate; give it one such as .rate(\"100/min\")");
}

#[test]
fn a_limiter_tells_its_policy_and_what_it_promises() {
    let (_, limiter) = limiter("100/day burst 10");
    assert_eq!((limiter.id().as_str(), limiter.policy().to_string()), ("api", "100/day burst 10".into()));
    assert_eq!(limiter.guarantee().to_string(), "at most 109 in any 1d: 10 at once, then 100 per 1d");
    assert_eq!(limiter.guarantee().most_in(Span::DAY), 109);
    let (_, uploads) = limiter_with(|builder| builder.rate("5kB/day").algorithm(AlgorithmKind::SlidingLog));
    assert_eq!(uploads.guarantee().to_string(), "at most 5kB in any 1d");
}

#[tokio::test]
async fn a_refund_gives_back_what_was_charged_and_no_more() {
    for kind in AlgorithmKind::ALL.into_iter().filter(|kind| *kind != AlgorithmKind::Concurrency) {
        let (_, limiter) = limiter_with(|builder| builder.rate("10/min").algorithm(kind));
        let charged = limiter.consume("alice", 6).await.unwrap();
        limiter.refund("alice", 6, &charged).await.unwrap();
        assert!(limiter.consume("alice", 10).await.unwrap().allowed(), "{kind}");
        let refused = limiter.consume("alice", 1).await.unwrap();
        limiter.refund("alice", 1, &refused).await.unwrap();
        assert!(!limiter.consume("alice", 1).await.unwrap().allowed(), "{kind}: nothing was charged");
    }
}

#[tokio::test]
async fn a_peek_says_what_would_be_and_changes_nothing() {
    let (_, limiter) = limiter("2/min");
    for _ in 0..5 {
        let peeked = limiter.peek("alice", 2).await.unwrap();
        assert!(peeked.allowed());
        assert_eq!(peeked.remaining(), 2, "what is really left");
    }
    assert!(limiter.consume("alice", 2).await.unwrap().allowed());
    let (peeked, refused) =
        (limiter.peek("alice", 1).await.unwrap(), limiter.consume("alice", 1).await.unwrap());
    assert_eq!(peeked, refused);
}

#[tokio::test]
async fn a_reset_makes_one_key_as_new() {
    for kind in AlgorithmKind::ALL.into_iter().filter(|kind| *kind != AlgorithmKind::Concurrency) {
        let (_, limiter) = limiter_with(|builder| builder.rate("2/min").algorithm(kind));
        for user in ["alice", "bob"] {
            assert!(limiter.consume(user, 2).await.unwrap().allowed(), "{kind}");
        }
        limiter.reset("alice").await.unwrap();
        assert!(limiter.consume("alice", 2).await.unwrap().allowed(), "{kind}");
        assert!(!limiter.consume("bob", 1).await.unwrap().allowed(), "{kind}");
    }
}

#[tokio::test]
async fn permits_are_taken_kept_and_given_back() {
    let (clock, limiter) =
        limiter_with(|builder| builder.rate("2/min").algorithm(AlgorithmKind::Concurrency));
    let [first, second, third] = [1, 2, 3].map(PermitId::new);
    assert!(limiter.acquire("jobs", first, 1).await.unwrap().allowed());
    assert!(limiter.acquire("jobs", second, 1).await.unwrap().allowed());
    let refused = limiter.acquire("jobs", third, 1).await.unwrap();
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(60)));
    clock.advance(Span::from_secs(59));
    assert!(limiter.renew("jobs", first).await.unwrap().allowed());
    clock.advance(Span::SECOND);
    assert!(!limiter.renew("jobs", second).await.unwrap().allowed(), "it has lapsed");
    assert!(limiter.acquire("jobs", third, 1).await.unwrap().allowed(), "in its place");
    assert!(limiter.release("jobs", first).await.unwrap().allowed());
    assert!(limiter.acquire("jobs", second, 1).await.unwrap().allowed());
    assert!(!limiter.consume("jobs", 1).await.unwrap().retryable(), "permits are not consumed");
}

#[tokio::test]
async fn any_store_will_do() {
    let clock = ManualClock::starting_at(NOON);
    let memory = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    let store: Arc<dyn DynStore> = Arc::new(memory);
    let limiter = RateLimiter::builder("api").rate("2/min").store(store.clone()).build().unwrap();
    let charged = limiter.consume("alice", 2).await.unwrap();
    assert!(charged.allowed());
    assert!(!limiter.peek("alice", 1).await.unwrap().allowed());
    limiter.refund("alice", 1, &charged).await.unwrap();
    assert!(limiter.consume("alice", 1).await.unwrap().allowed());
    limiter.reset("alice").await.unwrap();
    assert!(limiter.consume("alice", 2).await.unwrap().allowed());
    clock.advance(Span::HOUR);
    assert_eq!(Store::sweep(&store, usize::MAX).await.unwrap().dropped, 1);
    assert!(limiter.consume("alice", 2).await.unwrap().allowed());
    Store::close(&store).await.unwrap();
}

#[tokio::test]
async fn the_clock_is_the_stores() {
    struct Stopped;
    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            NOON
        }
    }
    let store = MemoryStore::builder().clock(Stopped).build().unwrap();
    let limiter = RateLimiter::builder("api").rate("1/s").store(store).build().unwrap();
    assert!(limiter.consume_now("alice", 1).unwrap().allowed());
    let refused = limiter.consume_now("alice", 1).unwrap();
    assert_eq!((refused.allowed(), refused.at()), (false, NOON));
    assert_eq!(limiter.consume("alice", 1).await.unwrap(), refused, "with a future or without");
}

/// What a program writes: errors of building and of consuming pass through one `?`.
#[test]
fn errors_are_errors() -> Result<(), Box<dyn Error + Send + Sync>> {
    let limiter = RateLimiter::builder("api").rate("1/s").store(MemoryStore::new()).build()?;
    assert!(limiter.consume_now("alice", 1)?.allowed());
    Ok(())
}

fn limiter(rate: &str) -> (ManualClock, Limiter) {
    limiter_with(|builder| builder.rate(rate))
}

fn limiter_with(shape: impl FnOnce(RateLimiterBuilder) -> RateLimiterBuilder) -> (ManualClock, Limiter) {
    let clock = ManualClock::starting_at(NOON);
    let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    (clock, shape(RateLimiter::builder("api")).store(store).build().unwrap())
}

#[tokio::test]
async fn a_refund_gives_back_at_most_what_was_charged() {
    let limiter = RateLimiter::builder("api").rate("10/day").store(MemoryStore::new()).build().unwrap();
    let one = limiter.consume("alice", 1).await.unwrap();
    assert!(limiter.consume("alice", 9).await.unwrap().allowed());
    limiter.refund("alice", 10, &one).await.unwrap();
    assert!(limiter.consume("alice", 1).await.unwrap().allowed());
    assert!(!limiter.consume("alice", 1).await.unwrap().allowed());
    let peeked = limiter.peek("bob", 10).await.unwrap();
    assert!(limiter.consume("bob", 10).await.unwrap().allowed());
    limiter.refund("bob", 10, &peeked).await.unwrap();
    assert!(!limiter.consume("bob", 1).await.unwrap().allowed());
}
