//! Every Rust block of the README and the guide, run. `cargo xtask tidy` checks that none is missing here.

#![expect(clippy::print_stdout, reason = "the documentation prints")]

use std::error::Error;

type Run = Result<(), Box<dyn Error>>;

#[tokio::test]
async fn sixty_seconds_to_a_first_denial() -> Run {
    use threshold::{MemoryStore, RateLimiter};

    let limiter = RateLimiter::builder("api").rate("100/min").store(MemoryStore::new()).build()?;

    let decision = limiter.consume_now("alice", 1)?; // or .consume("alice", 1).await
    if !decision.allowed() {
        println!("retry after {:?}", decision.retry_after());
    }
    Ok(())
}

#[tokio::test]
async fn a_limiter() -> Run {
    use threshold::{MemoryStore, RateLimiter};

    let limiter = RateLimiter::builder("api").rate("100/min").store(MemoryStore::new()).build()?;
    println!("{}", limiter.guarantee()); // at most 199 in any 1min: 100 at once, then 100 per 1min

    let decision = limiter.consume("alice", 1).await?;
    if decision.allowed() {
        println!("{} of {} remaining", decision.remaining(), decision.limit());
    } else if let Some(wait) = decision.retry_after() {
        println!("refused, retry after {wait:?}");
    } else {
        println!("refused for good: the cost is above {}", decision.limit());
    }
    Ok(())
}

#[tokio::test]
async fn a_limiter_2() -> Run {
    use threshold::{MemoryStore, RateLimiter};

    let limiter = RateLimiter::builder("api").rate("1/min").store(MemoryStore::new()).build()?;
    assert!(limiter.consume_now(("acme", "alice"), 1)?.allowed());
    assert!(limiter.consume_now(("acmea", "lice"), 1)?.allowed());
    assert!(!limiter.consume_now(("acme", "alice"), 1)?.allowed());
    Ok(())
}

#[tokio::test]
async fn rates() -> Run {
    use threshold::Rate;

    let error = "100/month".parse::<Rate>().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"rate "100/month", column 5: a month has no one length; write "30 days" or "365 days""#
    );
    Ok(())
}

#[tokio::test]
async fn which_algorithm() -> Run {
    use threshold::{AlgorithmKind, MemoryStore, RateLimiter, Span};

    let login = RateLimiter::builder("login")
        .rate("5 per 15min")
        .algorithm(AlgorithmKind::SlidingLog)
        .store(MemoryStore::new())
        .build()?;
    assert_eq!(login.guarantee().to_string(), "at most 5 in any 15min");
    assert_eq!(login.guarantee().most_in(Span::HOUR), 20);
    Ok(())
}

#[tokio::test]
async fn several_limits_all_or_none() -> Run {
    use std::num::NonZeroU64;
    use threshold::{Batch, MemoryStore, RateLimiter, Store};

    let store = MemoryStore::new();
    let tenant = RateLimiter::builder("tenant").rate("10/min").store(store.clone()).build()?;
    let user = RateLimiter::builder("user").rate("1/min").store(store.clone()).build()?;

    let mut batch = Batch::default();
    batch.push(tenant.step("acme", NonZeroU64::MIN))?;
    batch.push(user.step(("acme", "alice"), NonZeroU64::MIN))?;

    assert!(store.apply(&batch).await?.admitted());
    let refused = store.apply(&batch).await?;
    assert!(!refused.admitted());
    assert!(refused.verdicts[0].admitted() && !refused.verdicts[1].admitted());
    assert_eq!(refused.verdicts[0].remaining, 9);
    println!("{:?}", refused.retry); // the longest wait over the refusing steps
    Ok(())
}

#[tokio::test]
async fn dry_runs() -> Run {
    use std::num::NonZeroU64;
    use threshold::{Batch, MemoryStore, RateLimiter};

    let store = MemoryStore::new();
    let stricter = RateLimiter::builder("stricter").rate("1/min").store(store.clone()).build()?;
    let batch = Batch::from(stricter.step("alice", NonZeroU64::MIN).observed());

    assert!(store.apply_now(&batch).verdicts[0].admitted());
    let second = store.apply_now(&batch);
    assert!(second.admitted());
    assert!(!second.verdicts[0].admitted()); // it would have been refused
    Ok(())
}

