//! The archive's files, whatever happens to the server and to the disk.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::site::{Client, PATIENCE, POLICY, Site, sum};

const HOME: [&str; 2] = ["--data-dir", "fitbit2garmin-data"];

/// How many requests the archive has; files that are not whole would be warned of, and fail this.
fn archived(site: &Site) -> u64 {
    sum(&site.analytics(&["requests", "--limit", "*", "--rows", "1000000"], &HOME), "request_count")
}

async fn wait(what: &str, site: &Site, mut done: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !done().await {
        assert!(begun.elapsed() < PATIENCE, "{what}:\n{}", site.said());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Asks without end, each time from another address, until there is nobody to answer; says how often it tried.
async fn ask_until_it_is_gone(client: Client) -> u64 {
    let mut tried = 0;
    for number in 0_u32.. {
        tried += 1;
        let address = format!("198.51.{}.{}", number / 250 % 250, number % 250 + 1);
        if client.try_ask("GET", "/", &address).await.is_none() {
            break;
        }
    }
    tried
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_leaves_whole_files_and_loses_only_what_was_not_written() {
    let mut site = Site::start(POLICY, &[]);
    let (mut tried, mut safe) = (0, 0);
    for round in 0..6 {
        let asking = tokio::spawn(ask_until_it_is_gone(site.client()));
        wait("nothing is archived", &site, async || archived(&site) > safe).await;
        safe = archived(&site);
        // Every other time it is killed while it writes a file, else at any moment.
        let begun = Instant::now();
        while round % 2 == 0 && names(&site.in_archive("unfinished")).is_empty() {
            assert!(begun.elapsed() < PATIENCE, "it writes no files:\n{}", site.said());
        }
        site.kill();
        tried += asking.await.unwrap();
        let kept = archived(&site);
        assert!(safe <= kept && kept <= tried, "{safe} <= {kept} <= {tried}");
        safe = kept;
        site.go_on(&[]);
        // What the new process writes already is its own.
        wait("what was not finished stays", &site, async || names(&site.in_archive("unfinished")).is_empty())
            .await;
    }
}

fn names(folder: &Path) -> Vec<OsString> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_left_is_removed_and_what_others_write_is_not() {
    let mut site = Site::start(POLICY, &[]);
    site.kill();
    let [left, theirs] = ["left.part", "theirs.part"].map(|name| site.in_archive("unfinished").join(name));
    fs::write(&left, "half of a file").unwrap();
    let writing = File::create(&theirs).unwrap();
    writing.lock().unwrap();
    let old = site.in_archive("analytics/rate-limits/2020-02-29");
    let not_ours = site.in_archive("analytics/rate-limits/notes");
    fs::create_dir_all(old.join("13")).unwrap();
    fs::create_dir_all(&not_ours).unwrap();
    site.go_on(&[]);
    assert!(!left.exists() && theirs.exists());
    wait("what is older than 90 days stays", &site, async || !old.exists()).await;
    assert!(not_ours.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fails_is_told_and_neither_slows_decisions_nor_loses_counts() {
    let mut site = Site::start(POLICY, &[]);
    assert_eq!(site.archive_is().await, "ok");
    // A file in the folder's place: nothing can be made there, whoever runs this.
    let unfinished = site.in_archive("unfinished");
    fs::remove_dir(&unfinished).unwrap();
    fs::write(&unfinished, "").unwrap();
    let client = site.client();
    for number in 0..30 {
        assert_eq!(client.ask("GET", "/", &format!("203.0.113.{number}")).await, 200);
    }
    site.hears(r#""component":"archive""#);
    assert_eq!(site.archive_is().await, "failing");
    assert_eq!(client.ask("GET", "/", "203.0.113.99").await, 200);
    fs::remove_file(&unfinished).unwrap();
    site.hears(r#""state":"up""#);
    assert_eq!(site.archive_is().await, "ok");
    site.counted(&HOME, 31).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_stopped_writes_what_it_has() {
    // Once in a minute, unless something is said: nothing is written before the end.
    let mut site = Site::folder(POLICY);
    site.go_on(&[]);
    let client = site.client();
    for _ in 0..3 {
        assert_eq!(client.ask("GET", "/", "203.0.113.1").await, 200);
    }
    site.stop();
    assert_eq!(archived(&site), 3);
}

#[test]
fn mistakes_are_told_with_remedies() {
    let site = Site::folder(POLICY);
    for (arguments, remedy) in [
        (&["analytics", "rates"][..], "name its folder with --archive"),
        (&["analytics", "rates", "--archive", "none"], "there is no archive; name its folder with --archive"),
        (&["analytics", "rates", "--archive", "a", "--client", "alice"], "write one such as 203.0.113.7"),
        (&["analytics", "rates", "--archive", "a", "--since", "soon"], "write one such as 30s"),
        (&["analytics", "violations"], "there is no ledger; name another place"),
        (&["serve", "--archive", "policy.toml"], "make it writable for who runs the server, or name another"),
    ] {
        let ran = site.run(arguments);
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(remedy), "{arguments:?}: {errors}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_none_of_the_archives_is_told_and_left_out() {
    let mut site = Site::start(POLICY, &[]);
    site.client().ask("GET", "/", "203.0.113.1").await;
    site.stop();
    let day = fs::read_dir(site.in_archive("analytics/rate-limits")).unwrap().next().unwrap().unwrap();
    let hour = fs::read_dir(day.path()).unwrap().next().unwrap().unwrap();
    fs::write(hour.path().join("other.parquet"), "no Parquet").unwrap();
    let ran = site.run(&["analytics", "requests", "--archive", "archive", "--limit", "*"]);
    let (out, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.contains("address:"), "{out}{errors}");
    assert!(errors.contains("other.parquet") && errors.contains("its rows are left out"), "{errors}");
}
