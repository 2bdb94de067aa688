//! Who may ask.

use super::common::{Reply, Wire, command, ok};
use crate::support::server::Server;

const POLICY: &str =
    "[api]\nkeys = { one = \"first-secret-key-of-16\", two = \"second-secret-key-of-16\" }\n";
const ONE: &str = "first-secret-key-of-16";
const TWO: &str = "second-secret-key-of-16";

#[test]
fn whoever_has_no_key_is_told_before_the_command_is_looked_at() {
    let server = Server::with(POLICY, &[], &[]);
    let mut wire = Wire::to(server.resp);
    for line in ["PING", "CL.THROTTLE k 1 1 1", "CL.THROTTLE", "NOTHING", "INFO", "CLIENT ID", "COMMAND"] {
        assert!(wire.ask(line).error().starts_with("NOAUTH "), "{line}");
    }
    assert!(wire.ask("HELLO 3").error().starts_with("NOAUTH "));
    for line in [
        "AUTH nothing".to_owned(),
        format!("AUTH two {ONE}"),
        format!("AUTH {ONE}x"),
        format!("AUTH three {ONE}"),
    ] {
        assert!(wire.ask(&line).error().starts_with("WRONGPASS "), "{line}");
        assert!(wire.ask("PING").error().starts_with("NOAUTH "), "{line}");
    }
    assert!(wire.ask("AUTH a b c").error().contains("write AUTH [name] key"));
    assert_eq!(wire.ask(&format!("AUTH {ONE}")), ok());
    assert_eq!(wire.ask("PING").text(), "PONG");
    // Who shows a wrong one stays who it was; a new beginning takes all back.
    assert!(wire.ask("AUTH nothing").error().starts_with("WRONGPASS "));
    assert_eq!(wire.ask("PING").text(), "PONG");
    assert_eq!(wire.ask(&format!("AUTH two {TWO}")), ok());
    assert_eq!(wire.ask("PING").text(), "PONG");
    assert_eq!(wire.ask("RESET").text(), "RESET");
    assert!(wire.ask("PING").error().starts_with("NOAUTH "));
    // A greeting counts as a whole or not at all.
    assert!(wire.ask(&format!("HELLO 3 AUTH default {ONE} WHAT")).error().contains("Syntax error"));
    assert!(wire.ask("PING").error().starts_with("NOAUTH "));
    assert!(matches!(wire.ask(&format!("HELLO 3 AUTH default {ONE} SETNAME a")), Reply::Map(_)));
    assert_eq!(wire.ask("CLIENT GETNAME").text(), "a");
    // Strangers send little.
    let mut stranger = Wire::to(server.resp);
    stranger.send(command(&["ECHO", &"x".repeat(5_000)]));
    assert!(stranger.reply().error().contains("invalid bulk length"));
    stranger.ends();
    assert_eq!(wire.ask(&format!("ECHO {}", "x".repeat(5_000))).text().len(), 5_000);
    assert_eq!(wire.ask("QUIT"), ok());
}

#[test]
fn a_key_that_is_taken_back_is_none_on_open_connections_either() {
    let mut server = Server::with(POLICY, &[], &[]);
    let [mut one, mut two] = [ONE, TWO].map(|key| {
        let mut wire = Wire::to(server.resp);
        assert_eq!(wire.ask(&format!("AUTH {key}")), ok());
        wire
    });
    server.write_policy(&format!("[api]\nkeys = {{ two = \"{TWO}\" }}\n"));
    server.hang_up();
    server.hears("policy reloaded", 1);
    assert!(one.ask("PING").error().starts_with("NOAUTH "));
    assert_eq!(two.ask("PING").text(), "PONG");
}

#[test]
fn a_policy_without_keys_opens_nothing_to_other_machines() {
    let mut server = Server::with(POLICY, &["--resp", "0.0.0.0:0", "--rls", "0.0.0.0:0"], &[]);
    server.resp.set_ip([127, 0, 0, 1].into());
    let mut wire = Wire::to(server.resp);
    assert!(wire.ask("PING").error().starts_with("NOAUTH "));
    server.write_policy("");
    server.hang_up();
    server.hears("policy refused", 1);
    assert!(server.said().contains("beyond this machine it needs keys"), "{}", server.said());
    assert!(wire.ask("PING").error().starts_with("NOAUTH "));
    server.write_policy("[server]\ninsecure = true\n");
    server.hang_up();
    server.hears("policy reloaded", 1);
    assert_eq!(wire.ask("PING").text(), "PONG");
}
