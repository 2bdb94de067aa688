//! The configuration of envoyproxy/ratelimit: YAML in, calls out.

use std::process::{Command, Output};

use serde_json::{Value as Json, json};
use threshold_testkit::folder::Folder;

use super::common::{Grpc, admitted, codes, edge};
use crate::support::server::Server;

const YAML: &str = r#"
domain: edge
descriptors:
  # Each address of users has its own.
  - key: database
    value: users
    descriptors:
      - key: remote_address
        rate_limit:
          unit: day
          requests_per_unit: 3
          name: addresses
      - key: remote_address
        value: 192.0.2.1
        rate_limit:
          unlimited: true
      - key: remote_address
        value: 192.0.2.66
        rate_limit: { unit: day, requests_per_unit: 0 }
  - key: database
    rate_limit:
      unit: Month
      requests_per_unit: 2
      name: any
  - key: database
    value: logs
  - key: watched
    shadow_mode: true
    detailed_metric: true
    rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: path
    value: /files/*
    share_threshold: true
    rate_limit: { unit: week, requests_per_unit: 2 }
  - key: path
    value: /files/mine
    rate_limit:
      unit: year
      requests_per_unit: 1
      replaces:
        - name: any
        - name: nobody
"#;

fn import(folder: &Folder, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_threshold"))
        .current_dir(folder.path())
        .args(["import", "envoy"])
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(super) fn write(folder: &Folder, name: &str, text: &str) {
    // Put in place whole: a reader never sees half of it.
    let new = folder.path().join("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, folder.path().join(name)).unwrap();
}

/// What limits that came from the document above do.
fn assert_means_the_same(server: &Server) {
    let mut grpc = Grpc::new();
    let mut admits = |descriptor: &str| admitted(&grpc.calls(server, &vec![edge(&[descriptor]); 10]));
    assert_eq!(admits("database=users,remote_address=192.0.2.7"), 3);
    assert_eq!(admits("database=users,remote_address=192.0.2.8"), 3);
    assert_eq!(admits("database=users,remote_address=192.0.2.1"), 10);
    assert_eq!(admits("database=users,remote_address=192.0.2.66"), 0);
    assert_eq!(admits("database=mongo"), 2);
    // They have no limit, and keep the one for all databases from being found.
    assert_eq!(admits("database=users"), 10);
    assert_eq!(admits("database=logs"), 10);
    assert_eq!(admits("watched=x"), 10);
    assert_eq!(admits("path=/files/1"), 2);
    assert_eq!(admits("path=/files/2"), 0);
    let both = grpc.call(server, &edge(&["database=redis", "path=/files/mine"]));
    assert_eq!(codes(&both).0, "OK");
    assert!(both["statuses"][0]["current_limit"].is_null(), "{both}");
    let named = grpc.call(server, &edge(&["database=users,remote_address=192.0.2.9"]));
    assert_eq!(named["statuses"][0]["current_limit"]["name"], "addresses");
    assert_eq!(named["statuses"][0]["current_limit"]["unit"], "DAY");
}

#[test]
fn an_imported_policy_means_the_same() {
    let folder = Folder::new();
    write(&folder, "edge.yaml", YAML);
    let ran = import(&folder, &["edge.yaml", "--out", "made.toml"]);
    assert!(ran.status.success(), "{ran:?}");
    let said = text(&ran.stderr);
    assert!(said.contains("edge.yaml:29:22: `detailed_metric`"), "{said}");
    assert!(said.contains("\"nobody\", which no limit of the domain is called"), "{said}");
    let again = import(&folder, &["edge.yaml", "--out", "made.toml"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("it is there already"), "{again:?}");
    let check = Command::new(env!("CARGO_BIN_EXE_threshold"))
        .current_dir(folder.path())
        .args(["check", "made.toml", "--strict"])
        .output()
        .unwrap();
    assert!(check.status.success(), "{check:?}");
    let made = std::fs::read_to_string(folder.path().join("made.toml")).unwrap();
    assert_means_the_same(&Server::with(&made, &[], &[]));
}

#[test]
fn the_files_are_served_as_they_are_beside_a_policy() {
    let folder = Folder::new();
    write(&folder, "edge.yaml", YAML);
    let other = "domain: other\ndescriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: 1}}\n";
    write(&folder, "other.yml", other);
    let policy = "[[limit]]\nid = \"own\"\nlayer = \"endpoint\"\ndomain = \"own\"\ndescriptor = [\"a\"]\nrate = \"2/day\"\n";
    let server = Server::with(policy, &["--envoy-config", folder.path().to_str().unwrap()], &[]);
    assert_means_the_same(&server);
    let mut grpc = Grpc::new();
    let of = |domain: &str| {
        let mut call = edge(&["a=b"]);
        call["domain"] = json!(domain);
        vec![call; 5]
    };
    assert_eq!(admitted(&grpc.calls(&server, &of("other"))), 1);
    assert_eq!(admitted(&grpc.calls(&server, &of("own"))), 2);
}

#[test]
fn a_change_is_taken_over_whole_or_not_at_all() {
    let folder = Folder::new();
    let with = |count: u32| {
        format!(
            "domain: edge\ndescriptors:\n- {{key: a, rate_limit: {{unit: day, requests_per_unit: {count}}}}}\n"
        )
    };
    write(&folder, "edge.yaml", &with(100));
    let mut server = Server::with("", &["--envoy-config", folder.path().to_str().unwrap()], &[]);
    // Asked all the while.
    let mut asking = Grpc::new();
    let calls: Vec<Json> = vec![edge(&["a=busy"]); 3_000];
    asking.ask(&json!({ "do": "limit", "address": server.rls.to_string(), "calls": calls }));
    write(&folder, "edge.yaml", "domain: edge\ndescriptors:\n- {key: a, rate_limit: {unit: fortnight}}\n");
    server.hears("policy refused", 1);
    assert!(server.said().contains("edge.yaml:3:31"), "{}", server.said());
    write(&folder, "edge.yaml", &with(40));
    server.hears("policy reloaded", 1);
    let more = "domain: more\ndescriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: 1}}\n";
    write(&folder, "more.yaml", more);
    server.hears("policy reloaded", 2);
    let answers = asking.hear();
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 3_000);
    let busy = admitted(answers);
    assert!((40..=100).contains(&busy), "{busy}");
    // What was consumed stays consumed.
    let mut grpc = Grpc::new();
    assert_eq!(admitted(&grpc.calls(&server, &vec![edge(&["a=busy"]); 50])), 0);
    assert_eq!(admitted(&grpc.calls(&server, &vec![edge(&["a=fresh"]); 50])), 40);
}

#[test]
fn broken_files_are_refused_with_their_places() {
    let folder = Folder::new();
    let limited = |more: &str| format!("domain: d\ndescriptors:\n- key: a\n  {more}\n");
    for (yaml, said) in [
        ("", "bad.yaml:1:1: the file is empty"),
        ("domain: [", "bad.yaml:"),
        ("descriptors: []", "the domain is missing or empty"),
        (
            "domain: d\ndescriptor: []",
            "bad.yaml:2:1: there is no field \"descriptor\" here; did you mean `descriptors`?",
        ),
        ("domain: d\ndescriptors: x", "bad.yaml:2:14: `descriptors` is no list"),
        ("domain: d\ndescriptors:\n- value: x", "bad.yaml:3:3: this descriptor has no key"),
        ("domain: d\ndescriptors:\n- key: a\n- key: a", "bad.yaml:4:3: \"a\" stands here twice"),
        ("domain: d\n---\ndomain: e", "a second document begins here"),
        ("domain: d\ndomain: e", "bad.yaml:2:1: \"domain\" stands here twice"),
        (&limited("rate_limit: {unit: eon, requests_per_unit: 1}"), "bad.yaml:4:22: \"eon\" is no unit"),
        (&limited("rate_limit: {unit: day, requests_per_unit: -1}"), "\"-1\" is no number of requests"),
        (&limited("rate_limit: {unit: day, unlimited: true}"), "what is unlimited has no unit"),
        (&limited("share_threshold: true"), "`share_threshold` is for values with a `*`"),
        (&limited("shadow_mode: maybe"), "bad.yaml:4:16: \"maybe\" is neither true nor false"),
        (&limited("rate_limit: {unit: day, name: x, replaces: [{name: x}]}"), "cannot replace itself"),
        (&limited("rate_limit: {unit: day, replaces: [{name: ''}]}"), "nothing is named here"),
    ] {
        write(&folder, "bad.yaml", yaml);
        let ran = import(&folder, &["bad.yaml"]);
        let told = text(&ran.stderr);
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(1), 0), "{yaml}: {told}");
        assert!(told.contains(said), "{yaml}: {told}");
    }
    // Names for values are followed, and not without end.
    let mut bomb = String::from("domain: d\nx0: &x0 [a, a, a, a, a, a, a, a, a, a]\n");
    for level in 1..9 {
        let before = level - 1;
        bomb.push_str(&format!("x{level}: &x{level} [{}]\n", vec![format!("*x{before}"); 10].join(", ")));
    }
    write(&folder, "bad.yaml", &bomb);
    assert!(text(&import(&folder, &["bad.yaml"]).stderr).contains("values"), "a bomb");
    write(&folder, "bad.yaml", &format!("domain: d\ndescriptors: {}", "[".repeat(5_000)));
    assert_eq!(import(&folder, &["bad.yaml"]).status.code(), Some(1));
    write(&folder, "one.yaml", "domain: d\n");
    write(&folder, "two.yaml", "domain: d\n");
    assert!(text(&import(&folder, &["one.yaml", "two.yaml"]).stderr).contains("is in one.yaml as well"));
}

#[test]
fn what_others_wrote_stays_text() {
    let folder = Folder::new();
    let yaml = "domain: \"a \\\"b\\\" ${HOME}\"\ndescriptors:\n- key: \"k\\ney\"\n  value: '$${X} \\ \"q\"'\n  rate_limit: {unit: second, requests_per_unit: 1}\n- key: a=b\n  rate_limit: {unit: second, requests_per_unit: 1}\n";
    write(&folder, "odd.yaml", yaml);
    let ran = import(&folder, &["odd.yaml", "--out", "odd.toml", "--algorithm", "token-bucket"]);
    assert!(ran.status.success(), "{ran:?}");
    assert!(text(&ran.stderr).contains("is not carried over: a key has a `=` in it"), "{ran:?}");
    let made = std::fs::read_to_string(folder.path().join("odd.toml")).unwrap();
    assert!(made.contains("# Not carried over"), "{made}");
    let (server, mut grpc) = (Server::with(&made, &[], &[]), Grpc::new());
    let call = json!({
        "domain": "a \"b\" ${HOME}",
        "descriptors": [{ "entries": [{ "key": "k\ney", "value": "$${X} \\ \"q\"" }] }],
    });
    let answer = grpc.call(&server, &call);
    assert_eq!(answer["statuses"][0]["current_limit"]["unit"], "SECOND", "{answer}");
}