#[tokio::test]
async fn refunds_peeks_and_resets() -> Run {
    use threshold::{MemoryStore, RateLimiter};

    let uploads = RateLimiter::builder("uploads").rate("100/hour").store(MemoryStore::new()).build()?;
    let decision = uploads.consume("alice", 10).await?;

    // Four units were not used after all.
    uploads.refund("alice", 4, &decision).await?;
    let left = uploads.peek("alice", 1).await?; // judges, charges nothing
    println!("{} remaining", left.remaining());

    uploads.reset("alice").await?; // forgets all that was charged
    assert_eq!(uploads.peek("alice", 1).await?.remaining(), 100);
    Ok(())
}

#[tokio::test]
async fn permits() -> Run {
    use threshold::{AlgorithmKind, MemoryStore, PermitId, RateLimiter};

    let jobs = RateLimiter::builder("jobs")
        .rate("1 per 30s")
        .algorithm(AlgorithmKind::Concurrency)
        .store(MemoryStore::new())
        .build()?;

    let (mine, yours) = (PermitId::new(0xA11CE), PermitId::new(0xB0B)); // random 128 bits in real life
    assert!(jobs.acquire("acme", mine, 1).await?.allowed());
    assert!(!jobs.acquire("acme", yours, 1).await?.allowed());
    assert!(jobs.renew("acme", mine).await?.allowed()); // every few seconds, while the work goes on
    assert!(jobs.release("acme", mine).await?.allowed());
    assert!(jobs.acquire("acme", yours, 1).await?.allowed());
    assert!(!jobs.renew("acme", mine).await?.retryable()); // gone: stop, or acquire again
    Ok(())
}

#[tokio::test]
async fn memory_cap_sweep_figures() -> Run {
    use threshold::{MemoryStore, RateLimiter};

    let store = MemoryStore::builder().max_bytes(64 << 20).build()?;
    let limiter = RateLimiter::builder("api").rate("1000/s").store(store.clone()).build()?;
    assert!(limiter.consume_now("alice", 1)?.allowed());

    let swept = store.sweep_now(100_000); // about so many slots; the next call goes on from there
    println!("{} seen, {} dropped", swept.seen, swept.dropped);

    let stats = store.stats();
    println!("{} keys in {} of {} bytes", stats.keys, stats.bytes, stats.max_bytes);
    println!("{} charges to shared buckets", stats.shared_charges);
    println!("{} logs merged", stats.merged_logs);
    println!("{} steps refused for want of room", stats.refused_for_room);
    Ok(())
}

#[tokio::test]
async fn time_in_tests() -> Run {
    use threshold::{ManualClock, MemoryStore, RateLimiter, Span, Timestamp};

    let clock = ManualClock::starting_at(Timestamp::from_micros(1_800_000_000_000_000));
    let store = MemoryStore::builder().clock(clock.clone()).build()?;
    let limiter = RateLimiter::builder("api").rate("1/s").store(store).build()?;

    assert!(limiter.consume_now("alice", 1)?.allowed());
    clock.advance(Span::from_micros(999_999));
    assert!(!limiter.consume_now("alice", 1)?.allowed());
    clock.advance(Span::TICK);
    assert!(limiter.consume_now("alice", 1)?.allowed());
    Ok(())
}

#[tokio::test]
async fn sharing_a_store_changing_a_rate() -> Run {
    use threshold::{MemoryStore, RateLimiter, random_secret};

    let (store, secret) = (MemoryStore::new(), random_secret());
    let build = |rate: &str| {
        RateLimiter::builder("api").rate(rate).secret(secret.clone()).store(store.clone()).build()
    };

    let before = build("10/hour")?;
    assert_eq!(before.consume_now("alice", 10)?.remaining(), 0);
    let raised = build("25/hour")?;
    assert_eq!(raised.consume_now("alice", 10)?.remaining(), 5);
    Ok(())
}

