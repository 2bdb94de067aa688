//! `threshold replay` and `threshold explain`, as they are typed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes and files")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use threshold_testkit::folder::Folder;

const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const NEW: &str = "[[limit]]\nid = \"few\"\nlayer = \"endpoint\"\nper = \"ip\"\nrate = \"5/hour\"\nalgorithm = \"sliding-log\"\n";
const OLD: &str = "[[limit]]\nid = \"many\"\nlayer = \"endpoint\"\nper = \"ip\"\nrate = \"20/hour\"\nalgorithm = \"sliding-log\"\n";

const SCENARIO: &str = "lasts = \"10s\"\n[[actor]]\nname = \"one\"\nkind = \"drip\"\nrate = \"1/s\"\n";

/// A folder with two policies and a log: one client asks 30 times, one 8 times, one 3 times.
struct Desk(Folder);

impl Desk {
    fn new() -> Self {
        let desk = Self(Folder::new());
        desk.write("new.toml", NEW.as_bytes());
        desk.write("old.toml", OLD.as_bytes());
        desk.write("access.log", log().as_bytes());
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threshold"));
        command.args(arguments).current_dir(self.0.path()).env_clear();
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(arguments);
        assert_eq!(ran.status.code(), Some(0), "{}", said(&ran));
        serde_json::from_slice(&ran.stdout).unwrap()
    }
}

fn log() -> String {
    let mut log = String::new();
    for second in 0..30 {
        let mut line = |client: &str, path: &str, agent: &str| {
            let at = format!("10/Mar/2026:12:00:{second:02} +0000");
            writeln!(log, "{client} - - [{at}] \"GET {path} HTTP/1.1\" 200 12 \"-\" \"{agent}\"").unwrap();
        };
        line("203.0.113.9", "/a?b=<script>", "curl/8.5.0");
        if second < 8 {
            line("203.0.113.8", "/", BROWSER);
        }
        if second < 3 {
            line("2001:db8::7", "/", BROWSER);
        }
    }
    log
}

fn said(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
}

#[test]
fn a_replay_says_whom_a_policy_would_have_hit() {
    let desk = Desk::new();
    let told = desk.json(&["replay", "access.log", "--policy", "new.toml", "--json"]);
    // Of 30, 8 and 3 requests within an hour each client has 5.
    assert_eq!((&told["requests"], &told["totals"]["denied"]), (&41.into(), &28.into()), "{told:#}");
    assert_eq!(told["mostHit"][0]["who"], "203.0.113.9");
    assert_eq!(
        (&told["mostHit"][0]["denied"], &told["mostHit"][0]["looks"]),
        (&25.into(), &"unclear".into())
    );
    assert_eq!(
        (&told["ordinaryHit"][0]["who"], &told["ordinaryHit"][0]["denied"]),
        (&"203.0.113.8".into(), &3.into())
    );
    assert_eq!(told["subjects"]["seen"], 3);
    assert_eq!((&told["limits"][0]["id"], &told["limits"][0]["denied"]), (&"few".into(), &28.into()));
    assert_eq!(told["first"]["at"], "2026-03-10T12:00:05.000Z");
    assert_eq!(told["sources"][0], "access.log: 41 requests in 41 lines; combined, by its lines");
    let text = said(&desk.run(&["replay", "access.log", "--policy", "new.toml"]));
    for part in ["41 requests", "203.0.113.9", "few", "ordinary: a browser at a person's pace", "█"] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "there are colours without a terminal");
}

#[test]
fn two_policies_are_compared_and_a_build_may_end_by_it() {
    let desk = Desk::new();
    let compared = ["replay", "access.log", "--policy", "new.toml", "--against", "old.toml"];
    let told = desk.json(&[&compared[..], &["--json"]].concat());
    let newly = &told["newlyDenied"];
    // One who was refused nothing before has 3 of 8 refused, and one who had 10 refused has 15 more.
    assert_eq!((&newly["subjects"], &newly["requests"]), (&1.into(), &18.into()), "{newly:#}");
    assert_eq!(newly["most"][0]["who"], "203.0.113.8");
    assert_eq!(told["totalsAgainst"]["denied"], 10);
    for (condition, code) in [
        ("new-denied-subjects > 0", 3),
        ("new-denied-subjects > 1", 0),
        ("new-denied > 17", 3),
        ("new-denied > 18", 0),
        ("denied >= 50%", 3),
        ("denied > 90%", 0),
    ] {
        let ran = desk.run(&[&compared[..], &["--fail-if", condition]].concat());
        assert_eq!(ran.status.code(), Some(code), "{condition}: {}", said(&ran));
    }
    desk.write("scenario.toml", SCENARIO.as_bytes());
    for command in [["replay", "access.log"], ["simulate", "scenario.toml"]] {
        let alone = ["--policy", "new.toml", "--fail-if", "new-denied > 0"];
        let ran = desk.run(&[&command[..], &alone[..]].concat());
        assert_eq!(ran.status.code(), Some(2));
        assert!(
            said(&ran).contains("--fail-if 'new-denied > 0' compares two policies; say --against FILE"),
            "{}",
            said(&ran)
        );
    }
    let ran = desk.run(&[&compared[..], &["--fail-if", "dnied > 0"]].concat());
    assert_eq!(ran.status.code(), Some(2));
    assert!(said(&ran).contains("there are requests, warned"), "{}", said(&ran));
}

