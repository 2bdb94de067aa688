//! A folder of files that is served while it changes, and files that nobody should have written.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};
use threshold_testkit::folder::Folder;

use super::common::{Grpc, admitted, edge};
use super::import::write;
use crate::support::server::Server;

/// A file with one limit of so many a day for the key `a` of `domain`.
fn file(domain: &str, count: u32, more: &str) -> String {
    let limit = format!("{{unit: day, requests_per_unit: {count}{more}}}");
    format!("domain: {domain}\ndescriptors:\n- {{key: a, rate_limit: {limit}}}\n")
}

fn served(folder: &Folder) -> Server {
    Server::with("", &["--envoy-config", folder.path().to_str().unwrap()], &[])
}

fn calls(value: &str, many: usize) -> Vec<Json> {
    vec![edge(&[&format!("a={value}")]); many]
}

#[test]
fn another_file_with_the_same_name_of_a_limit_changes_no_count() {
    let folder = Folder::new();
    write(&folder, "a.yaml", &file("edge", 4, ", name: api"));
    let (mut server, mut grpc) = (served(&folder), Grpc::new());
    assert_eq!(admitted(&grpc.calls(&server, &calls("x", 9))), 4);
    write(&folder, "b.yaml", &file("other", 1, ", name: api"));
    server.hears("policy reloaded: 2 limits", 1);
    let after = grpc.calls(&server, &calls("x", 9));
    assert_eq!(admitted(&after), 0);
    assert_eq!(after[0]["statuses"][0]["current_limit"]["name"], "api");
    let mut other = edge(&["a=x"]);
    other["domain"] = json!("other");
    assert_eq!(grpc.call(&server, &other)["statuses"][0]["current_limit"]["name"], "api");
}

#[test]
fn a_link_that_leads_nowhere_is_refused() {
    let (folder, real) = (Folder::new(), Folder::new());
    let path = folder.path().to_str().unwrap();
    write(&real, "a.yaml", &file("edge", 1, ""));
    symlink(real.path().join("a.yaml"), folder.path().join("a.yaml")).unwrap();
    let (mut server, mut grpc) = (served(&folder), Grpc::new());
    assert_eq!(admitted(&grpc.calls(&server, &calls("x", 3))), 1);
    std::fs::rename(real.path().join("a.yaml"), real.path().join("b.yaml")).unwrap();
    server.hears("policy refused", 1);
    assert!(server.said().contains("a.yaml: this link leads nowhere"), "{}", server.said());
    assert_eq!(admitted(&grpc.calls(&server, &calls("x", 3))), 0, "the last good one stays");
    let started =
        Command::new(env!("CARGO_BIN_EXE_threshold")).args(["serve", "--envoy-config", path]).output();
    let started = started.unwrap();
    assert_eq!(started.status.code(), Some(2), "{started:?}");
    assert!(String::from_utf8_lossy(&started.stderr).contains("this link leads nowhere"), "{started:?}");
    write(&real, "a.yaml", &file("edge", 3, ""));
    server.hears("policy reloaded", 1);
    assert_eq!(admitted(&grpc.calls(&server, &calls("x", 9))), 2);
}

#[test]
fn files_are_put_in_place_as_kubernetes_does() {
    let folder = Folder::new();
    // What a folder like that looks like: the files lead through one link, which is swapped.
    let version = |name: &str, count: u32| {
        let of = folder.path().join(name);
        std::fs::create_dir(&of).unwrap();
        std::fs::write(of.join("a.yaml"), file("edge", count, "")).unwrap();
        symlink(name, folder.path().join("..new")).unwrap();
        std::fs::rename(folder.path().join("..new"), folder.path().join("..data")).unwrap();
    };
    version("..first.yaml", 1);
    symlink("..data/a.yaml", folder.path().join("a.yaml")).unwrap();
    let (mut server, mut grpc) = (served(&folder), Grpc::new());
    assert_eq!(admitted(&grpc.calls(&server, &calls("x", 9))), 1);
    version("..second.yaml", 5);
    server.hears("policy reloaded", 1);
    std::fs::remove_dir_all(folder.path().join("..first.yaml")).unwrap();
    assert_eq!(admitted(&grpc.calls(&server, &calls("x", 9))), 4);
    assert_eq!(server.count("policy refused"), 0, "{}", server.said());
}

#[test]
fn what_a_change_does_not_carry_over_is_told() {
    let folder = Folder::new();
    write(&folder, "a.yaml", &file("edge", 1, ""));
    let mut server = served(&folder);
    let flags = "domain: other\ndescriptors:\n- key: a\n  quota_mode: true\n  rate_limit: {unit: day, requests_per_unit: 1}\n";
    write(&folder, "b.yaml", flags);
    server.hears("policy reloaded: 2 limits", 1);
    assert_eq!(server.count("not carried over: "), 1, "{}", server.said());
    assert!(server.said().contains("b.yaml:4:15: `quota_mode`"), "{}", server.said());
}

#[test]
fn a_file_that_would_fill_the_memory_is_refused_and_the_server_goes_on() {
    let folder = Folder::new();
    write(&folder, "a.yaml", &file("edge", 1, ""));
    let (mut server, mut grpc) = (served(&folder), Grpc::new());
    let before = server.memory();
    let bomb = format!(
        "domain: other\ndescriptors:\n- &d {{key: a, value: {}}}\n{}",
        "x".repeat(200_000),
        "- *d\n".repeat(3_000)
    );
    write(&folder, "b.yaml", &bomb);
    server.hears("policy refused", 1);
    assert!(server.said().contains("bytes of text, with what is repeated by name"), "{}", server.said());
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 100 * 1024 * 1024, "{grown} bytes more");
    assert_eq!(admitted(&grpc.calls(&server, &calls("x", 3))), 1);
}

#[test]
fn a_full_disk_is_told_and_a_reader_who_left_is_not() {
    let folder = Folder::new();
    write(&folder, "a.yaml", &file("edge", 1, ""));
    let import = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threshold"));
        command.current_dir(folder.path()).args(["import", "envoy", "a.yaml"]);
        command
    };
    let full = std::fs::File::create("/dev/full").unwrap();
    let ran = import().stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("the output could not be written (No space left on device"), "{said}");
    let mut child = import().stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
