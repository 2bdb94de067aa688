//! The archive in a bucket.

use threshold_testkit::folder::Folder;

use super::programs::{SECRET, ask, policy, read, requests, until};
use super::s3::{BUCKET, CREDENTIALS, Door, S3};
use crate::support::client::Client;
use crate::support::server::Server;

const PLACE: &str = "s3://observatory/some/prefix";

fn environment() -> Vec<(&'static str, &'static str)> {
    [&[("THRESHOLD_SECRET", SECRET)], &CREDENTIALS[..]].concat()
}

/// A server whose archive is in the bucket behind `door`, with its data in `data`.
fn server(door: &Door, data: &Folder, more: &str) -> Server {
    let archive = format!("endpoint = \"http://{}\"\npath_style = true\n{more}", door.address);
    let data = data.path().to_str().unwrap();
    Server::with(&policy(&archive), &["--archive", PLACE, "--data-dir", data], &environment())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_and_events_arrive_and_are_read_from_there() {
    let (s3, data) = (S3::start().await, Folder::new());
    let door = Door::before(s3.address, true).await;
    let mut server = server(&door, &data, "");
    assert!(server.said().contains(PLACE), "{}", server.said());
    ask(&server, 5).await;
    server.signal("TERM");
    assert!(server.ends().success(), "{}", server.said());
    let prefix = "some/prefix/analytics/rate-limits/20";
    assert!(s3.keys().iter().all(|key| key.starts_with(prefix)), "{BUCKET}: {:?}", s3.keys());
    let found = read(s3.objects().path());
    assert_eq!(
        (&found["requests"], &found["events"]["sanction_imposed"]),
        (&15.into(), &5.into()),
        "{found}"
    );
    assert!(requests(server.folder.path(), PLACE, &environment()) >= 10);
    // Nothing is left to send.
    assert_eq!(read(&data.path().join("archive-spool"))["files"], 0);
    assert!(!server.said().contains("secret"), "{}", server.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_outage_and_a_crash_leave_behind_is_sent_at_the_next_start() {
    let (s3, data) = (S3::start().await, Folder::new());
    let door = Door::before(s3.address, true).await;
    let mut first = server(&door, &data, "");
    ask(&first, 3).await;
    until("the first rows arrive", || read(s3.objects().path())["requests"] == 9).await;
    door.set(false);
    for last in 1..=5 {
        Client::from(first.gateway, [127, 0, 3, last]).get("/").await;
    }
    first.hears("\"component\":\"archive\"", 1);
    assert!(first.said().contains("\"state\":\"down\""), "{}", first.said());
    let spool = data.path().join("archive-spool");
    until("the rest waits", || read(&spool)["requests"] == 5).await;
    first.signal("KILL");
    first.ends();
    assert_eq!(read(&spool)["requests"], 5, "whole files and no others");
    door.set(true);
    let _second = server(&door, &data, "");
    until("the rest arrives", || read(s3.objects().path())["requests"] == 14).await;
    until("nothing waits", || read(&spool)["files"] == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_that_ends_is_told_and_made_up_for() {
    let (s3, data) = (S3::start().await, Folder::new());
    let door = Door::before(s3.address, false).await;
    let mut server = server(&door, &data, "");
    ask(&server, 2).await;
    server.hears("\"component\":\"archive\"", 1);
    door.set(true);
    server.hears("files arrive again", 1);
    until("all of it arrives", || read(s3.objects().path())["requests"] == 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_bounded_and_what_is_lost_is_counted() {
    let data = Folder::new();
    // Nobody is behind it.
    let door = Door::before("127.0.0.1:1".parse().unwrap(), false).await;
    let mut server = server(&door, &data, "spool_bytes = 1");
    ask(&server, 4).await;
    server.hears("the archive had no room for", 1);
    ask_again(&server).await;
    assert_eq!(read(&data.path().join("archive-spool"))["files"], 0);
    server.hears("\"alert\":\"archive-dropping\"", 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_old_is_removed_and_nothing_else() {
    let (s3, data) = (S3::start().await, Folder::new());
    let old = ["2020-01-01/00/1-a.parquet", "2020-01-01/23/events-2-a.parquet", "2021-12-31/05/3-b.parquet"];
    let others = ["2020-01-01/00/notes.txt", "notes/4-c.parquet"];
    let key = |name: &str| format!("some/prefix/analytics/rate-limits/{name}");
    old.iter().chain(&others).for_each(|name| s3.put(&key(name)));
    s3.put("some/prefix/0.parquet");
    let door = Door::before(s3.address, true).await;
    let server = server(&door, &data, "");
    ask(&server, 1).await;
    until("the old ones are gone", || {
        !s3.keys().iter().any(|have| old.iter().any(|name| *have == key(name)))
    })
    .await;
    let keys = s3.keys();
    assert!(others.iter().all(|name| keys.contains(&key(name))), "{keys:?}");
    assert!(keys.contains(&"some/prefix/0.parquet".to_owned()), "{keys:?}");
    assert_eq!(server.count("could not remove"), 0, "{}", server.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_never_answers_does_not_keep_the_server() {
    let (silent, data) = (tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap(), Folder::new());
    let door = Door::before(silent.local_addr().unwrap(), true).await;
    let mut server = server(&door, &data, "");
    ask(&server, 2).await;
    server.signal("TERM");
    assert!(server.ends().success(), "{}", server.said());
    assert!(server.said().contains("are sent at the next start"), "{}", server.said());
    assert_eq!(read(&data.path().join("archive-spool"))["requests"], 6);
}

/// Decisions are as they were.
async fn ask_again(server: &Server) {
    let client = Client::from(server.gateway, [127, 0, 4, 1]);
    assert_eq!(
        [client.get("/").await.status, client.get("/").await.status].map(|status| status.as_u16()),
        [200, 429]
    );
}

#[test]
fn a_bucket_without_credentials_is_told_at_the_start() {
    let folder = Folder::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_threshold"));
    command.current_dir(folder.path()).args(["serve", "--archive", "s3://observatory"]);
    let ran = command.env_remove("AWS_ACCESS_KEY_ID").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.code() == Some(2) && said.contains("AWS_ACCESS_KEY_ID is not set"), "{said}");
}
