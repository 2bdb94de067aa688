//! A shard without room for a single key of its own: everything is shared.

#[path = "../../../tests/common/judge.rs"]
mod judge;

use std::num::NonZeroU64;
use std::sync::Arc;

use proptest::prelude::*;
use threshold_core::{Algorithm, AlgorithmKind, Span, Step, Timestamp, transition};

use super::*;
use crate::memory::heap::Mark;
use crate::memory::shard::{Room, Shard};
use judge::Judge;

const NOON: Timestamp = Timestamp::from_micros(1_000_000_000);
const KINDS: [AlgorithmKind; 4] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingWindow,
    AlgorithmKind::SlidingLog,
];

/// One request: which key of which limit, after how long a wait, at what cost.
type Request = (usize, u64, u64, u64);

fn requests() -> impl Strategy<Value = Vec<Request>> {
    prop::collection::vec((0..KINDS.len(), 0_u64..24, 0_u64..200, 1_u64..4), 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn a_key_that_shares_gets_no_more_than_it_would_alone(
        requests in requests(),
        limits_with_room in 0_usize..6,
    ) {
        let room = room(limits_with_room * BYTES);
        let mut shard = Shard::new(0, Arc::clone(&room));
        let mut now = NOON;
        let mut judges: Vec<Judge> = (0..KINDS.len() * 24).map(|_| Judge::with_room_for(requests.len())).collect();
        let heap = Mark::here();
        for (limit, subject, wait, cost) in requests {
            now = now.plus(Span::from_micros(wait));
            if charge(&mut shard, limit, subject, cost, now) {
                judges[limit * 24 + usize::try_from(subject).unwrap()].saw(now, cost);
            }
            prop_assert!(heap.live() <= room.overflow.used(), "more taken than reserved");
            prop_assert!(room.overflow.used() <= limits_with_room * BYTES);
        }
        prop_assert_eq!(shard.len(), 0, "nobody has a state of its own");
        for (index, judge) in judges.iter().enumerate() {
            judge.hold_to(&algorithm(KINDS[index / 24]).guarantee());
        }
        let _ = shard.sweep(now.plus(Span::SECOND));
        prop_assert_eq!(room.overflow.used(), 0);
    }
}

#[test]
fn a_bucket_is_shared_within_its_limit_only() {
    let mut overflow = Overflow::default();
    let reserve = Budget::new(2 * BYTES);
    let used = Cell::from_words([1, 1 << 12]);
    assert!(overflow.set_cell(&key(1, 0), used, &reserve));
    assert_eq!(overflow.cell(&key(1, 8)), used, "the same bucket");
    assert_eq!(overflow.cell(&key(1, 1)), Cell::EMPTY, "another bucket");
    assert_eq!(overflow.cell(&key(2, 0)), Cell::EMPTY, "another limit");
    assert!(overflow.set_cell(&key(2, 0), used, &reserve));
    assert!(!overflow.set_cell(&key(3, 0), used, &reserve), "no room for a third limit");
    assert!(overflow.merged_log(&key(3, 0), &reserve).is_none());
    overflow.restore_cell(&key(3, 0), used);
    assert_eq!(overflow.cell(&key(3, 0)), Cell::EMPTY);
}

#[test]
fn a_limit_goes_when_all_of_its_buckets_have_expired_and_not_before() {
    let mut overflow = Overflow::default();
    let reserve = Budget::new(2 * BYTES);
    for (bucket, at) in [(0, 100), (1, 200)] {
        assert!(overflow.set_cell(&key(1, bucket), Cell::from_words([1, at << 12]), &reserve));
    }
    overflow.sweep(200, &reserve);
    assert_eq!((reserve.used(), overflow.is_empty()), (BYTES, false), "the second lasts through 200");
    overflow.sweep(201, &reserve);
    assert_eq!((reserve.used(), overflow.is_empty()), (0, true));
}

fn room(overflow: usize) -> Arc<Room> {
    Arc::new(Room::new(0, overflow, 1))
}

fn charge(shard: &mut Shard, limit: usize, subject: u64, cost: u64, now: Timestamp) -> bool {
    let key = key(limit as u64, subject);
    let step = Step::consume(key, algorithm(KINDS[limit]), NonZeroU64::new(cost).expect("a cost"));
    transition::apply(&[step], now, shard).admitted()
}

fn algorithm(kind: AlgorithmKind) -> Algorithm {
    Algorithm::new(kind, &"5 per 1ms".parse().expect("a rate")).expect("a limit")
}

/// Subjects eight apart share a bucket.
fn key(limit: u64, subject: u64) -> Key {
    Key::from_raw(u128::from(subject) << 64 | u128::from(subject << 56), limit)
}
