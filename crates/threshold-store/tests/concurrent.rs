//! A thousand clients at once on a few hot keys: exactly the limit is admitted, by the clients' own count.
#![cfg(not(feature = "loom"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/make.rs"]
mod make;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use make::{CELLS, acquire, algorithm, batch, cost, drain, one, store};
use threshold_core::{
    Algorithm, AlgorithmKind, Batch, Clock, Key, ManualClock, Secret, Span, Step, Store, Timestamp,
};
use threshold_store::{MemoryStore, SystemClock};
use threshold_testkit::figures::{Claim, size};
use tokio::task::{JoinSet, yield_now};

const CLIENTS: u64 = 1_000;
const HOT_KEYS: u64 = 10;

type Still = MemoryStore<ManualClock>;

/// What all clients together were admitted, for each key or batch they asked for.
type Admitted = Vec<u64>;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cells_admit_exactly_their_limit() {
    let claim = Claim::of(
        "1,000 concurrent tasks on 10 hot keys are admitted exactly the limit of each cell algorithm",
    );
    let (mut asked, mut off_by) = (0, 0);
    for kind in CELLS {
        let limit = size(1_234, 12_345);
        let (decisions, wrong) = hot_keys(kind, limit).await;
        asked += decisions;
        off_by += wrong;
    }
    let figure = format!("{off_by} over or under in {asked} decisions");
    claim.show("concurrent-cells", &figure, "0", off_by == 0);
    assert_eq!(off_by, 0, "{asked} decisions");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sliding_logs_admit_exactly_their_limit() {
    let claim =
        Claim::of("1,000 concurrent tasks on 10 hot keys are admitted exactly the limit of a sliding log");
    let (asked, off_by) = hot_keys(AlgorithmKind::SlidingLog, size(1_234, 9_876)).await;
    let figure = format!("{off_by} over or under in {asked} decisions");
    claim.show("concurrent-logs", &figure, "0", off_by == 0);
    assert_eq!(off_by, 0, "{asked} decisions");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn permits_are_given_out_exactly_as_often_as_there_are() {
    let limit = algorithm(AlgorithmKind::Concurrency, "321/min");
    let (_, store) = store(64 << 20);
    let keys = keys("permits", HOT_KEYS);
    let rounds = size(10, 100);
    let admitted = all_clients(&store, keys.len(), rounds, move |client, round| {
        let turn = turn(client, round, HOT_KEYS);
        (turn, Batch::from(acquire(keys[turn], limit, client * rounds + round)))
    })
    .await;
    assert_eq!(admitted, vec![321; HOT_KEYS as usize]);
}

/// Costs from 1 to 5 leave a rest that is too small for the larger ones; single units then fill it up.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn weighted_costs_never_overdraw_and_the_rest_is_still_there() {
    for kind in CELLS.into_iter().chain([AlgorithmKind::SlidingLog]) {
        let limit = algorithm(kind, "1000/min");
        let (_, store) = store(64 << 20);
        let keys = keys("weighted", HOT_KEYS);
        let asked_of = Arc::clone(&keys);
        let spent = all_clients_spend(&store, keys.len(), 10, move |client, round| {
            let turn = turn(client, round, HOT_KEYS);
            (turn, Step::consume(asked_of[turn], limit, cost(1 + client % 5)))
        })
        .await;
        for (key, spent) in keys.iter().zip(spent) {
            assert_eq!(spent + drain(&store, &one(*key, limit)), 1_000, "{kind}");
        }
    }
}

/// Each batch charges a user and the tenant that all users share. The tenant's limit is what runs out.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_steps_are_charged_together_or_not_at_all() {
    let claim =
        Claim::of("batches over a shared tenant and a user are all-or-nothing under 1,000 concurrent tasks");
    let mut off_by = 0;
    for kind in CELLS.into_iter().chain([AlgorithmKind::SlidingLog]) {
        off_by += shared_tenant(kind, 2).await;
    }
    claim.show("concurrent-batches-of-two", &format!("{off_by} over, under or half"), "0", off_by == 0);
    assert_eq!(off_by, 0);
}

