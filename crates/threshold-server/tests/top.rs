//! `threshold top` in a real terminal, as somebody sees it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

mod support;

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use support::client::Client;
use support::server::Server;

const TOKEN: &str = "a-token-of-the-tests-that-is-long-enough";
const POLICY: &str =
    "[[limit]]\nid = \"few\"\nlayer = \"endpoint\"\nper = \"ip\"\nrate = \"5/day\"\n[ladder]\n";

/// A terminal of its own; ended when it is dropped.
struct Terminal {
    name: String,
}

impl Terminal {
    /// Runs `threshold top` for `server` in a terminal of that size.
    fn start(server: &Server, (width, height): (u16, u16)) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        // A name that was just used may still be on its way out.
        let nth = STARTED.fetch_add(1, Ordering::Relaxed);
        let terminal = Self { name: format!("threshold-{}-{nth}", server.pid()) };
        let run = format!(
            "THRESHOLD_ADMIN_TOKEN={TOKEN} {} top --admin http://{}; echo ended with $?; stty -a; sleep 60",
            env!("CARGO_BIN_EXE_threshold"),
            server.admin
        );
        let (width, height) = (width.to_string(), height.to_string());
        let ran = terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, &run]);
        assert!(ran.status.success(), "tmux: {}", String::from_utf8_lossy(&ran.stderr));
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.name]).args(arguments).stdin(Stdio::null()).env("TERM", "xterm-256color");
        command.output().expect("tmux; `cargo xtask test setup` installs it")
    }

    /// What is on the screen, once `wanted` is.
    fn shows(&self, wanted: &str) -> String {
        let begun = Instant::now();
        loop {
            let screen = String::from_utf8(self.tmux(&["capture-pane", "-p"]).stdout).unwrap();
            if screen.contains(wanted) {
                return screen;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "no {wanted:?} on\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn press(&self, key: &str) {
        assert!(self.tmux(&["send-keys", key]).status.success());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_follows_the_traffic_on_small_and_large_screens_and_ends_clean() {
    let server = Server::with(POLICY, &[], &[("THRESHOLD_ADMIN_TOKEN", TOKEN)]);
    let client = Client::new(server.gateway);
    for size in [(80, 24), (200, 60)] {
        let terminal = Terminal::start(&server, size);
        terminal.shows("all is well");
        for _ in 0..10 {
            client.get("/").await;
        }
        if size.0 == 80 {
            // Who goes over is struck once in a day.
            terminal.shows("abuse escalation");
        }
        let screen = terminal.shows("unmatched");
        assert!(screen.contains("refused endpoints") && screen.contains("q ends"), "{screen}");
        assert!(screen.lines().all(|line| line.chars().count() <= usize::from(size.0)), "{screen}");
        if let Some(folder) = std::env::var_os("THRESHOLD_PICTURES") {
            let file = std::path::Path::new(&folder).join(format!("top-{}.txt", size.0));
            std::fs::write(file, &screen).unwrap();
        }
        terminal.press("p");
        terminal.shows("held");
        // Another size while it runs.
        assert!(terminal.tmux(&["resize-window", "-x", "100", "-y", "30"]).status.success());
        terminal.shows("p goes on");
        terminal.press("q");
        let after = terminal.shows("ended with 0");
        assert!(!after.contains("refused endpoints"), "the screen is as it was before\n{after}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_is_told_and_keys_still_work() {
    let server = Server::with(POLICY, &[], &[("THRESHOLD_ADMIN_TOKEN", TOKEN)]);
    let terminal = Terminal::start(&server, (80, 24));
    terminal.shows("all is well");
    server.signal("KILL");
    terminal.shows("lost: ");
    terminal.press("q");
    terminal.shows("ended with 0");
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_leave_the_terminal_as_it_was() {
    let server = Server::with(POLICY, &[], &[("THRESHOLD_ADMIN_TOKEN", TOKEN)]);
    for signal in ["TERM", "HUP", "INT"] {
        let terminal = Terminal::start(&server, (80, 24));
        terminal.shows("all is well");
        let admin = format!("top --admin http://{}", server.admin);
        let found = Command::new("pgrep")
            .args(["--newest", "--full", &format!("threshold {admin}")])
            .output()
            .unwrap();
        let pid = String::from_utf8(found.stdout).unwrap();
        assert!(Command::new("kill").args(["-s", signal, pid.trim()]).status().unwrap().success());
        let after = terminal.shows("ended with 0");
        assert!(!after.contains("refused endpoints"), "{signal}: the screen is as it was before\n{after}");
        let after = terminal.shows("icanon");
        assert!(
            !after.contains("-icanon") && !after.contains("-echo "),
            "{signal}: lines are read as before\n{after}"
        );
    }
}

#[test]
fn without_a_terminal_it_says_what_to_do_instead() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threshold"));
    let ran = command.arg("top").env("THRESHOLD_ADMIN_TOKEN", TOKEN).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("needs a terminal") && said.contains("threshold status --json"), "{said}");
}
