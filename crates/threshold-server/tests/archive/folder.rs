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

/// Whatever is asked passes or not; what counts is that it was asked.
const SURFACES: &str = "[[limit]]\nid = \"pages\"\nlayer = \"edge\"\nper = \"ip\"\nrate = \"40/day\"\n\
                        [[limit]]\nid = \"calls\"\nlayer = \"user\"\nper = \"everyone\"\nenforce = \"observe\"\nrate = \"5/day\"\n\
                        [archive]\nfolder = \"archive\"\nevery = \"1s\"\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_clients_have_sent_is_what_the_files_add_up_to() {
    const CLIENTS: u8 = 12;
    const EACH: usize = 60;
    let environment = [("THRESHOLD_SECRET", SECRET)];
    let mut server = Server::with(SURFACES, &[], &environment);
    let (gateway, api, resp) = (server.gateway, server.api, server.resp);
    let gateway_clients = (1..=CLIENTS).map(|last| async move {
        let client = Client::from(gateway, [127, 0, 5, last]);
        let mut passed = 0;
        for _ in 0..EACH {
            passed += usize::from(client.get("/").await.status.as_u16() == 200);
        }
        (EACH, passed)
    });
    let tasks: Vec<_> = gateway_clients.map(tokio::spawn).collect();
    let callers = tokio::spawn(async move {
        let client = Client::new(api);
        let headers = [("content-type", "application/json")];
        for _ in 0..EACH {
            for (path, body) in [
                ("/v1/consume", r#"{"limit": "calls", "key": "alice"}"#),
                // Nobody's limit but the caller's.
                ("/v1/consume", r#"{"rate": "5/day", "key": "alice"}"#),
                ("/v1/check", r#"{"ip": "198.51.100.7", "method": "GET", "path": "/"}"#),
            ] {
                let answer = client.send(client.request("POST", path, &headers, body)).await;
                assert!([200, 429].contains(&answer.status.as_u16()), "{answer:?}");
            }
        }
    });
    let redis = tokio::task::spawn_blocking(move || {
        (0..EACH).for_each(|_| resp_asks(resp, &["THRESHOLD.CONSUME", "calls", "alice"]));
        (0..EACH).for_each(|_| resp_asks(resp, &["CL.THROTTLE", "alice", "5", "10", "60"]));
    });
    let (mut sent, mut passed) = (0, 0);
    for task in tasks {
        let (of_one, passed_of_one) = task.await.unwrap();
        (sent, passed) = (sent + of_one, passed + passed_of_one);
    }
    callers.await.unwrap();
    redis.await.unwrap();
    server.signal("TERM");
    assert!(server.ends().success(), "{}", server.said());
    let checked = EACH.min(40);
    let found = read(&server.folder.path().join("archive"));
    let counts = serde_json::json!({
        "* - address": sent + EACH,
        "pages edge address": sent + EACH,
        // What the edge refuses never comes this far.
        "calls user address": passed + checked,
        "calls user key": 2 * EACH,
    });
    assert_eq!(found["counts"], counts, "{found}");
    assert_eq!(server.count("had no room"), 0, "{}", server.said());
}

/// Sends one command and waits for the beginning of its reply.
fn resp_asks(address: std::net::SocketAddr, words: &[&str]) {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    let many = words.matches('$').count();
    stream.write_all(format!("*{many}\r\n{words}").as_bytes()).unwrap();
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(first, *b"*", "no error");
}
