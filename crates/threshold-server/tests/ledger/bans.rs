use threshold::ledger::{Change, Entry, Ledger as _, SanctionKind, Strike};
use threshold::standing::{Ladder, Looks, Rung, Violation};
use threshold::{Clock as _, Span, SystemClock};

use crate::common::{Place, items};

#[test]
fn a_ban_is_added_listed_and_lifted() {
    let place = Place::new();
    let added = place.run("bans add --address 203.0.113.7 --for 24h --reason scraping --by bob");
    let subject = place.subjects().address("203.0.113.7".parse().unwrap()).to_string();
    assert!(added.done().starts_with(&format!("banned {subject} until 20")), "{}", added.out);
    let listed = place.run("bans list");
    let lines: Vec<&str> = listed.done().lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for heading in ["SUBJECT", "KIND", "UNTIL", "BY", "REASON"] {
        let column = lines[0].find(heading).unwrap();
        assert!(lines[1].as_bytes()[column] != b' ', "{heading} stands above its column: {lines:?}");
    }
    for part in [subject.as_str(), " ban ", "Z (in ", " bob ", " scraping"] {
        assert!(lines[1].contains(part), "{part} is missing in {}", lines[1]);
    }
    let lifted = place.run("bans lift --address 203.0.113.7 --by carol");
    assert_eq!(lifted.done(), format!("lifted the ban of {subject}"));
    assert_eq!(place.run("bans list").done(), "Nobody is kept out.");
    assert!(place.run("bans list --all").done().contains("(lifted by carol)"));
    assert_eq!(
        place.run("bans lift --address 203.0.113.7").unchanged(),
        format!("nothing to lift for {subject}")
    );
}

#[test]
fn documents_say_the_same() {
    let place = Place::new();
    let added = place.json("bans add --user acme/alice --for 7_days --reason shared --kind shadow --by bob");
    assert_eq!(added["changed"], true);
    let listed = place.json("bans list");
    assert_eq!(listed, added["sanctions"]);
    let one = &listed[0];
    let subject = place.subjects().user(Some("acme"), "alice").to_string();
    assert_eq!((&one["subject"], &one["kind"]), (&subject.into(), &"shadow".into()));
    assert_eq!((&one["imposedBy"], &one["operator"]), (&"operator".into(), &"bob".into()));
    assert_eq!((&one["reason"], &one["inForce"]), (&"shared".into(), &true.into()));
    assert!(one["limit"].is_null() && one["strikes"].is_null() && one["liftedAt"].is_null());
    let lifted = place.json("bans lift --user acme/alice --by carol");
    assert_eq!(lifted["sanctions"][0]["liftedBy"], "carol");
    assert_eq!(items(&place.json("bans list")).len(), 0);
    assert_eq!(place.json("bans list --all"), lifted["sanctions"]);
    let again = place.run("bans lift --user acme/alice --json");
    assert_eq!(again.code, 1);
    assert!(again.out.contains("\"changed\": false"), "{}", again.out);
}

#[test]
fn a_ban_is_extended_and_never_shortened() {
    let place = Place::new();
    let first = place.json("bans add --address 203.0.113.7 --for 24h --reason one");
    let shorter = place.run("bans add --address 203.0.113.7 --for 1h --reason two");
    assert!(shorter.unchanged().starts_with("nothing changed: address:"), "{}", shorter.out);
    assert!(shorter.out.contains("lift it first"), "{}", shorter.out);
    assert_eq!(place.json("bans list"), first["sanctions"]);
    let longer = place.run("bans add --address 203.0.113.7 --for 2d --reason three");
    assert!(longer.done().starts_with("extended the ban of address:"), "{}", longer.out);
    let listed = place.json("bans list");
    assert_eq!((items(&listed).len(), &listed[0]["reason"]), (1, &"three".into()));
    assert_eq!(listed[0]["from"], first["sanctions"][0]["from"]);
}

#[test]
fn kinds_are_apart() {
    let place = Place::new();
    for kind in ["ban", "shadow", "cooldown"] {
        let line = format!("bans add --address 203.0.113.7 --for 1h --reason why --kind {kind}");
        assert_eq!(place.run(&line).code, 0);
    }
    assert_eq!(items(&place.json("bans list")).len(), 3);
    let shadows = place.json("bans list --kind shadow");
    assert_eq!((items(&shadows).len(), &shadows[0]["kind"]), (1, &"shadow".into()));
    assert!(place.run("bans lift --address 203.0.113.7 --kind ban").done().starts_with("lifted the ban of "));
    assert_eq!(items(&place.json("bans list")).len(), 2);
    let rest = place.run("bans lift --address 203.0.113.7");
    assert!(rest.done().starts_with("lifted the shadow and the cooldown of "), "{}", rest.out);
}

