//! The archive in a folder of this machine.

use super::programs::{SECRET, ask, policy, read, requests, until};
use crate::support::client::Client;
use crate::support::server::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_programs_read_rows_and_events() {
    let environment = [("THRESHOLD_SECRET", SECRET)];
    let mut server = Server::with(&policy("folder = \"archive\""), &[], &environment);
    ask(&server, 6).await;
    server.signal("TERM");
    assert!(server.ends().success(), "{}", server.said());
    let found = read(&server.folder.path().join("archive"));
    assert_eq!(found["requests"], 18, "{found}");
    assert_eq!(found["events"]["abuse_escalation"], 6, "{found}");
    assert_eq!(found["events"]["sanction_imposed"], 6, "{found}");
    assert_eq!((&found["limits"][0], &found["subjects"]), (&"one".into(), &6.into()), "{found}");
    // The limit was met by those who were not banned before.
    assert!(requests(server.folder.path(), "archive", &environment) >= 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_leaves_no_broken_file_and_loses_what_was_not_written_at_most() {
    let environment = [("THRESHOLD_SECRET", SECRET)];
    let mut server = Server::with(&policy("folder = \"archive\""), &[], &environment);
    let archive = server.folder.path().join("archive");
    ask(&server, 4).await;
    until("the first rows are written", || read(&archive)["requests"] == 12).await;
    // More, which may be written by the time it dies, or not.
    for last in 1..=40 {
        Client::from(server.gateway, [127, 0, 2, last]).get("/").await;
    }
    server.signal("KILL");
    server.ends();
    let found = read(&archive);
    let requests = found["requests"].as_u64().unwrap();
    assert!((12..=52).contains(&requests), "{found}");
}
