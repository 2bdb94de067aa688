//! The example as it is run: the program on real servers, judged from outside, and held against what its clients know.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

#[path = "end_to_end/archive.rs"]
mod archive;
#[path = "end_to_end/outages.rs"]
mod outages;
#[path = "end_to_end/reputation.rs"]
mod reputation;
#[path = "end_to_end/site.rs"]
mod site;
#[path = "end_to_end/tables.rs"]
mod tables;

use std::time::Instant;

use threshold_testkit::figures::{Claim, size};
use threshold_testkit::servers;

use site::{POLICY, Shared, Site};

#[test]
fn the_policy_is_well() {
    let site = Site::folder(POLICY);
    let ran = site.run(&["check", "policy.toml", "--strict"]);
    assert!(ran.status.success(), "{ran:?}");
    let printed = String::from_utf8(ran.stdout).unwrap();
    for promise in ["uploads: 20 per 5min", "conversions: 10/hour", "have 60 %, 30 % and 10 % of the limits"]
    {
        assert!(printed.contains(promise), "{promise}: {printed}");
    }
}

/// The seed's own load test, over two nodes: as many at once as there can be, and exactly so many pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_uploads_at_once_from_one_address_admit_twenty() {
    let database = servers::fresh_database();
    let shared = Shared::new(&database);
    let one = Site::start(POLICY, &shared.arguments());
    // Both write into one archive.
    let other = one.beside(&shared.arguments());
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..100 {
        let client = if number % 2 == 0 { one.client() } else { other.client() };
        asking.spawn(async move { client.upload("203.0.113.7").await });
    }
    let answers = asking.join_all().await;
    assert!(answers.iter().all(|status| [201, 429].contains(status)), "{answers:?}");
    assert_eq!(answers.iter().filter(|status| **status == 201).count(), 20);
    let rows = one.counted(&shared.place(), 100).await;
    let refused: u64 = rows.iter().map(|row| row["refused"].as_u64().unwrap()).sum();
    assert_eq!(refused, 80);
}

/// The document's own target: under 100 ms with everything, the archive included. How fast it is is a figure, not a test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_decided_and_archived_for_every_client() {
    let database = servers::fresh_database();
    let shared = Shared::new(&database);
    let site = Site::start(POLICY, &shared.arguments());
    let (client, clients) = (site.client(), size(50, 5_000));
    let mut waits = Vec::new();
    for number in 0..clients {
        let address = format!("198.51.{}.{}", number / 250, number % 250 + 1);
        let begun = Instant::now();
        assert_eq!(client.ask("GET", "/", &address).await, 200);
        waits.push(begun.elapsed());
    }
    site.counted(&shared.place(), clients).await;
    waits.sort_unstable();
    let [half, most] =
        [50, 99].map(|percent| waits[(waits.len() - 1) * percent / 100].as_secs_f64() * 1_000.0);
    let figure = format!("median {half:.2} ms, 99 % {most:.2} ms of {clients} clients");
    let claim =
        Claim::of("a request through the gateway on Postgres with Redis before it, counted in the archive");
    claim.report("target-archive", &figure, "99 % under 100 ms", most < 100.0);
}
