//! The engine in a small world: honest and hostile clients, reloads, clock steps.

use threshold_testkit::figures::{Claim, size};
use threshold_testkit::simulate::{Story, run};

const REQUESTS: usize = 120;

#[tokio::test]
async fn no_seed_breaks_a_promise() {
    let claim = Claim::of(
        "in simulated worlds of clients, reloads, clock steps, sanctions, logins and a failing ledger no promise is broken",
    );
    let seeds = size(2_000, 100_000);
    let mut all = Story::default();
    for seed in 0..seeds {
        all += run(seed, REQUESTS).await;
    }
    let Story { warned, held_back, sanctioned, bans, guesses, .. } = all;
    assert!(
        warned > 0 && held_back > 0 && sanctioned > 0 && bans > 0 && guesses > 0,
        "nothing happened: {all:?}"
    );
    claim.show("simulation", &format!("{seeds} seeds, {bans} bans, {guesses} guesses, 0 broken"), "0", true);
}

#[tokio::test]
async fn a_seed_always_tells_the_same_story() {
    for seed in 0..50 {
        assert_eq!(run(seed, REQUESTS).await, run(seed, REQUESTS).await, "seed {seed}");
    }
    assert_ne!(run(1, REQUESTS).await, run(2, REQUESTS).await);
}
