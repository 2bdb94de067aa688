use crate::common::{Place, items};

const ADD: &str = "bans add --address 203.0.113.7 --for 1h --reason why";
const SECRET: &str = "a secret of some length";

#[test]
fn a_missing_ledger_is_made_by_add_alone() {
    let place = Place::new();
    for line in ["bans list", "bans lift --user alice", "lockouts list", "overrides list", "overrides lift a"]
    {
        let ran = place.run(line);
        let path = std::path::Path::new("threshold-data").join("ledger.sqlite");
        let what = format!("error: {}: there is no ledger; name another place with", path.display());
        assert!(ran.refused().starts_with(&what), "{}", ran.err);
        assert!(!place.at("threshold-data").exists());
    }
    let made = place.run(ADD);
    made.done();
    for what in ["making the folder ", "making the secret ", "making the ledger "] {
        assert!(made.err.contains(what), "{}", made.err);
    }
    assert_eq!(place.run("bans add --user alice --for 1h --reason why").err, "", "it is there now");
    let secret = std::fs::read_to_string(place.at("threshold-data/secret")).unwrap();
    assert!(secret.trim().len() == 64 && secret.trim().chars().all(|c| c.is_ascii_hexdigit()));
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_what_is_made() {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    place.run(ADD).done();
    let mode = |name: &str| std::fs::metadata(place.at(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("threshold-data"), 0o700);
    assert_eq!((mode("threshold-data/secret"), mode("threshold-data/ledger.sqlite")), (0o600, 0o600));
    assert_eq!(place.run("bans list").err, "");
    std::fs::set_permissions(place.at("threshold-data/secret"), Permissions::from_mode(0o644)).unwrap();
    let warned = place.run("bans list");
    warned.done();
    assert!(warned.err.starts_with("warning: ") && warned.err.contains("chmod 600"), "{}", warned.err);
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_policy() {
    let place = Place::new();
    place.write("policy.toml", "[server]\ndata_dir = \"of-policy\"\n");
    let variables = [("THRESHOLD_DATA_DIR", "of-environment")];
    place.run(&format!("{ADD} --config policy.toml")).done();
    assert!(place.at("of-policy/ledger.sqlite").exists());
    place.run_with(&format!("{ADD} --config policy.toml"), &variables).done();
    assert!(place.at("of-environment/ledger.sqlite").exists());
    place.run_with(&format!("{ADD} --config policy.toml --data-dir of-flag"), &variables).done();
    assert!(place.at("of-flag/ledger.sqlite").exists());
    assert!(!place.at("threshold-data").exists());

    place.write("ledger.toml", &format!("[store]\nledger = \"sqlite://one.db\"\nsecret = \"{SECRET}\"\n"));
    place.run(&format!("{ADD} --config ledger.toml --data-dir none")).done();
    assert!(place.at("one.db").exists());
    let variables = [("THRESHOLD_LEDGER", "sqlite://two.db")];
    place.run_with(&format!("{ADD} --config ledger.toml"), &variables).done();
    assert!(place.at("two.db").exists());
    place.run_with(&format!("{ADD} --config ledger.toml --ledger sqlite://three.db"), &variables).done();
    assert!(place.at("three.db").exists() && !place.at("none").exists());
}

#[test]
fn a_ledger_elsewhere_needs_a_secret() {
    let place = Place::new();
    let line = format!("{ADD} --ledger sqlite://ledger.db");
    let none = place.run(&line);
    for part in ["there is no secret", "set THRESHOLD_SECRET", "[store].secret", "--data-dir"] {
        assert!(none.refused().contains(part), "{}", none.err);
    }
    assert!(!place.at("ledger.db").exists() && !place.at("threshold-data").exists());
    place.run_with(&line, &[("THRESHOLD_SECRET", SECRET)]).done();
    place.write("policy.toml", &format!("[store]\nsecret = \"{SECRET}\"\n"));
    let list = "bans list --address 203.0.113.7 --ledger sqlite://ledger.db";
    let listed = place.json(&format!("{list} --config policy.toml"));
    assert_eq!(items(&listed).len(), 1, "the same secret, from a policy");
    let short = place.run_with(list, &[("THRESHOLD_SECRET", "short")]);
    assert!(short.refused().contains("use at least 16 characters"), "{}", short.err);
    let server = place.run("bans list --ledger postgres://localhost/threshold");
    assert!(server.refused().contains("there is no secret"), "{}", server.err);
    let unknown = place.run("bans list --ledger mysql://localhost/threshold");
    assert!(unknown.refused().contains("sqlite://PATH"), "{}", unknown.err);
}

#[test]
fn the_wrong_secret_is_told_with_a_remedy() {
    let place = Place::new();
    place.run(ADD).done();
    let wrong = place.run_with("bans list", &[("THRESHOLD_SECRET", SECRET)]);
    for part in [
        "was made with another secret; give the secret it was made with",
        "(opened with the secret in THRESHOLD_SECRET)",
    ] {
        assert!(wrong.refused().contains(part), "{}", wrong.err);
    }
    // Whatever the secret is, there is nobody to show it to.
    let nobody = place.run_with("bans list --ledger redis://127.0.0.1:1", &[("THRESHOLD_SECRET", SECRET)]);
    assert!(nobody.refused().contains("see that it runs and listens there"), "{}", nobody.err);
    assert!(!nobody.err.contains("opened with the secret"), "{}", nobody.err);
    std::fs::remove_file(place.at("threshold-data/secret")).unwrap();
    for line in ["bans list", ADD] {
        let lost = place.run(line);
        assert!(lost.refused().contains("give the one it was made with"), "{}", lost.err);
        assert!(!place.at("threshold-data/secret").exists(), "a new one would be the wrong one");
    }
}

#[test]
fn what_was_held_under_the_secret_before_is_found() {
    let place = Place::new();
    let before = "another secret of some length";
    place.run_with(ADD, &[("THRESHOLD_SECRET", before)]).done();
    let policy = format!("[store]\nsecret = \"{SECRET}\"\nprevious_secret = \"{before}\"\n");
    place.write("policy.toml", &policy);
    let listed = place.json("bans list --address 203.0.113.7 --config policy.toml");
    assert_eq!(items(&listed).len(), 1);
    place.run("bans lift --address 203.0.113.7 --config policy.toml").done();
    assert_eq!(items(&place.json("bans list --config policy.toml")).len(), 0);
}

#[test]
fn a_broken_policy_is_told_and_nothing_is_done() {
    let place = Place::new();
    place.write("policy.toml", "[identity]\nipv6_prefix = 200\n");
    let broken = place.run(&format!("{ADD} --config policy.toml"));
    assert!(broken.refused().starts_with("policy.toml:2:"), "{}", broken.err);
    let missing = place.run(&format!("{ADD} --config none.toml"));
    assert!(missing.refused().contains("none.toml: there is no such file"), "{}", missing.err);
    assert!(!place.at("threshold-data").exists());
}

#[test]
fn a_file_that_is_no_ledger_is_refused() {
    let place = Place::new();
    place.write("diary.txt", &"dear diary, ".repeat(1_000));
    let variables = [("THRESHOLD_SECRET", SECRET)];
    let ran = place.run_with("bans list --ledger sqlite://diary.txt", &variables);
    assert!(ran.refused().contains("is no SQLite database; give another path"), "{}", ran.err);
    let ran = place.run_with(&format!("{ADD} --ledger sqlite://no/such/folder/l.db"), &variables);
    assert!(ran.refused().contains("make its folder first"), "{}", ran.err);
    let ran = place.run(&format!("{ADD} --data-dir diary.txt"));
    assert!(ran.refused().starts_with("error: diary.txt"), "{}", ran.err);
}