/// As above, with an endpoint and a limit over everyone besides, in an order that differs from user to user.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_steps_are_charged_together_or_not_at_all() {
    let claim = Claim::of("batches of four limits are all-or-nothing under 1,000 concurrent tasks");
    let mut off_by = 0;
    for kind in CELLS.into_iter().chain([AlgorithmKind::SlidingLog]) {
        off_by += shared_tenant(kind, 4).await;
    }
    claim.show("concurrent-batches-of-four", &format!("{off_by} over, under or half"), "0", off_by == 0);
    assert_eq!(off_by, 0);
}

/// Here time passes. Each client notes the time before and after an admission, so the admission was somewhere
/// in between; a sweep runs all the while and drops every key as soon as it may. Whatever interval is chosen,
/// what surely lies in it stays within the guarantee.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn while_time_passes_no_interval_holds_more_than_the_guarantee() {
    let claim = Claim::of(
        "under the system's clock no interval holds more than burst + rate × length, judged from outside",
    );
    let limit = algorithm(AlgorithmKind::TokenBucket, "20000/s burst 5");
    let log = system_clock_clients(limit, size(60, 1_000)).await;
    let worst = most_over(&log, |length| limit.guarantee().most_in(length));
    let figure = format!("{} over in {} admissions", worst.max(0), log.len());
    claim.show("concurrent-system-clock", &figure, "0", worst <= 0);
    assert!(worst <= 0, "{figure}");
    assert!(log.len() > 5, "only the burst was admitted");
}

/// Asks for every hot key far more often than its limit. Returns the decisions and by how many they are wrong.
async fn hot_keys(kind: AlgorithmKind, count: u64) -> (u64, u64) {
    let limit = algorithm(kind, &format!("{count}/hour"));
    let (_, store) = store(64 << 20);
    let keys = keys("hot", HOT_KEYS);
    let rounds = size(100, 1_000);
    let admitted = all_clients(&store, keys.len(), rounds, move |client, round| {
        let turn = turn(client, round, HOT_KEYS);
        (turn, Batch::from(one(keys[turn], limit)))
    })
    .await;
    (CLIENTS * rounds, admitted.iter().map(|admitted| admitted.abs_diff(count)).sum())
}

/// Fifty users of one tenant, whose limits add up to more than the tenant's. Returns by how many the counts of
/// the clients differ from an exact store's.
async fn shared_tenant(kind: AlgorithmKind, steps: usize) -> u64 {
    const USERS: u64 = 50;
    let [tenant_limit, user_limit, wide] =
        ["2000/hour", "100/hour", "9000/hour"].map(|rate| algorithm(kind, rate));
    let (_, store) = store(64 << 20);
    let (users, shared) = (keys("user", USERS), keys("shared", 3));
    let of_user = {
        let users = Arc::clone(&users);
        let shared = Arc::clone(&shared);
        move |user: usize| {
            let mut all = [
                one(shared[0], tenant_limit),
                one(users[user], user_limit),
                one(shared[1], wide),
                one(shared[2], wide),
            ];
            all[..steps].rotate_left(user % steps);
            batch(all.into_iter().take(steps))
        }
    };
    let admitted = all_clients(&store, users.len(), size(20, 200), move |client, round| {
        let turn = turn(client, round, USERS);
        (turn, of_user(turn))
    })
    .await;
    let total: u64 = admitted.iter().sum();
    let mut off_by = total.abs_diff(2_000) + drain(&store, &one(shared[0], tenant_limit));
    // What a user was not admitted with the tenant, it can still take alone: no refused batch charged it.
    for (user, admitted) in users.iter().zip(&admitted) {
        off_by += (admitted + drain(&store, &one(*user, user_limit))).abs_diff(100);
    }
    if steps > 2 {
        off_by += (total + drain(&store, &one(shared[1], wide))).abs_diff(9_000);
    }
    off_by
}

