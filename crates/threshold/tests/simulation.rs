//! The engine in a small world: honest and hostile clients, reloads, clock steps.

use threshold_testkit::figures::{Claim, size};
use threshold_testkit::simulate::run;

const REQUESTS: usize = 120;

#[tokio::test]
async fn no_seed_breaks_a_promise() {
    let claim = Claim::of("in simulated worlds of clients, reloads and clock steps no promise is broken");
    let seeds = size(2_000, 100_000);
    for seed in 0..seeds {
        run(seed, REQUESTS).await;
    }
    claim.show("simulation", &format!("{seeds} seeds, 0 broken"), "0", true);
}

#[tokio::test]
async fn a_seed_always_tells_the_same_story() {
    for seed in 0..50 {
        assert_eq!(run(seed, REQUESTS).await, run(seed, REQUESTS).await, "seed {seed}");
    }
    assert_ne!(run(1, REQUESTS).await, run(2, REQUESTS).await);
}
