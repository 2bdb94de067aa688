//! Clients as people have them: redis-cli, redis-benchmark, redis-py and node-redis.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::common::serve;
use crate::support::server::Server;

const POLICY: &str = "[api]\nkeys = { app = \"a-key-of-the-application\" }\n\n\
                      [[limit]]\nid = \"uploads\"\nlayer = \"user\"\nrate = \"10/hour\"\n";

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out
}

fn cli(server: &Server, arguments: &[&str]) -> String {
    said(Command::new("redis-cli").args(["-p", &server.resp.port().to_string()]).args(arguments))
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn redis_cli() {
    let server = serve("");
    assert_eq!(cli(&server, &["PING"]), "PONG\n");
    assert_eq!(cli(&server, &["CL.THROTTLE", "user123", "15", "30", "60"]), "0\n16\n15\n-1\n2\n");
    assert_eq!(cli(&server, &["-3", "--json", "HELLO", "3"]).matches("\"proto\":3").count(), 1);
    let mut shell = Command::new("sh");
    let line = format!("printf 'PING\\nECHO \"a b\"\\n' | redis-cli -p {}", server.resp.port());
    assert_eq!(said(shell.args(["-c", &line])), "PONG\na b\n");
    let locked = serve(POLICY);
    assert!(cli(&locked, &["PING"]).starts_with("NOAUTH"));
    for arguments in
        [&["-a", "a-key-of-the-application"][..], &["--user", "app", "-a", "a-key-of-the-application"]]
    {
        assert_eq!(cli(&locked, &[arguments, &["--no-auth-warning", "PING"]].concat()), "PONG\n");
    }
}

#[test]
fn redis_benchmark() {
    let server = serve("");
    for pipeline in ["1", "16"] {
        let said = said(
            Command::new("redis-benchmark")
                .args([
                    "-p",
                    &server.resp.port().to_string(),
                    "-c",
                    "20",
                    "-n",
                    "20000",
                    "-r",
                    "1000",
                    "-P",
                    pipeline,
                ])
                .args(["--csv", "CL.THROTTLE", "key:__rand_int__", "100", "100", "1"]),
        );
        assert!(said.contains("CL.THROTTLE"), "{said}");
    }
}

#[test]
fn redis_py() {
    let server = serve(POLICY);
    let python = here("../../target/tools/redis-py/bin/python");
    assert!(python.exists(), "redis-py is missing: `cargo xtask test setup` installs it");
    let said =
        said(Command::new(python).arg(here("tests/resp/client.py")).arg(server.resp.port().to_string()));
    assert_eq!(said, "well\n");
}

#[test]
fn node_redis() {
    let server = serve(POLICY);
    let module = here("../../target/tools/node-redis/node_modules/redis");
    assert!(module.exists(), "node-redis is missing: `cargo xtask test setup` installs it");
    let said = said(
        Command::new("node")
            .arg(here("tests/resp/client.cjs"))
            .arg(module)
            .arg(server.resp.port().to_string()),
    );
    assert_eq!(said, "well\n");
}
