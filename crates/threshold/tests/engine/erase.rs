//! Somebody is erased: on the node that is asked, and on those that share its ledger.

use std::sync::Arc;

use threshold::engine::{Client, Engine, Forgetting};
use threshold::figures::Figures;
use threshold::ledger::RecordClass;
use threshold::usage::Usage;
use threshold::{ManualClock, MemoryLedger, MemoryStore, Timestamp};

use super::common::{Ask, IDENTITY, Service, override_all, rules, secrets, seen};

/// One request a day, a ban for whoever wants more, and more requests for whoever is favoured.
fn policy() -> String {
    let limit = "[[limit]]\nid = \"one\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"1/day\"\n";
    format!("{IDENTITY}\n{limit}[ladder]\nrungs = [{{ strikes = 1, ban = \"1h\" }}]\n")
}

struct Node {
    service: Service,
    usage: Arc<Usage>,
    figures: Arc<Figures>,
}

/// A node with a store of its own.
fn node(ledger: &MemoryLedger) -> Node {
    let clock = ManualClock::default();
    clock.set(Timestamp::from_micros(1_700_000_000_000_000));
    let store =
        || MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone()).build().expect("a cap with room");
    let (usage, figures) = (Arc::new(Usage::new(1_000)), Arc::new(Figures::new()));
    let engine = Engine::with_ledger((rules(&policy()), secrets()), store(), store(), ledger.clone());
    let engine = engine.tracking(Arc::clone(&usage)).measured(Arc::clone(&figures));
    Node { service: Service { engine, clock }, usage, figures }
}

async fn erase(node: &Node, address: &str, keep_sanctions: bool) -> usize {
    let address = address.parse().expect("an address");
    let subjects: Vec<_> = node.service.engine.all_subjects().map(|names| names.address(address)).collect();
    let client = Some(Client::Address(address));
    let forgetting = Forgetting { subjects: &subjects, client, keep_sanctions, names: &[] };
    let forgotten = node.service.engine.erase("ops", &forgetting).await.expect("memory answers");
    assert_eq!(forgotten.limits, ["one"]);
    forgotten.records.of(RecordClass::Sanctions)
}

async fn word(node: &Node, ask: &Ask) -> &'static str {
    seen(&node.service.ask(ask).await)
}

/// How many rows are counted of all that was decided.
fn rows(node: &Node) -> usize {
    node.usage.gather();
    node.usage.len()
}

#[tokio::test]
async fn other_nodes_forget_it_when_they_hear_of_it() {
    let ledger = MemoryLedger::new();
    let (here, there) = (node(&ledger), node(&ledger));
    let (alice, bob) = (Ask::get("/").from("192.0.2.7"), Ask::get("/").from("192.0.2.8"));
    for ask in [&alice, &bob] {
        assert_eq!(
            (word(&here, ask).await, word(&here, ask).await, word(&here, ask).await),
            ("allowed", "banned", "banned")
        );
    }
    there.service.engine.refresh().await.expect("memory answers");
    assert_eq!((word(&there, &alice).await, word(&there, &bob).await), ("banned", "banned"));
    assert_eq!((there.figures.top_addresses(9).len(), here.figures.top_addresses(9).len()), (2, 2));
    assert_eq!(erase(&here, "192.0.2.7", false).await, 1);
    assert_eq!((word(&here, &alice).await, word(&here, &bob).await), ("allowed", "banned"));
    there.service.engine.refresh().await.expect("memory answers");
    assert_eq!((there.figures.top_addresses(9).len(), here.figures.top_addresses(9).len()), (1, 1));
    let counted = rows(&there);
    assert!(counted > 0, "what the other was counted is there");
    assert_eq!((word(&there, &alice).await, word(&there, &bob).await), ("allowed", "banned"));
    assert!(rows(&there) > counted);
    let counted = rows(&there);
    // All changes are read anew.
    there.service.engine.reload(rules(&policy())).expect("it is the same");
    there.service.engine.refresh().await.expect("memory answers");
    assert_eq!(rows(&there), counted, "what was counted since is not forgotten once more");
    assert_eq!(word(&there, &bob).await, "banned");
}

#[tokio::test]
async fn a_ban_stays_that_is_to_stay_and_overrides_go() {
    let ledger = MemoryLedger::new();
    let (here, there) = (node(&ledger), node(&ledger));
    let alice = Ask::get("/").from("192.0.2.7");
    let subject = here.service.engine.subjects().address("192.0.2.7".parse().expect("an address"));
    let own = threshold::engine::Override { subject: Some(subject), ..override_all("one", "2/day") };
    here.service.set(own).await;
    let seen = [word(&here, &alice).await, word(&here, &alice).await, word(&here, &alice).await];
    assert_eq!(seen, ["allowed", "allowed", "banned"]);
    assert_eq!(erase(&here, "192.0.2.7", true).await, 0);
    there.service.engine.refresh().await.expect("memory answers");
    for node in [&here, &there] {
        assert_eq!(word(node, &alice).await, "banned");
        assert_eq!(node.service.engine.overrides(), []);
        let held = node.service.engine.held(&subject).expect("its ban");
        assert_eq!(held.strikes.parts().0, 0, "nothing else is held against it");
    }
    assert_eq!(erase(&here, "192.0.2.7", false).await, 1);
    there.service.engine.refresh().await.expect("memory answers");
    assert_eq!((word(&here, &alice).await, word(&there, &alice).await), ("allowed", "allowed"));
    assert_eq!(word(&here, &alice).await, "banned", "by the policy's own rate");
}