#[test]
fn logs_come_packed_in_parts_and_through_a_pipe() {
    let desk = Desk::new();
    let log = log();
    let (first, second) = log.split_at(log.match_indices('\n').nth(20).unwrap().0 + 1);
    desk.write("1.log", first.as_bytes());
    desk.write("2.log", second.as_bytes());
    let pack = Command::new("gzip").arg(desk.path("1.log")).status().unwrap();
    assert!(pack.success());
    let whole = desk.json(&["replay", "access.log", "--policy", "new.toml", "--json"]);
    // The later part first: time puts them in order.
    let parts = desk.json(&["replay", "2.log", "1.log.gz", "--policy", "new.toml", "--json"]);
    assert_eq!(parts["mostHit"], whole["mostHit"]);
    let mut command = desk.command(&["replay", "-", "--policy", "new.toml", "--json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(log.as_bytes()).unwrap();
    let piped: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(piped["mostHit"], whole["mostHit"]);
}

#[test]
fn what_cannot_be_read_is_told_and_fatal_only_if_asked() {
    let desk = Desk::new();
    let mut bytes = log().into_bytes();
    bytes.extend_from_slice(b"\x00\xff\x1b]0;owned\x07 garbage\nalso garbage\n");
    desk.write("broken.log", &bytes);
    let told = desk.json(&["replay", "broken.log", "--policy", "new.toml", "--json"]);
    assert_eq!(told["totals"]["denied"], 28);
    let ran = desk.run(&["replay", "broken.log", "--policy", "new.toml"]);
    let text = said(&ran);
    assert!(text.contains("2 lines are left out"), "{text}");
    assert!(text.contains("broken.log:42"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "control characters reach the terminal");
    let ran = desk.run(&["replay", "broken.log", "--policy", "new.toml", "--strict"]);
    assert_eq!(ran.status.code(), Some(2), "{}", said(&ran));
    for (arguments, part) in [
        (["replay", "absent.log", "--policy", "new.toml"], "the log cannot be read"),
        (["replay", ".", "--policy", "new.toml"], "this is a folder"),
        (["replay", "access.log", "--policy", "absent.toml"], "there is no such file"),
        (["replay", "new.toml", "--policy", "new.toml"], "no format that is known"),
    ] {
        let ran = desk.run(&arguments);
        assert_eq!(ran.status.code(), Some(2), "{}", said(&ran));
        assert!(said(&ran).contains(part), "{part:?} is missing in {}", said(&ran));
    }
}

#[test]
fn a_condition_needs_requests_and_the_standard_input_is_read_once() {
    let desk = Desk::new();
    desk.write("empty.log", b"");
    for logs in [&["empty.log"][..], &["access.log", "--format", "caddy"]] {
        let condition = ["--policy", "new.toml", "--fail-if", "denied > 0.1%"];
        let ran = desk.run(&[&["replay"], logs, &condition].concat());
        assert_eq!(ran.status.code(), Some(2), "{}", said(&ran));
        assert!(said(&ran).contains("there are no requests"), "{}", said(&ran));
        let ran = desk.run(&[&["replay"], logs, &condition, &["--fail-if", "requests < 1"]].concat());
        assert_eq!(ran.status.code(), Some(3), "{}", said(&ran));
        let ran = desk.run(&[&["replay"], logs, &condition[..2]].concat());
        assert_eq!(ran.status.code(), Some(0), "{}", said(&ran));
    }
    let ran = desk.run(&["replay", "-", "-", "--policy", "new.toml"]);
    assert_eq!(ran.status.code(), Some(2), "{}", said(&ran));
    assert!(said(&ran).contains("is named twice"), "{}", said(&ran));
}

#[test]
fn a_page_that_cannot_be_written_does_not_lose_the_report() {
    let desk = Desk::new();
    let ran = desk.run(&["replay", "access.log", "--policy", "new.toml", "--html", "absent/report.html"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(
        said(&ran).contains("41 requests") && said(&ran).contains("the page cannot be written"),
        "{}",
        said(&ran)
    );
}

#[test]
fn whoever_interrupts_is_told_what_there_is_even_while_a_pipe_says_nothing() {
    let desk = Desk::new();
    for condition in ["denied > 100%", "denied > 1%"] {
        let mut command = desk.command(&["replay", "-", "--policy", "new.toml", "--fail-if", condition]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // So much that it cannot all wait somewhere: once it is written, some of it was read.
        pipe.write_all(log().repeat(300).as_bytes()).unwrap();
        let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(told.success());
        let ran = child.wait_with_output().unwrap();
        drop(pipe);
        let code = if condition == "denied > 100%" { 130 } else { 3 };
        assert_eq!(ran.status.code(), Some(code), "{}", said(&ran));
        assert!(
            said(&ran).contains("203.0.113.9") && said(&ran).contains("reading was interrupted"),
            "{}",
            said(&ran)
        );
    }
}

#[test]
fn the_page_works_in_a_browser_without_anything_else() {
    let desk = Desk::new();
    let arguments =
        ["replay", "access.log", "--policy", "new.toml", "--against", "old.toml", "--html", "report.html"];
    let ran = desk.run(&arguments);
    assert_eq!(ran.status.code(), Some(0), "{}", said(&ran));
    assert!(
        Path::new("/usr/bin/chromium").exists(),
        "there is no Chromium; `cargo xtask test setup` installs it"
    );
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let shots =
        std::env::var_os("THRESHOLD_PICTURES").map_or_else(|| desk.0.path().to_owned(), PathBuf::from);
    let ran = Command::new("node")
        .arg(here.join("tests/foresight/page.mjs"))
        .arg(desk.path("report.html"))
        .env("SHOTS", shots)
        .env("TOOLS", here.join("../../target/tools/browser"))
        .output()
        .unwrap();
    assert!(ran.status.success() && said(&ran).contains("opened"), "{}", said(&ran));
}

#[test]
fn one_request_is_explained_limit_by_limit() {
    let desk = Desk::new();
    let ran = desk.run(&["explain", "/api/report", "--policy", "new.toml"]);
    assert_eq!(ran.status.code(), Some(0), "{}", said(&ran));
    for part in ["passes", "few", "5 - 1 = 4", "has room", "at most 5 in any 1h"] {
        assert!(said(&ran).contains(part), "{part:?} is missing in\n{}", said(&ran));
    }
    let ran = desk.run(&["explain", "/api/report", "--policy", "new.toml", "--times", "5"]);
    assert_eq!(ran.status.code(), Some(1), "{}", said(&ran));
    for part in ["refused by a limit; passes in 1h 0min", "0 < 1", "refuses for 1h 0min"] {
        assert!(said(&ran).contains(part), "{part:?} is missing in\n{}", said(&ran));
    }
    // A line of a log, after that log: its client has used up what it has.
    let log = log();
    let line = log.lines().last().unwrap();
    let ran = desk.run(&["explain", "--line", line, "--after", "access.log", "--policy", "new.toml"]);
    assert_eq!(ran.status.code(), Some(1), "{}", said(&ran));
    let ran = desk.run(&["explain", "--line", line, "--policy", "new.toml", "--json"]);
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(
        (&told["considered"][0]["limit"], &told["considered"][0]["after"]),
        (&"few".into(), &5.into()),
        "{told:#}"
    );
    let ran = desk.run(&["explain", "report", "--policy", "new.toml"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(said(&ran).contains("neither a path nor a URL"), "{}", said(&ran));
    let ran = desk.run(&["explain", "/%zz", "--policy", "new.toml"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(said(&ran).contains("refused: the path cannot be read"), "{}", said(&ran));
}

#[test]
fn what_came_before_may_be_of_any_format_and_what_was_read_of_it_is_told() {
    let desk = Desk::new();
    let line = |second: u64| {
        format!("{{\"ts\":{},\"who\":\"203.0.113.5\",\"url\":\"/\"}}\n", 1_772_000_000 + second)
    };
    let lines: String = (0..5).map(line).collect();
    desk.write("app.jsonl", (lines + "broken\n").as_bytes());
    let map = ["--fields", "time=ts,client=who,target=url", "--format", "json"];
    let asked = ["explain", "/", "--address", "203.0.113.5", "--policy", "new.toml", "--after", "app.jsonl"];
    let ran = desk.run(&[&asked[..], &map].concat());
    assert_eq!(ran.status.code(), Some(1), "{}", said(&ran));
    for part in [
        "at 2026-02-25T06:13:24.000Z",
        "5 requests in 6 lines",
        "1 lines are left out",
        "passes in 59min 56s",
    ] {
        assert!(said(&ran).contains(part), "{part:?} is missing in\n{}", said(&ran));
    }
    let ran = desk.run(&[&["explain", "--policy", "new.toml", "--line", &line(9)], &map[..]].concat());
    assert_eq!(ran.status.code(), Some(0), "{}", said(&ran));
    assert!(said(&ran).contains("at 2026-02-25T06:13:29.000Z"), "{}", said(&ran));
}
