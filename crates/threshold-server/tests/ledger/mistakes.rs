use crate::common::Place;

#[test]
fn what_is_not_understood_is_told_with_a_remedy() {
    let place = Place::new();
    let long = "a".repeat(257);
    let account = "account:0123456789abcdef0123456789abcdef";
    let add = "bans add --address 203.0.113.7";
    for (line, remedy) in [
        (format!("{add} --for 24h"), "--reason <TEXT>"),
        (format!("{add} --reason why"), "--for <SPAN>"),
        ("bans add --for 1h --reason why".to_owned(), "--address <IP>|--user"),
        ("bans add --address 203.0.113 --for 1h --reason why".to_owned(), "write one such as 203.0.113.7"),
        ("bans add --address 10.0.0.0/8 --for 1h --reason why".to_owned(), "write one such as 203.0.113.7"),
        (format!("{add} --for soon --reason why"), "write one such as 30s"),
        (format!("{add} --for 500ms --reason why"), "write at least 1s"),
        (format!("{add} --for 0s --reason why"), "it is longer than nothing"),
        (format!("{add} --for=-1s --reason why"), "it is longer than nothing"),
        (format!("{add} --for 4000d --reason why"), "not longer than 366d"),
        (format!("{add} --for 367d --reason why"), "longer than 366d"),
        (format!("{add} --for 1h --reason _"), "the reason is empty; say why"),
        (format!("{add} --for 1h --reason why --kind jail"), "[possible values: ban, shadow, cooldown]"),
        (format!("{add} --for 1h --reason why --user alice"), "cannot be used with"),
        (format!("{add} --for 1h --reason why --forever"), "unexpected argument '--forever'"),
        (format!("{add} --for 1h --reason why --by a\u{1b}b"), "leave them out"),
        (format!("bans add --user {long} --for 1h --reason why"), "write a shorter one"),
        ("bans add --user acme/ --for 1h --reason why".to_owned(), "a name is empty"),
        (format!("bans add --subject {account} --for 1h --reason why"), "begins with address: or user:"),
        ("bans add --subject alice --for 1h --reason why".to_owned(), "write one as it is listed"),
        ("lockouts lift".to_owned(), "--account <NAME>|--subject <ID>"),
        (format!("lockouts lift --account {long}"), "write a shorter one"),
        ("lockouts lift --subject user:0123456789abcdef0123456789abcdef".to_owned(), "account: or source:"),
        ("overrides add a --limit api --rate fast".to_owned(), "write a rate such as"),
        ("overrides add a --limit a_b --rate 5/min".to_owned(), "such as \"login\""),
        ("overrides add a --limit api --rate 5/min --for 400d".to_owned(), "longer than 366d"),
        ("overrides lift".to_owned(), "<ID>"),
        ("bans".to_owned(), "Usage: threshold bans"),
    ] {
        let ran = place.run(&line);
        assert!(ran.refused().contains(remedy), "{line}: {}", ran.err);
    }
    assert!(!place.at("threshold-data").exists(), "nothing is made for what is not understood");
}

#[test]
fn the_operator_is_named_by_the_environment() {
    let place = Place::new();
    let add = |kind: &str, variables: &[(&str, &str)]| {
        let line = format!("bans add --address 203.0.113.7 --for 1h --reason why --kind {kind}");
        place.run_with(&line, variables)
    };
    add("ban", &[("THRESHOLD_OPERATOR", "carol"), ("USER", "root")]).done();
    add("shadow", &[("THRESHOLD_OPERATOR", ""), ("USER", "dave"), ("LOGNAME", "eve")]).done();
    add("cooldown", &[]).done();
    let listed = place.json("bans list");
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().filter_map(|one| one["operator"].as_str()).collect();
    assert_eq!(names, ["carol", "dave", "cli"]);
    let hostile = add("ban", &[("THRESHOLD_OPERATOR", "a\u{1b}b")]);
    assert!(hostile.refused().contains("THRESHOLD_OPERATOR: "), "{}", hostile.err);
    assert!(hostile.err.contains("or say --by NAME"), "{}", hostile.err);
}

#[test]
fn every_help_has_examples_and_exit_codes() {
    let place = Place::new();
    for (command, actions) in [
        ("bans", &["list", "add", "lift"][..]),
        ("lockouts", &["list", "lift"]),
        ("overrides", &["list", "add", "lift"]),
    ] {
        let top = place.run("--help");
        assert!(top.done().contains(&format!("threshold {command} list")), "{}", top.out);
        for action in actions {
            let help = place.run(&format!("{command} {action} --help"));
            let example = format!("\n  threshold {command} {action}");
            for part in
                ["Exit codes:", "JSON document", "Examples:", "--data-dir", "THRESHOLD_SECRET", &example]
            {
                assert!(help.done().contains(part), "{command} {action}: {part}");
            }
        }
    }
}