#[tokio::test]
async fn a_store_chosen_at_run_time() -> Run {
    use std::sync::Arc;
    use threshold::{MemoryStore, RateLimiter, SharedStore};

    let store: SharedStore = Arc::new(MemoryStore::new());
    let limiter: RateLimiter<SharedStore> =
        RateLimiter::builder("api").rate("100/min").store(store).build()?;
    assert!(limiter.consume("alice", 1).await?.allowed());
    Ok(())
}

#[tokio::test]
async fn answering_abuse() -> Run {
    use threshold::engine::{Engine, Extras, Rules, Secrets};
    use threshold::identify::Facts;
    use threshold::login::Attempt;
    use threshold::policy::Policy;
    use threshold::{MemoryLedger, MemoryStore, random_secret};

    let policy = Policy::read("policy.toml", "[login]\n[ladder]\n", &|_| None)?;
    let secrets = Secrets::new(random_secret());
    let rules = Rules::new(&policy, &secrets, &|_| None)?;

    // SqliteLedger::open(path, &secret, None), with the feature `sqlite` of threshold-store, keeps it across restarts.
    let ledger = MemoryLedger::new();
    let engine = Engine::with_ledger((rules, secrets), MemoryStore::new(), MemoryStore::new(), ledger)
        .telling(|event| println!("{}", event.to_json()));
    engine.refresh().await?; // at the start, and about every second from then on
    engine.sweep().await?; // every ten minutes or so: drops what need not be kept

    let peer = "203.0.113.9".parse()?;
    let facts = Facts { peer, method: "GET", host: None, path: "/", bytes: None, headers: &() };
    let decision = engine.decide(&facts, Extras::default()).await?;
    if decision.warned() {
        println!("X-RateLimit-Warning: true");
    }
    tokio::time::sleep(decision.delay()).await;

    let attempt = Attempt { account: Some("alice"), client: peer, device: None };
    match engine.begin_attempt(&attempt).await? {
        Ok(begun) => {
            let password_is_right = false;
            let answer = engine.end_attempt(begun, password_is_right).await?;
            println!("may try again: {}, device: {:?}", answer.allowed, answer.device);
        }
        Err(answer) => println!("wait {:?}", answer.retry_after),
    }
    Ok(())
}

#[tokio::test]
async fn many_keys_in_one_round_trip() -> Run {
    use std::num::NonZeroU64;
    use threshold::{Batch, MemoryStore, RateLimiter, Store};

    let store = MemoryStore::new();
    let views = RateLimiter::builder("views").rate("2/day").store(store.clone()).build()?;
    let mut batch = Batch::default();
    for visitor in ["alice", "bob", "alice", "alice"] {
        batch.push(views.step(visitor, NonZeroU64::MIN).observed())?;
    }
    let outcome = store.apply(&batch).await?;
    let counted: Vec<bool> = outcome.verdicts.iter().map(|verdict| verdict.admitted()).collect();
    assert_eq!(counted, [true, true, true, false]);
    Ok(())
}

#[tokio::test]
async fn when_the_store_may_fail() -> Run {
    use std::sync::Arc;
    use threshold::{
        Consistency, MemoryStore, NodeSettings, NodeStore, OnFailure, RateLimiter, SharedStore, Source,
    };

    // In real life that of `open_store("redis://...", ...)`.
    let shared: SharedStore = Arc::new(MemoryStore::new());
    let node: SharedStore = Arc::new(NodeStore::new(shared, NodeSettings { nodes: 2, ..Default::default() }));
    let limiter = RateLimiter::builder("api")
        .rate("100/s")
        .consistency(Consistency::Leased)
        .on_store_failure(OnFailure::Share)
        .store(node)
        .build()?;
    let decision = limiter.consume("alice", 1).await?;
    assert!(decision.allowed() && decision.source() == Source::Leased);
    Ok(())
}
