//! The main job: one command without arguments, and the three requests it names.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use threshold_testkit::folder::Folder;

/// The demonstration, killed when it is dropped.
struct Demonstration(Child);

impl Drop for Demonstration {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_third_of_the_requests_it_names_is_refused() {
    let folder = Folder::new();
    // Free ports, since others may use those of the default; nothing else is said.
    let child = Command::new(env!("CARGO_BIN_EXE_threshold"))
        .current_dir(folder.path())
        .env("THRESHOLD_GATEWAY", "127.0.0.1:0")
        .env("THRESHOLD_API", "127.0.0.1:0")
        .env("THRESHOLD_ADMIN", "127.0.0.1:0")
        .env("THRESHOLD_RLS", "127.0.0.1:0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut demonstration = Demonstration(child);
    let said = BufReader::new(demonstration.0.stdout.take().unwrap());
    let lines: Vec<String> =
        said.lines().map_while(Result::ok).take_while(|line| !line.contains("Ctrl-C")).collect();
    let named: Vec<&str> = lines.iter().filter_map(|line| line.trim().strip_prefix("curl ")).collect();
    let answers: Vec<String> = named.iter().map(|line| curl(line)).collect();
    assert_eq!(answers.len(), 3, "{lines:#?}");
    assert!(answers[0].starts_with("HTTP/1.1 200 OK"), "{}", answers[0]);
    assert!(answers[1].starts_with("HTTP/1.1 200 OK"), "{}", answers[1]);
    assert!(answers[2].starts_with("HTTP/1.1 429 Too Many Requests"), "{}", answers[2]);
    assert!(answers[2].contains("retry-after: "), "{}", answers[2]);
    let admin = lines.iter().find_map(|line| line.trim().strip_prefix("admin    ")).unwrap();
    let admin = admin.split(' ').next().unwrap();
    assert!(curl(&format!("-i {admin}/livez")).starts_with("HTTP/1.1 200 OK"));
    assert!(curl(&format!("-i {admin}/readyz")).contains("\"status\":\"ready\""));
    assert!(folder.path().join("threshold-data/ledger.sqlite").exists());
}

/// Runs the line as a person would, without the comment behind it.
fn curl(line: &str) -> String {
    let arguments = line.split('#').next().unwrap().split_whitespace();
    let output = Command::new("curl").arg("-s").args(arguments).output().unwrap();
    assert!(output.status.success(), "curl {line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_policy_is_written_once_checked_and_never_overwritten() {
    let folder = Folder::new();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_threshold"))
            .current_dir(folder.path())
            .args(arguments)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    assert_eq!(run(&["init"]).0, Some(0));
    let (code, said) = run(&["check", "policy.toml", "--strict"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run(&["init"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("it is there already"), "{said}");
}

#[test]
fn what_cannot_be_served_is_refused_with_a_remedy() {
    let folder = Folder::new();
    let serve = |arguments: &[&str], policy: &str| {
        std::fs::write(folder.path().join("policy.toml"), policy).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_threshold"))
            .current_dir(folder.path())
            .args(["serve", "--config", "policy.toml", "--admin", "off"])
            .env("THRESHOLD_API", "off")
            .env("THRESHOLD_RESP", "off")
            .env("THRESHOLD_RLS", "off")
            .args(arguments)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (arguments, policy, code, remedy) in [
        (&["--gateway", "nowhere"][..], "", 2, "write one such as 127.0.0.1:8080"),
        (&["--gateway", &taken], "", 2, "something else listens there"),
        (&["--gateway", "0.0.0.0:0"], "", 2, "needs [gateway].tls"),
        (&["--store", "mysql://x"], "", 2, "write memory://"),
        (&["--api", "0.0.0.0:0"], "", 2, "it needs keys"),
        (&["--resp", "0.0.0.0:0"], "", 2, "--resp 0.0.0.0:0: beyond this machine it needs keys"),
        (&["--rls", "0.0.0.0:0"], "", 2, "it needs keys"),
        (&["--upstream", "nowhere"], "", 2, "http://127.0.0.1:3000"),
        (&[], "[[limit]]\nid = 1\n", 1, "nothing of it is used"),
        (&[], "[gateway]\ntls = { certificate = \"none.pem\", key = \"none.pem\" }\n", 2, "give a PEM file"),
    ] {
        let (ended, said) = serve(arguments, policy);
        assert_eq!(ended, Some(code), "{arguments:?}: {said}");
        assert!(said.contains(remedy), "{arguments:?}: {said}");
    }
}