/// Runs all clients for so many rounds. A wish is a batch and the count it belongs to.
async fn all_clients(
    store: &Still,
    counts: usize,
    rounds: u64,
    wish: impl Fn(u64, u64) -> (usize, Batch) + Clone + Send + 'static,
) -> Admitted {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (store, wish) = (store.clone(), wish.clone());
        clients.spawn(async move {
            let mut admitted = vec![0; counts];
            for round in 0..rounds {
                let (count, batch) = wish(client, round);
                admitted[count] += u64::from(store.apply(&batch).await.unwrap().admitted());
                yield_now().await;
            }
            admitted
        });
    }
    add_up(clients, counts).await
}

/// Like [`all_clients`] for single steps, and adds up costs instead of admissions.
async fn all_clients_spend(
    store: &Still,
    counts: usize,
    rounds: u64,
    wish: impl Fn(u64, u64) -> (usize, Step) + Clone + Send + 'static,
) -> Admitted {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (store, wish) = (store.clone(), wish.clone());
        clients.spawn(async move {
            let mut spent = vec![0; counts];
            for round in 0..rounds {
                let (count, step) = wish(client, round);
                if store.apply_one(&step).await.unwrap().1.admitted() {
                    spent[count] += 1 + client % 5;
                }
                yield_now().await;
            }
            spent
        });
    }
    add_up(clients, counts).await
}

async fn add_up(mut clients: JoinSet<Admitted>, counts: usize) -> Admitted {
    let mut sum = vec![0; counts];
    while let Some(one) = clients.join_next().await {
        sum.iter_mut().zip(one.unwrap()).for_each(|(sum, one)| *sum += one);
    }
    sum
}

/// Clients on one key under the system's clock, with a sweeper beside them. Returns when each admission was
/// asked for and answered.
async fn system_clock_clients(limit: Algorithm, rounds: u64) -> Vec<(Timestamp, Timestamp)> {
    let clock = SystemClock::new();
    let store = MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone()).build().unwrap();
    let key = keys("timed", 1)[0];
    let done = Arc::new(AtomicBool::new(false));
    let (swept, until) = (store.clone(), Arc::clone(&done));
    let sweeper = tokio::task::spawn_blocking(move || {
        while !until.load(Ordering::Relaxed) {
            let _ = swept.sweep_now(usize::MAX);
        }
    });
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (store, clock) = (store.clone(), clock.clone());
        clients.spawn(async move {
            let mut log = Vec::new();
            for _ in 0..rounds {
                let before = clock.now();
                if store.apply_one(&one(key, limit)).await.unwrap().1.admitted() {
                    log.push((before, clock.now()));
                }
                yield_now().await;
            }
            log
        });
    }
    let log = clients.join_all().await.concat();
    done.store(true, Ordering::Relaxed);
    sweeper.await.unwrap();
    log
}

/// By how many the fullest interval exceeds what is allowed in one of its length; negative or zero if none
/// does. Intervals start where some admission was asked for and end where one was answered.
fn most_over(log: &[(Timestamp, Timestamp)], allowed: impl Fn(Span) -> u64) -> i64 {
    let mut by_answer = log.to_vec();
    by_answer.sort_by_key(|(_, after)| *after);
    let mut worst = i64::MIN;
    // Of the many starts that thousands of admissions give, two thousand spread over them are enough.
    for (start, _) in by_answer.iter().step_by((log.len() / 2_000).max(1)) {
        let mut inside = 0;
        for (_, end) in by_answer.iter().filter(|(before, _)| before >= start) {
            inside += 1;
            let length = Span::from_micros(end.since(*start).as_micros() + 1);
            worst = worst.max(inside - i64::try_from(allowed(length)).unwrap());
        }
    }
    worst
}

/// Every client comes by every key, each in another order.
fn turn(client: u64, round: u64, keys: u64) -> usize {
    usize::try_from((client.wrapping_mul(7) + round) % keys).unwrap()
}

fn keys(name: &str, count: u64) -> Arc<[Key]> {
    let limit = algorithm(AlgorithmKind::TokenBucket, "1/s");
    let keys = Secret::new([7; 16]).limit_key(
        &threshold_core::LimitId::new(name).unwrap(),
        &limit,
        threshold_core::Unit::Requests,
    );
    (0..count).map(|subject| keys.key(subject.to_le_bytes().as_slice())).collect()
}