#[test]
fn a_name_and_its_subject_are_the_same() {
    let place = Place::new();
    place.run("bans add --address 203.0.113.7 --for 1h --reason why").done();
    place.run("bans add --user /a/b --for 1h --reason why").done();
    let subjects = [
        place.subjects().address("203.0.113.7".parse().unwrap()).to_string(),
        place.subjects().user(None, "a/b").to_string(),
    ];
    for (name, subject) in ["--address 203.0.113.7", "--user /a/b"].iter().zip(&subjects) {
        let by_name = place.json(&format!("bans list {name}"));
        assert_eq!(items(&by_name).len(), 1);
        assert_eq!(by_name, place.json(&format!("bans list --subject {subject}")));
        assert_eq!(by_name[0]["subject"], subject.as_str());
        place.run(&format!("bans lift --subject {subject}")).done();
    }
    assert_eq!(items(&place.json("bans list")).len(), 0);
}

#[test]
fn networks_have_as_many_bits_as_the_policy_says() {
    let place = Place::new();
    place.write("policy.toml", "[identity]\nipv6_prefix = 56\n");
    place.run("bans add --address 2001:db8::1 --for 1h --reason why").done();
    let count = |line: &str| items(&place.json(&format!("bans list {line}"))).len();
    assert_eq!(count("--address 2001:db8::ffff"), 1, "the same 64 bits");
    assert_eq!(count("--address 2001:db8:0:1::1"), 0);
    assert_eq!(count("--address 2001:db8::1 --config policy.toml"), 0, "another network");
    place.run("bans add --address 2001:db8::1 --for 1h --reason why --config policy.toml").done();
    assert_eq!(count("--address 2001:db8:0:ff::1 --config policy.toml"), 1, "the same 56 bits");
    assert_eq!(count("--address ::ffff:203.0.113.7"), 0);
    place.run("bans add --address ::ffff:203.0.113.7 --for 1h --reason why").done();
    assert_eq!(count("--address 203.0.113.7"), 1, "one address in two spellings");
}

#[test]
fn hostile_text_does_not_reach_the_terminal() {
    let place = Place::new();
    let hostile = "gone\u{1b}[2J\u{1b}]0;title\u{7}\r\n\u{9b}31m\u{202e}end";
    let words = ["bans", "add", "--address", "203.0.113.7", "--for", "1h", "--reason", hostile];
    assert_eq!(place.run_words(&words, &[]).code, 0);
    let table = place.run("bans list");
    assert_eq!(table.done().lines().count(), 2);
    assert!(table.out.contains("gone\u{fffd}[2J"), "{}", table.out);
    for ran in [table, place.run("bans list --json")] {
        assert!(ran.out.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{:?}", ran.out);
    }
    assert_eq!(place.json("bans list")[0]["reason"], hostile, "a document keeps what was written");
}

#[tokio::test]
async fn more_than_a_page_is_read_to_its_end() {
    let place = Place::new();
    place.run("bans add --address 203.0.113.7 --for 1h --reason first").done();
    let (ledger, subjects, at) = (place.open(), place.subjects(), SystemClock::new().now());
    let ban = |number: u32| Entry::Operator {
        by: "bob".to_owned(),
        at,
        change: Change::Impose {
            subject: subjects.user(None, &number.to_string()),
            kind: SanctionKind::Ban,
            until: at.plus(Span::HOUR),
            reason: "many".to_owned(),
        },
    };
    ledger.write(&(0..2_500).map(ban).collect::<Vec<_>>()).await.unwrap();
    ledger.close().await.unwrap();
    assert_eq!(items(&place.json("bans list")).len(), 2_501);
    assert_eq!(place.run("bans list").done().lines().count(), 2_502);
}

#[tokio::test]
async fn the_ladder_is_named_and_its_strikes_are_forgotten() {
    let place = Place::new();
    place.run("bans add --address 203.0.113.7 --for 1h --reason first").done();
    let (ledger, subject) = (place.open(), place.subjects().user(None, "alice"));
    let rung = Rung { strikes: 1, cooldown: Some(Span::HOUR), ..Rung::default() };
    let ladder = Ladder::new(vec![rung], 0, Span::DAY).unwrap();
    let evidence = threshold::ledger::Evidence {
        kind: Violation::RateExceeded,
        count: 11,
        allowed: 10,
        looks: Looks::default(),
        fingerprint: None,
        user_agent: None,
        details: String::new(),
    };
    let strike = Strike {
        before: None,
        subject,
        limit: "login".to_owned(),
        window: Span::MINUTE,
        at: SystemClock::new().now(),
        evidence,
        ladder: Some(ladder.into()),
        reputation: None,
    };
    ledger.write(&[Entry::Strike(strike)]).await.unwrap();
    ledger.close().await.unwrap();
    let listed = place.json("bans list --user alice");
    assert_eq!((&listed[0]["imposedBy"], &listed[0]["operator"]), (&"ladder".into(), &().into()));
    assert_eq!((&listed[0]["limit"], &listed[0]["strikes"]), (&"login".into(), &1.into()));
    assert!(place.run("bans list --user alice").done().contains(" the ladder "));
    place.run("bans lift --user alice --kind cooldown").done();
    let strikes = place.run("bans lift --user alice");
    assert_eq!(strikes.done(), format!("forgot the strikes of {subject}"));
    place.run("bans lift --user alice").unchanged();
}
