use crate::common::{Place, items};

#[test]
fn an_override_is_added_listed_and_removed() {
    let place = Place::new();
    let added = place.run("overrides add launch --limit api --rate 500/min --for 7d --by bob");
    assert!(added.done().starts_with("set override launch: api at 500/min for everyone, until 20"));
    assert!(added.out.ends_with("Z (in 7d)\n"), "{}", added.out);
    assert!(added.err.contains("note: not checked against a policy; "), "{}", added.err);
    let listed = place.run("overrides list");
    let lines: Vec<&str> = listed.done().lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(
        lines[0].starts_with("ID      LIMIT  RATE     ALLOWANCE  FOR       PRIORITY  STATE  UNTIL"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("launch  api    500/min  0          everyone  0         on     20"),
        "{lines:?}"
    );
    assert_eq!(place.run("overrides lift launch").done(), "removed override launch");
    assert_eq!(place.run("overrides list").done(), "No limit has another rate than its policy says.");
    let again = place.run("overrides remove launch");
    assert!(again.unchanged().starts_with("nothing to lift for override launch"), "{}", again.out);
}

#[test]
fn documents_say_the_same() {
    let place = Place::new();
    let line = "overrides add import --limit uploads --rate 50MB/day_burst_10MB --tenant acme --allowance 7 \
                --priority -3 --off";
    let added = place.json(line);
    let listed = place.json("overrides list");
    assert_eq!((&added["changed"], &added["override"]), (&true.into(), &listed[0]));
    let expected = serde_json::json!({
        "id": "import", "limit": "uploads", "rate": "50MB/day burst 10MB", "allowance": 7, "priority": -3,
        "subject": place.subjects().tenant("acme").to_string(),
        "enabled": false, "expires": null, "inForce": false,
    });
    assert_eq!(listed[0], expected);
    let removed = place.json("overrides remove import");
    assert_eq!(removed, serde_json::json!({ "changed": true, "id": "import" }));
    assert_eq!(items(&place.json("overrides list --all")).len(), 0);
}

#[test]
fn an_override_of_the_same_id_is_changed() {
    let place = Place::new();
    place.run("overrides add launch --limit api --rate 500/min --off").done();
    place.run("overrides add launch --limit api --rate 600/min").done();
    let listed = place.json("overrides list");
    assert_eq!((items(&listed).len(), &listed[0]["rate"]), (1, &"600/min".into()));
    assert_eq!((&listed[0]["enabled"], &listed[0]["inForce"]), (&true.into(), &true.into()));
}

#[test]
fn subjects_are_named_as_the_server_names_them() {
    let place = Place::new();
    place.run("bans add --address 203.0.113.7 --for 1h --reason first").done();
    let subjects = place.subjects();
    for (option, subject) in [
        ("--address 203.0.113.7", subjects.address("203.0.113.7".parse().unwrap())),
        ("--user acme/alice", subjects.user(Some("acme"), "alice")),
        ("--tenant acme", subjects.tenant("acme")),
        ("--account Alice", subjects.account("alice")),
        (&format!("--subject {}", subjects.named_user(None, "bob")), subjects.named_user(None, "bob")),
    ] {
        let added = place.json(&format!("overrides add one --limit api --rate 5/min {option}"));
        assert_eq!(added["override"]["subject"], subject.to_string(), "{option}");
    }
}

#[test]
fn a_policy_says_whether_it_suits() {
    let place = Place::new();
    place.write(
        "policy.toml",
        "[[limit]]\nid = \"api\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"100/min\"\n",
    );
    let unknown = place.run("overrides add a --limit nope --rate 5/min --config policy.toml");
    let what = "error: there is no limit \"nope\"; `threshold check` lists them\n";
    assert!(unknown.refused().ends_with(what), "{}", unknown.err);
    let subject = place.run("overrides add a --limit api --rate 5/min --tenant acme --config policy.toml");
    assert!(subject.refused().contains("leave the subject out for everyone"), "{}", subject.err);
    assert_eq!(items(&place.json("overrides list")).len(), 0);
    place.write(
        "leased.toml",
        "[[limit]]\nid = \"api\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"100/min\"\nconsistency = \"leased\"\n",
    );
    let small = place.run("overrides add a --limit api --rate 1/min --config leased.toml");
    let what = "1/min is too small to be sliced for 1 nodes; raise the rate or its burst";
    assert!(small.refused().contains(what), "{}", small.err);
    assert_eq!(items(&place.json("overrides list")).len(), 0);
    let good = place.run("overrides add a --limit api --rate 5/min --config policy.toml");
    good.done();
    assert_eq!(good.err, "");
    assert_eq!(items(&place.json("overrides list")).len(), 1);
}
