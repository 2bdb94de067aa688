//! `threshold export`, as it is typed. What it writes is compared with a file that `terraform fmt` found nothing to change
//! in, and read by somebody else's reader of Terraform's language.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use threshold_testkit::folder::Folder;

const GROVE: &str = "examples/grove/policy.toml";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs `threshold export cloudflare` at the root of the repository, with an empty environment.
fn export(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threshold"));
    command.args(["export", "cloudflare"]).args(arguments).current_dir(root()).env_clear();
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A policy in a folder of its own.
fn policy(text: &str) -> (Folder, String) {
    let folder = Folder::new();
    let file = folder.path().join("policy.toml");
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (folder, file)
}

/// What python-hcl2 reads: every text is still between its quotes, with its escapes.
fn read(terraform: &str) -> Value {
    let folder = Folder::new();
    let file = folder.path().join("edge.tf");
    std::fs::write(&file, terraform).unwrap();
    let reader = root().join("target/tools/hcl/bin/hcl2tojson");
    let ran = Command::new(&reader).arg(&file).output();
    let ran = ran.unwrap_or_else(|error| panic!("hcl2tojson: {error}; `cargo xtask test setup` installs it"));
    assert!(ran.status.success(), "{}\n{terraform}", text(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

fn rules(document: &Value) -> &Vec<Value> {
    document["resource"][0]["\"cloudflare_ruleset\""]["\"threshold_edge\""]["rules"].as_array().unwrap()
}

/// The text of a literal: its escapes are those of JSON, but for templates.
fn plain(literal: &Value) -> String {
    let text: String = serde_json::from_str(literal.as_str().unwrap()).unwrap();
    text.replace("$${", "${").replace("%%{", "%{")
}

#[test]
fn a_full_disk_is_told() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threshold"));
    command.args(["export", "cloudflare", "--config", GROVE]).current_dir(root()).env_clear();
    let ran = command.stdout(std::fs::File::create("/dev/full").unwrap()).output().unwrap();
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(text(&ran.stderr).contains("the output could not be written"), "{ran:?}");
}

#[test]
fn the_edge_of_grove_is_four_rules() {
    let ran = export(&["--config", GROVE]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert_eq!(text(&ran.stdout), include_str!("export/grove.tf"));
    let document = read(text(&ran.stdout));
    let shield = "lower(http.request.uri.path)";
    let below = |path: &str| format!("{shield} eq \"{path}\" or starts_with({shield}, \"{path}/\")");
    let expected = [
        ("edge-requests", (60, 1000, 60), "rate_limited", "true".to_owned()),
        (
            "edge-auth",
            (300, 50, 300),
            "auth_rate_limited",
            format!("lower(http.host) eq \"auth.grove.place\" and ({})", below("/oauth")),
        ),
        (
            "edge-uploads",
            (3600, 100, 3600),
            "upload_rate_limited",
            format!("{} or {}", below("/api/upload"), below("/api/images")),
        ),
        // 500 a day: Cloudflare counts over 65,535 seconds at most.
        (
            "edge-ai",
            (65_535, 379, 3600),
            "ai_rate_limited",
            format!("{} or {}", below("/api/ai"), below("/api/wisp")),
        ),
    ];
    assert_eq!(rules(&document).len(), expected.len());
    for (rule, (id, numbers, error, expression)) in rules(&document).iter().zip(expected) {
        assert_eq!(plain(&rule["ref"]), id);
        assert_eq!(plain(&rule["expression"]), expression);
        assert_eq!((plain(&rule["action"]), &rule["enabled"]), ("block".to_owned(), &Value::Bool(true)));
        let counted = &rule["ratelimit"];
        let number = |name: &str| counted[name].as_u64().unwrap();
        assert_eq!((number("period"), number("requests_per_period"), number("mitigation_timeout")), numbers);
        let characteristics: Vec<String> =
            counted["characteristics"].as_array().unwrap().iter().map(plain).collect();
        assert_eq!(characteristics, ["cf.colo.id", "ip.src"]);
        let response = &rule["action_parameters"]["response"];
        assert_eq!(response["status_code"], 429);
        assert_eq!(plain(&response["content_type"]), "application/json");
        let body: Value = serde_json::from_str(&plain(&response["content"])).unwrap();
        assert_eq!((&body["error"], &body["status"]), (&Value::from(error), &Value::from(429)));
        assert_eq!(body["retryAfter"], numbers.2);
    }
}

#[test]
fn whatever_differs_is_told_on_the_standard_error_and_in_the_file() {
    let (_folder, file) = policy(
        "[[limit]]\nid = \"all\"\nlayer = \"edge\"\nper = \"everyone\"\nrate = \"9/min\"\n\
         [[limit]]\nid = \"burst\"\nlayer = \"edge\"\nrate = \"100/min burst 10\"\nenforce = \"observe\"\n",
    );
    let ran = export(&["--config", &file]);
    assert_eq!(ran.status.code(), Some(0));
    let (out, told) = (text(&ran.stdout).replace("\n      #  ", ""), text(&ran.stderr));
    for part in
        ["it counts everyone together", "the burst of 10 is not kept", "the rule logs", "no `block_for`"]
    {
        assert!(out.contains(part) && told.contains(part), "{part}:\n{out}\n{told}");
    }
    assert!(told.starts_with("warning: all is left out: "), "{told}");
    let document = read(text(&ran.stdout));
    assert_eq!(rules(&document).len(), 1);
    assert_eq!(plain(&rules(&document)[0]["action"]), "log");
    assert!(rules(&document)[0].get("action_parameters").is_none(), "only blocks have an answer");
    assert_eq!(export(&["--config", &file, "--strict"]).status.code(), Some(3));
    assert_eq!(export(&["--config", GROVE, "--strict"]).status.code(), Some(0));
}

#[test]
fn hostile_texts_stay_texts() {
    let hostile = "a\"\n}\n${file(\"/etc/passwd\")} %{ if true } \\ # é \u{1b}[2J";
    let id = "${x}#%{y}'*/";
    // In a policy, `${` stands for the environment unless its first character stands twice.
    let written = |text: &str| Value::from(text.replace("${", "$${"));
    let (_folder, file) = policy(&format!(
        "[[limit]]\nid = {}\nlayer = \"edge\"\nrate = \"9 per 7s\"\ndescription = {1}\nerror = {1}\n",
        written(id),
        written(hostile)
    ));
    let ran = export(&["--config", &file]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(!text(&ran.stdout).contains('\u{1b}') && !text(&ran.stderr).contains('\u{1b}'));
    let document = read(text(&ran.stdout));
    assert_eq!(document.as_object().unwrap().len(), 3, "nothing but terraform, a variable and a ruleset");
    let [rule] = &rules(&document)[..] else { panic!("{document:#}") };
    assert_eq!(plain(&rule["ref"]), id);
    assert!(plain(&rule["description"]).ends_with(hostile));
    let body: Value =
        serde_json::from_str(&plain(&rule["action_parameters"]["response"]["content"])).unwrap();
    assert_eq!(body["error"], hostile);
}

#[test]
fn the_zone_is_a_variable_an_id_or_a_reference() {
    let id = "0123456789abcdef0123456789abcdef";
    let line = |zone: &str| text(&export(&["--config", GROVE, "--zone-id", zone]).stdout).to_owned();
    assert!(line(id).contains(&format!("  zone_id     = \"{id}\"\n")));
    let referred = line("var.zone");
    assert!(referred.contains("  zone_id     = var.zone\n"));
    assert!(!referred.contains("variable") && !referred.contains("required_providers"), "others have them");
    let wrong = export(&["--config", GROVE, "--zone-id", "x\"}"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("write its id of 32 hexadecimal digits"), "{}", text(&wrong.stderr));
}

#[test]
fn a_file_is_written_once_and_never_over_another() {
    let folder = Folder::new();
    let out = folder.path().join("edge.tf");
    let out = out.to_str().unwrap();
    let ran = export(&["--config", GROVE, "--out", out]);
    assert_eq!(ran.status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(out).unwrap(), include_str!("export/grove.tf"));
    assert_eq!(text(&ran.stdout), format!("{out} is written. Next: terraform plan\n"));
    std::fs::write(out, "mine").unwrap();
    let again = export(&["--config", GROVE, "--out", out]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).ends_with("it is there already; remove it, or name another file\n"));
    assert_eq!(std::fs::read_to_string(out).unwrap(), "mine");
}

#[test]
fn json_says_the_same() {
    let ran = export(&["--config", GROVE, "--json"]);
    let document: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(document["plan"], "Enterprise");
    assert_eq!(document["rules"].as_array().unwrap().len(), 4);
    assert_eq!(document["rules"][1]["requests"], 50);
    assert_eq!(document["left_out"], Value::Array(Vec::new()));
    assert!(document["remarks"].as_array().unwrap().len() >= 5);
}

#[test]
fn what_cannot_be_exported_ends_with_its_own_code() {
    let (_folder, empty) = policy("[[limit]]\nid = \"a\"\nlayer = \"user\"\nrate = \"9/min\"\n");
    let (_other, broken) = policy("[[limit]]\nid = \"a\"\n");
    for (file, code, part) in [
        (empty.as_str(), 1, "no limit of the edge can be exported"),
        (broken.as_str(), 1, "nothing of it is used"),
        ("no/such/policy.toml", 2, "there is no such file"),
    ] {
        let ran = export(&["--config", file]);
        assert_eq!(ran.status.code(), Some(code), "{file}");
        assert!(text(&ran.stderr).contains(part), "{}", text(&ran.stderr));
        assert_eq!(text(&ran.stdout), "");
    }
    assert_eq!(export(&[]).status.code(), Some(2));
    let help = export(&["--help"]);
    for part in ["Exit codes:", "Examples:", "--strict", "\"left_out\""] {
        assert!(text(&help.stdout).contains(part), "{part}");
    }
}
