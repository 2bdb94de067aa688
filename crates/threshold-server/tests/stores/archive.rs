//! Where the archive is: a flag beats the environment, which beats the policy.

use std::path::Path;

use serde_json::Value;

use super::{HUNDRED, SECRET, out, threshold};
use crate::support::client::Client;
use crate::support::server::Server;

/// How many requests the archive in `folder` of the server's folder has.
fn archived(server: &Server, arguments: &[&str]) -> Option<u64> {
    let ran = threshold(&server.folder, &[&["analytics", "rates", "--json"], arguments].concat());
    if !ran.status.success() {
        assert!(out(&ran).contains("there is no archive"), "{}", out(&ran));
        return None;
    }
    let rows: Value = serde_json::from_slice(&ran.stdout).unwrap();
    Some(rows.as_array().unwrap().iter().map(|row| row["total_requests"].as_u64().unwrap()).sum())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_archive_is_where_flag_environment_or_policy_say() {
    let policy = format!("{HUNDRED}\n[archive]\nfolder = \"of-policy\"\n");
    for (flag, variable, wanted) in [
        (None, None, "of-policy"),
        (None, Some("of-environment"), "of-environment"),
        (Some("of-flag"), Some("of-environment"), "of-flag"),
    ] {
        let flags = flag.map(|folder| ["--archive", folder]);
        let mut environment = vec![("THRESHOLD_SECRET", SECRET)];
        environment.extend(variable.map(|folder| ("THRESHOLD_ARCHIVE", folder)));
        let mut server = Server::with(&policy, flags.as_ref().map_or(&[], |flags| &flags[..]), &environment);
        assert!(server.said().contains(&format!("archive  {wanted}")), "{}", server.said());
        for _ in 0..3 {
            Client::new(server.gateway).get("/").await;
        }
        server.signal("TERM");
        assert!(server.ends().success(), "{}", server.said());
        assert_eq!(archived(&server, &["--archive", wanted]), Some(3));
        let of_policy = (wanted == "of-policy").then_some(3);
        assert_eq!(archived(&server, &["--config", "policy.toml"]), of_policy);
    }
}

#[test]
fn without_an_archive_nothing_is_written() {
    let server = Server::with(HUNDRED, &[], &[("THRESHOLD_SECRET", SECRET)]);
    assert!(!server.said().contains("archive"), "{}", server.said());
    assert!(!Path::new(server.folder.path()).join("analytics").exists());
}
