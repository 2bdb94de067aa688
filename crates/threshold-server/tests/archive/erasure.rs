//! Somebody is erased from the archive: other programs find no row of it, and all rows of everybody else.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;
use threshold_testkit::folder::Folder;

use super::programs::{SECRET, ask, policy, python, read, until};
use super::s3::{CREDENTIALS, Door, S3};
use crate::support::client::Client;
use crate::support::server::Server;

const TOKEN: &str = "a-token-of-the-tests-that-is-long-enough";

/// How many rows of usage and events name a subject, by pyarrow and by DuckDB; those that tell of its erasure are apart.
fn rows_of(folder: &Path, subject: &str) -> [u64; 3] {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/archive/rows_of.py");
    let ran = Command::new(python()).arg(script).arg(folder).arg(subject).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

async fn told(server: &Server, method: &str, path: &str, body: &str) -> Json {
    let (client, bearer) = (Client::new(server.admin), format!("Bearer {TOKEN}"));
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let answer = client.send(client.request(method, &format!("/api/admin/{path}"), &headers, body)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_a_folder() {
    let environment = [("THRESHOLD_SECRET", SECRET), ("THRESHOLD_ADMIN_TOKEN", TOKEN)];
    let mut server = Server::with(&policy("folder = \"archive\""), &[], &environment);
    let archive = server.folder.path().join("archive");
    ask(&server, 3).await;
    told(&server, "POST", "maintenance", "{}").await;
    // Some of it is in another file, and some waits in memory.
    for last in 1..=3 {
        Client::from(server.gateway, [127, 0, 1, last]).get("/").await;
    }
    told(&server, "POST", "maintenance", "{}").await;
    Client::from(server.gateway, [127, 0, 1, 1]).get("/").await;
    let known = told(&server, "GET", "client-analytics/127.0.1.1", "").await;
    let subject = known["subjects"][0].as_str().unwrap();
    let [usage, events, _] = rows_of(&archive, subject);
    assert!(usage >= 3 && events >= 2, "{usage} {events}");
    let erased = told(&server, "DELETE", "subjects/127.0.1.1", "").await;
    let gone = &erased["archive"];
    assert!(
        gone["usageRows"].as_u64() >= Some(usage) && gone["eventRows"].as_u64() >= Some(events),
        "{erased}"
    );
    assert!(gone["files"].as_u64() >= Some(2), "{erased}");
    assert_eq!(rows_of(&archive, subject)[..2], [0, 0]);
    let after = read(&archive);
    assert_eq!(after["requests"], 2 * 4, "the requests of others are there: {after}");
    let analytics = told(&server, "GET", "client-analytics/127.0.1.1", "").await;
    assert_eq!(analytics["usage"], serde_json::json!([]), "{analytics}");
    server.signal("TERM");
    assert!(server.ends().success(), "{}", server.said());
    let [usage, events, erasures] = rows_of(&archive, subject);
    assert_eq!((usage, events, erasures), (0, 0, 2), "what is left says that it was erased");
    assert_eq!(std::fs::read_dir(archive.join("unfinished")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_a_bucket() {
    let (s3, data) = (S3::start().await, Folder::new());
    let door = Door::before(s3.address, true).await;
    let archive = format!("endpoint = \"http://{}\"\npath_style = true\n", door.address);
    let environment =
        [&[("THRESHOLD_SECRET", SECRET), ("THRESHOLD_ADMIN_TOKEN", TOKEN)], &CREDENTIALS[..]].concat();
    let arguments =
        ["--archive", "s3://observatory/some/prefix", "--data-dir", data.path().to_str().unwrap()];
    let server = Server::with(&policy(&archive), &arguments, &environment);
    ask(&server, 3).await;
    told(&server, "POST", "maintenance", "{}").await;
    until("all rows arrive", || {
        let found = read(s3.objects().path());
        found["requests"] == 9 && found["events"]["sanction_imposed"] == 3
    })
    .await;
    let known = told(&server, "GET", "client-analytics/127.0.1.2", "").await;
    let subject = known["subjects"][0].as_str().unwrap().to_owned();
    let [usage, events, _] = rows_of(s3.objects().path(), &subject);
    assert!(usage >= 2 && events >= 2, "{usage} {events}");
    let erased = told(&server, "DELETE", "subjects/127.0.1.2", "").await;
    assert_eq!(rows_of(s3.objects().path(), &subject)[..2], [0, 0], "{erased}");
    assert_eq!(erased["archive"]["usageRows"], usage, "{erased}");
    assert_eq!(read(s3.objects().path())["requests"], 6, "those of others are there");
    door.set(false);
    let (client, bearer) = (Client::new(server.admin), format!("Bearer {TOKEN}"));
    let request =
        client.request("DELETE", "/api/admin/subjects/127.0.1.1", &[("authorization", &bearer)], "");
    let failed = client.send(request).await;
    assert_eq!(failed.status, 503, "{}", failed.text());
    assert!(failed.text().contains("the archive is not"), "{}", failed.text());
    door.set(true);
    told(&server, "DELETE", "subjects/127.0.1.1", "").await;
    assert_eq!(read(s3.objects().path())["requests"], 3);
    // What is too old goes when somebody asks for it; by itself it went after the first file.
    let old = "some/prefix/analytics/rate-limits/2020-01-01/07/1-old-1.parquet";
    s3.put(old);
    let done = told(&server, "POST", "maintenance", "{}").await;
    assert_eq!(done["archiveObjectsRemoved"], 1, "{done}");
    assert!(!s3.keys().iter().any(|key| key == old));
}
