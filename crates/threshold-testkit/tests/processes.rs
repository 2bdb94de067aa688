//! A thousand callers in several processes: what they were told adds up to exactly the limits.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use threshold_testkit::crowd::{Log, judge};
use threshold_testkit::figures::{Claim, size};
use threshold_testkit::folder::Folder;
use threshold_testkit::servers;

const CALLERS: u64 = 1_000;

#[test]
fn a_thousand_callers_of_a_store_in_memory_are_admitted_exactly() {
    exactly("memory://", 1, "processes-memory");
}

#[test]
fn a_thousand_callers_of_a_store_in_sqlite_are_admitted_exactly() {
    let folder = Folder::new();
    exactly(&format!("sqlite://{}", folder.path().join("store.db").display()), 1, "processes-sqlite");
}

#[test]
fn four_processes_of_a_store_in_postgres_are_admitted_exactly() {
    let database = servers::fresh_database();
    exactly(&format!("{}?timeout=30000", database.url()), 4, "processes-postgres");
}

#[test]
fn four_processes_of_a_store_in_redis_are_admitted_exactly() {
    exactly(&place(servers::redis()), 4, "processes-redis");
}

#[test]
fn four_processes_of_a_store_in_a_redis_cluster_are_admitted_exactly() {
    exactly(&place(servers::redis_cluster()), 4, "processes-redis-cluster");
}

#[test]
fn four_processes_of_a_store_in_durable_objects_are_admitted_exactly() {
    exactly(&place(servers::workerd()), 4, "processes-durable-objects");
}

fn place(server: &str) -> String {
    format!("{server}?prefix={}&timeout=30000", servers::fresh_prefix())
}

/// Has all callers ask at once, and adds up what they say they were told.
fn exactly(url: &str, processes: u64, name: &str) {
    let claim = Claim::of(
        "1,000 concurrent callers, in four processes where the store is shared, are admitted exactly",
    );
    let decisions = size(100_000, 1_000_000);
    let mut running: Vec<_> =
        (0..processes).map(|part| start(url, [CALLERS / processes, part, processes, decisions])).collect();
    for (_, lines) in &mut running {
        assert_eq!(next(lines).as_deref(), Some("ready"));
    }
    for (process, _) in &mut running {
        let go = process.stdin.as_mut().expect("it has an input").write_all(b"go\n");
        go.expect("it waits for this");
    }
    let mut admitted = Log::new();
    for (mut process, mut lines) in running {
        while let Some(line) = next(&mut lines) {
            let (key, count) = line.rsplit_once(' ').expect("a key and a count");
            *admitted.entry(key.to_owned()).or_default() += count.parse::<u64>().expect("a count");
        }
        assert!(process.wait().expect("it ends").success(), "every caller had an answer");
    }
    let judged = judge(decisions, &admitted);
    assert!(judged.contended > 1_000, "most limits are reached: {judged:?}");
    let figure = format!(
        "{name}: {decisions} decisions on {} keys in {processes} processes, {} beyond a limit, {} refused without need",
        judged.keys, judged.over, judged.under
    );
    claim.show(name, &figure, "0 beyond, 0 without need", (judged.over, judged.under) == (0, 0));
}

type Lines = BufReader<ChildStdout>;

fn start(url: &str, numbers: [u64; 4]) -> (Child, Lines) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_callers"))
        .arg(url)
        .args(numbers.map(|number| number.to_string()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the callers start");
    let lines = BufReader::new(process.stdout.take().expect("it has an output"));
    (process, lines)
}

fn next(lines: &mut Lines) -> Option<String> {
    let mut line = String::new();
    let read = lines.read_line(&mut line).expect("it says text");
    (read > 0).then(|| line.trim_end().to_owned())
}
