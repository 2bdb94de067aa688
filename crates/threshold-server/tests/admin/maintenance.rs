//! Tidying up: by itself, and when an operator asks for it; with what is old put there by others.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use threshold_testkit::folder::Folder;
use threshold_testkit::servers;

use super::common::{Operated, TOKEN};

const ENVIRONMENT: [(&str, &str); 2] = [
    ("THRESHOLD_ADMIN_TOKEN", TOKEN),
    ("THRESHOLD_SECRET", "a secret of some length, the same on every node"),
];
/// A file of the archive once in an hour: nothing is written before somebody asks.
const POLICY: &str = "[[limit]]\nid = \"api\"\nlayer = \"endpoint\"\nper = \"ip\"\nrate = \"2/day\"\n\
    [archive]\nfolder = \"archive\"\nevery = \"1h\"\n";

fn sqlite(file: &Path, sql: &str) -> String {
    let ran = Command::new("sqlite3").arg("-cmd").arg(".timeout 10000").arg(file).arg(sql).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

/// Violations of so many days ago, as a ledger has them.
fn violate(ledger: &Path, first: u64, days: &[u64]) {
    for (id, days) in (first..).zip(days) {
        let at = format!("(CAST(strftime('%s', 'now') AS INTEGER) - {days} * 86400) * 1000000");
        sqlite(
            ledger,
            &format!(
                "INSERT INTO violations (id, subject, kind, at, limit_id, count, allowed, period, details) \
                 VALUES ({id}, x'{}', 0, {at}, 'api', 3, 2, 1, '')",
                "00".repeat(17)
            ),
        );
    }
}

/// Days of an archive that are long over.
fn archive(folder: &Path, days: &[&str]) {
    for day in days {
        let hour = folder.join("analytics/rate-limits").join(day).join("07");
        std::fs::create_dir_all(&hour).unwrap();
        std::fs::write(hour.join("1-old-1.parquet"), "old").unwrap();
    }
}

fn count(ledger: &Path) -> String {
    sqlite(ledger, "SELECT count(*) FROM violations")
}

async fn until(what: &str, happened: impl Fn() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never happened: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_goes_by_itself_and_what_is_not_stays() {
    let data = Folder::new();
    let (ledger, folder) = (data.path().join("ledger.sqlite"), data.path().join("archive"));
    let arguments = ["--data-dir", data.path().to_str().unwrap(), "--archive", folder.to_str().unwrap()];
    let mut first = Operated::with(POLICY, &arguments, &ENVIRONMENT);
    first.server.signal("TERM");
    first.server.ends();
    violate(&ledger, 1_000, &[6, 8, 30]);
    archive(&folder, &["2020-01-01", "2020-01-02"]);
    let today = sqlite(&ledger, "SELECT date('now', '-89 days')");
    archive(&folder, &[&today]);
    let _second = Operated::with(POLICY, &arguments, &ENVIRONMENT);
    until("violations of more than seven days are forgotten", || count(&ledger) == "1").await;
    let rows = folder.join("analytics/rate-limits");
    until("days of more than ninety are removed", || !rows.join("2020-01-01").exists()).await;
    until("all of them", || !rows.join("2020-01-02").exists()).await;
    assert!(rows.join(today).exists(), "what is not over stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_told_how_much_of_each() {
    let operated = Operated::with(POLICY, &[], &ENVIRONMENT);
    let path = operated.server.folder.path();
    let (ledger, folder) = (path.join("threshold-data/ledger.sqlite"), path.join("archive"));
    for status in [200, 200, 429] {
        assert_eq!(operated.status().await, status);
    }
    operated.told("POST", "sanctions", r#"{"client": "192.0.2.7", "for": "1h", "reason": "why"}"#).await;
    // After what is done at the start.
    until("it has begun", || folder.join("analytics").exists()).await;
    operated.told("POST", "maintenance", "{}").await;
    violate(&ledger, 1_000, &[1, 8, 9, 10]);
    archive(&folder, &["2020-01-01", "2020-01-02"]);
    let other = crate::support::client::Client::from(operated.server.gateway, [127, 0, 0, 9]);
    other.get("/").await;
    operated.told("DELETE", "sanctions/192.0.2.7", "").await;
    let done = operated.told("POST", "maintenance", "{}").await;
    assert_eq!((&done["ledgerRecords"], count(&ledger).as_str()), (&json!(3), "1"), "{done}");
    // One row for the limit and one for every request; what was lifted, and that somebody tidied up before.
    assert_eq!((&done["archivedRows"], &done["archivedEvents"]), (&json!(2), &json!(2)), "{done}");
    assert_eq!(
        (&done["archiveDaysRemoved"], &done["archiveObjectsRemoved"]),
        (&json!(2), &json!(0)),
        "{done}"
    );
    let told = operated.run(&format!("maintenance --admin http://{}", operated.server.admin), &ENVIRONMENT);
    let said = String::from_utf8(told.stdout).unwrap();
    assert!(told.status.success() && said.contains("ledger    0 records forgotten"), "{said}");
    assert!(said.contains("archive   0 rows and 1 events written, 0 days and 0 objects removed"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_that_are_over_are_dropped() {
    let database = servers::fresh_database();
    let store = format!("{}?timeout=10000", database.url());
    let operated = Operated::with(super::common::POLICY, &["--store", &store], &ENVIRONMENT);
    assert_eq!(operated.status().await, 200);
    let old = |rows: u32| {
        database.sql(&format!(
            "INSERT INTO threshold.states (key, at) SELECT gen_random_uuid(), 1 FROM generate_series(1, {rows})"
        ))
    };
    let left = || database.sql("SELECT count(*) FROM threshold.states").trim().to_owned();
    old(50);
    until("they go by themselves", || left() == "1").await;
    // More than are dropped by themselves meanwhile.
    old(100_000);
    let done = operated.told("POST", "maintenance", "{}").await;
    let dropped = done["counters"]["dropped"].as_u64().unwrap();
    assert!(dropped > 10_000 && done["counters"]["seen"].as_u64().unwrap() >= dropped, "{done}");
    until("no other is left", || left() == "1").await;
    assert_eq!((operated.status().await, operated.status().await), (200, 429), "what counts is counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_in_memory_are_dropped_at_the_edge_too() {
    let operated =
        Operated::start("[[limit]]\nid = \"edge\"\nlayer = \"edge\"\nper = \"ip\"\nrate = \"5/s\"\n");
    assert_eq!(operated.status().await, 200);
    let edge = async || {
        let page = operated.client.get("/metrics").await.text().to_owned();
        let keys =
            page.lines().find(|line| line.starts_with("threshold_memory_keys{") && line.contains("edge"));
        keys.unwrap_or_else(|| panic!("{page}")).rsplit(' ').next().unwrap().to_owned()
    };
    let begun = Instant::now();
    while edge().await != "0" {
        assert!(begun.elapsed() < Duration::from_secs(30), "it is never forgotten");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
