//! A limiter takes nothing from the heap for a decision on a key that it knows.

#[path = "../../threshold-store/tests/common/heap.rs"]
mod heap;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use heap::allocations_in;
use threshold::{AlgorithmKind, ManualClock, MemoryStore, RateLimiter, Span, Timestamp};

const COUNTING: [AlgorithmKind; 5] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::FixedWindow,
    AlgorithmKind::CalendarWindow,
    AlgorithmKind::SlidingWindow,
    AlgorithmKind::SlidingLog,
];

#[test]
fn a_known_key_costs_no_allocation_with_or_without_a_future() {
    for kind in COUNTING {
        let clock = ManualClock::starting_at(Timestamp::from_micros(43_200_000_000));
        let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
        let limiter = RateLimiter::builder("api").rate("50/s").algorithm(kind).store(store).build().unwrap();
        let mut allowed = 0;
        let mut decide = || {
            for _ in 0..500 {
                clock.advance(Span::from_millis(9));
                allowed += u64::from(limiter.consume_now(("acme", "alice"), 1).unwrap().allowed());
                allowed += u64::from(ready(limiter.consume(("acme", "alice"), 1)).unwrap().allowed());
                let _ = ready(limiter.peek(("acme", "alice"), 1)).unwrap();
            }
        };
        // The first seconds make the key, and let a log grow to what it needs.
        decide();
        assert_eq!(allocations_in(&mut decide), 0, "{kind}");
        assert!((200..800).contains(&allowed), "{kind}: of 2,000, {allowed} were allowed");
    }
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a memory store never waits"),
    }
}
