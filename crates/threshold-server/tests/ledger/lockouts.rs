use std::sync::Arc;

use threshold::engine::Origin;
use threshold::ledger::{Entry, Ledger as _, LoginFailed};
use threshold::standing::Lockout;
use threshold::{Clock as _, Span, SubjectId, SystemClock};

use crate::common::{Place, items};

/// A ledger in which alice is locked out from two addresses and bob from one. Says alice's sources.
async fn locked_out(place: &Place) -> [SubjectId; 2] {
    place.run("bans add --address 198.51.100.1 --for 1h --reason first").done();
    let (ledger, subjects, at) = (place.open(), place.subjects(), SystemClock::new().now());
    let lockout = Arc::new(Lockout::new(vec![(3, Span::DAY)], Span::DAY).unwrap());
    let source = |account: &str, from: &str| subjects.source(account, Origin::Address(from.parse().unwrap()));
    for (account, from) in [("alice", "203.0.113.7"), ("alice", "203.0.113.8"), ("bob", "203.0.113.7")] {
        let failed = LoginFailed {
            source: source(account, from),
            before: None,
            account: subjects.account(account),
            at,
            lockout: Arc::clone(&lockout),
        };
        let entries: Vec<Entry> = (0..5).map(|_| Entry::LoginFailed(failed.clone())).collect();
        ledger.write(&entries).await.unwrap();
    }
    ledger.close().await.unwrap();
    ["203.0.113.7", "203.0.113.8"].map(|from| source("alice", from))
}

#[tokio::test]
async fn lockouts_are_listed_and_lifted_by_account() {
    let place = Place::new();
    let sources = locked_out(&place).await;
    let all = place.json("lockouts list");
    assert_eq!(items(&all).len(), 3);
    let alices = place.json("lockouts list --account ALICE");
    assert_eq!(items(&alices), &items(&all)[..2], "in any spelling");
    assert_eq!(alices[0]["account"], place.subjects().account("alice").to_string());
    assert_eq!(alices[0]["source"], sources[0].to_string());
    assert_eq!(alices[0]["failures"], 3, "those while it is locked do not count");
    let table = place.run("lockouts list --account alice");
    let lines: Vec<&str> = table.done().lines().collect();
    assert!(lines[0].starts_with("ACCOUNT ") && lines.len() == 3, "{lines:?}");
    assert!(lines[1].contains(&sources[0].to_string()) && lines[1].contains("Z (in "), "{lines:?}");
    let lifted = place.run("lockouts lift --account Alice --by carol");
    let account = place.subjects().account("alice");
    assert_eq!(lifted.done(), format!("forgot the failed logins of {account}"));
    assert_eq!(place.run("lockouts list --account alice").done(), "Nobody is locked out.");
    assert_eq!(items(&place.json("lockouts list")).len(), 1, "bob is");
    assert_eq!(
        place.run("lockouts lift --account alice").unchanged(),
        format!("nothing to lift for {account}")
    );
}

#[tokio::test]
async fn lockouts_are_lifted_by_source() {
    let place = Place::new();
    let [source, other] = locked_out(&place).await;
    let lifted = place.json(&format!("lockouts lift --subject {source}"));
    assert_eq!((&lifted["changed"], &lifted["subjects"][0]), (&true.into(), &source.to_string().into()));
    let left = place.json("lockouts list --account alice");
    assert_eq!((items(&left).len(), &left[0]["source"]), (1, &other.to_string().into()));
    let again = place.run(&format!("lockouts lift --subject {source} --json"));
    assert_eq!((again.code, again.out.contains("\"changed\": false")), (1, true));
}
