//! The commands of the page, run as a newcomer runs them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value as Json;

use crate::POLICY;
use crate::support::browser::{Walked, walk};
use crate::support::client::Client;
use crate::support::server::Server;

const PAGE: &str = include_str!("../../../../examples/grove/README.md");
const TOKEN: &str = "a-token-of-the-tests-that-is-long-enough";
const DONE: &str = "@@done";

/// A step of the page: what is typed, and what it prints.
#[derive(Debug, Default)]
struct Step {
    heading: String,
    typed: String,
    printed: Vec<String>,
}

/// Blocks marked `sh` are typed; one marked `text` after it is what they print.
fn steps(page: &str) -> Vec<Step> {
    let (mut steps, mut heading, mut block) = (Vec::<Step>::new(), "", None);
    for line in page.lines() {
        match (block, line.strip_prefix("```")) {
            (None, Some(kind)) => {
                block = Some(kind);
                if kind == "sh" {
                    steps.push(Step { heading: heading.to_owned(), ..Step::default() });
                }
            }
            (Some(_), Some(_)) => block = None,
            (Some("sh"), None) => steps.last_mut().unwrap().typed += &format!("{line}\n"),
            (Some("text"), None) => steps.last_mut().unwrap().printed.push(line.to_owned()),
            (None, None) if line.starts_with('#') => heading = line.trim_start_matches('#').trim(),
            _ => {}
        }
    }
    steps
}

/// A shell that remembers what it was told.
struct Shell {
    child: Child,
    typed: ChildStdin,
    printed: BufReader<ChildStdout>,
}

impl Shell {
    fn beside(server: &Server) -> Self {
        let programs = Path::new(env!("CARGO_BIN_EXE_threshold")).parent().unwrap().to_owned();
        let mut path = programs.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        let mut child = Command::new("bash")
            .current_dir(server.folder.path())
            .env("PATH", path)
            .env("GATEWAY", format!("http://{}", server.gateway))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (typed, printed) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, typed, printed }
    }

    /// What is printed by what is typed, line by line, with one space where there are many.
    fn types(&mut self, typed: &str) -> Vec<String> {
        writeln!(self.typed, "{typed}\necho\necho {DONE}").unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.printed.read_line(&mut line).unwrap(), 0, "the shell has ended: {lines:#?}");
            if line.trim() == DONE {
                return lines;
            }
            lines.push(single(&line));
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn single(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the page says is printed, in its order; a line of it may be the beginning or the end of one.
fn compare(step: &Step, printed: &[String]) {
    let mut rest = printed.iter();
    for wanted in &step.printed {
        let wanted = single(wanted);
        let found = rest.any(|line| format!(" {line}").contains(&format!(" {wanted}")));
        assert!(found, "{}: no {wanted:?} in {printed:#?} after\n{}", step.heading, step.typed);
    }
}

async fn asks(server: &Server, path: &str) -> Json {
    let (client, bearer) = (Client::new(server.admin), format!("Bearer {TOKEN}"));
    let request = client.request("GET", &format!("/api/admin/{path}"), &[("authorization", &bearer)], "");
    client.send(request).await.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_walk_of_the_page_goes_as_it_says() {
    let variables =
        [("THRESHOLD_ADMIN_TOKEN", TOKEN), ("GROVE_COOLDOWN", "5s"), ("GROVE_LONG_COOLDOWN", "10s")];
    let mut server = Server::with(POLICY, &[], &variables);
    let mut shell = Shell::beside(&server);
    let steps = steps(PAGE);
    assert!(
        steps.len() > 10 && steps.iter().filter(|step| step.printed.is_empty()).count() == 1,
        "{steps:#?}"
    );
    for step in &steps {
        let look = match step.heading.as_str() {
            "Undoing it" => Some("grove"),
            "Logins" if step.typed.contains("lift") => Some("locked"),
            _ => None,
        };
        if let Some(name) = look {
            let (admin, gateway, pid) = (server.admin, server.gateway, server.pid());
            walk(Walked { admin, gateway, token: TOKEN, pid }, name).await;
        }
        let printed = tokio::task::block_in_place(|| shell.types(&step.typed));
        compare(step, &printed);
    }
    let traffic = asks(&server, "traffic").await;
    for ending in ["allowed", "warned", "delayed", "denied"] {
        let samples = traffic["samples"].as_array().unwrap();
        assert!(samples.iter().any(|sample| sample[ending].as_u64() > Some(0)), "{ending}: {traffic}");
    }
    let audit = asks(&server, "audit").await.to_string();
    assert!(audit.contains("lift"), "{audit}");
    server.hears("warning: tenant-blocks", 1);
    assert!(PAGE.contains("warning: tenant-blocks: tenant blocks at "));
}
