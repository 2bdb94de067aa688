//! Limits of messages: a connection opened by a request, and what is sent on it.

use std::num::NonZeroU64;

use threshold::engine::{Decision, Extras, Message};
use threshold::{PermitId, Span};

use crate::common::{Ask, IDENTITY, Service};

/// Cheap and dear messages of a chat, by user and type.
const CHAT: &str = r#"
[websocket]
types = ["Typing"]

[[limit]]
id = "all"
layer = "user"
messages = "*"
per = ["user", "type"]
rate = "4/day"

[[limit]]
id = "dear"
layer = "endpoint"
messages = ["Compute"]
costs = { Compute = 5 }
per = "user"
rate = "10/day"

[[limit]]
id = "requests"
layer = "user"
rate = "2/day"
"#;

fn chat() -> Service {
    Service::new(&format!("{IDENTITY}{CHAT}"))
}

fn of(kind: &str) -> Message<'_> {
    Message { kind: Some(kind), ..Message::default() }
}

impl Service {
    async fn message(&self, ask: &Ask, message: Message<'_>) -> Decision {
        let extras = Extras { message: Some(message), permit: Some(PermitId::new(7)), ..Extras::default() };
        self.engine.decide(&ask.facts(), extras).await.expect("memory answers")
    }

    /// How many of `many` such messages are allowed at this instant.
    async fn send(&self, ask: &Ask, message: Message<'_>, many: usize) -> usize {
        let mut allowed = 0;
        for _ in 0..many {
            allowed += usize::from(self.message(ask, message).await.allowed());
        }
        allowed
    }
}

#[tokio::test]
async fn each_user_and_type_has_a_count_of_its_own() {
    let (service, alice, bob) = (chat(), Ask::get("/chat").by("alice"), Ask::get("/chat").by("bob"));
    assert_eq!(service.send(&alice, of("Typing"), 9).await, 4);
    assert_eq!(service.send(&bob, of("Typing"), 9).await, 4);
    assert_eq!(service.send(&alice, of("Compute"), 9).await, 2);
}

#[tokio::test]
async fn types_that_nobody_names_are_one() {
    let (service, alice) = (chat(), Ask::get("/chat").by("alice"));
    assert_eq!(service.send(&alice, of("Made"), 2).await, 2);
    assert_eq!(service.send(&alice, of("Up"), 1).await, 1);
    assert_eq!(service.send(&alice, Message::default(), 9).await, 1);
    assert_eq!(service.send(&alice, of("Typing"), 9).await, 4);
}

#[tokio::test]
async fn requests_and_messages_are_different_things() {
    let (service, alice) = (chat(), Ask::get("/chat").by("alice"));
    assert_eq!(service.drain(&alice, 5).await, 2);
    assert_eq!(service.send(&alice, of("Typing"), 9).await, 4);
}

#[tokio::test]
async fn a_message_that_one_limit_refuses_is_charged_to_none() {
    let (service, alice) = (chat(), Ask::get("/chat").by("alice"));
    assert_eq!(service.send(&alice, of("Compute"), 6).await, 2);
    let left = service.message(&alice, of("Compute")).await.considered();
    assert_eq!(
        left.iter().map(|part| (part.limit, part.after)).collect::<Vec<_>>(),
        [("all", 2), ("dear", 0)]
    );
}

#[tokio::test]
async fn a_cost_above_the_capacity_never_fits() {
    let (service, alice) = (chat(), Ask::get("/chat").by("alice"));
    let dear = Message { cost: NonZeroU64::new(11), ..of("Compute") };
    let decision = service.message(&alice, dear).await;
    assert!(!decision.allowed() && decision.retry_after().is_none());
}

#[tokio::test]
async fn connections_rooms_and_everyone_are_counted_by() {
    let limit = |per: &str| {
        let limit = "[[limit]]\nid = \"a\"\nlayer = \"user\"\nmessages = \"*\"\nrate = \"2/day\"";
        Service::new(&format!("{IDENTITY}{limit}\nper = \"{per}\"\n"))
    };
    let (alice, bob) = (Ask::get("/chat").by("alice"), Ask::get("/chat").by("bob"));
    let by = |connection, room| Message { connection, room, ..Message::default() };
    let service = limit("connection");
    assert_eq!(service.send(&alice, by(1, None), 3).await, 2);
    assert_eq!(service.send(&alice, by(2, None), 3).await, 2);
    let service = limit("room");
    assert_eq!(service.send(&alice, by(1, Some("a")), 3).await, 2);
    assert_eq!(service.send(&bob, by(2, Some("a")), 3).await, 0);
    assert_eq!(service.send(&bob, by(2, Some("b")), 3).await, 2);
    assert_eq!(service.send(&bob, by(2, None), 3).await, 2);
    let service = limit("everyone");
    assert_eq!(service.send(&alice, by(1, None), 1).await, 1);
    assert_eq!(service.send(&bob, by(2, None), 3).await, 1);
}

#[tokio::test]
async fn bytes_of_messages_are_a_budget_too() {
    let limit = "[[limit]]\nid = \"a\"\nlayer = \"user\"\nmessages = \"*\"\nrate = \"1kB/day\"\n";
    let service = Service::new(&format!("{IDENTITY}{limit}"));
    let alice = Ask::get("/chat").by("alice");
    let long = Message { bytes: 400, ..Message::default() };
    assert_eq!(service.send(&alice, long, 9).await, 2);
    assert_eq!(service.send(&alice, Message { bytes: 200, ..long }, 9).await, 1);
}

#[tokio::test]
async fn a_route_is_that_of_the_request_that_opened_the_connection() {
    let policy = "[routes]\nchat = \"* /chat\"\n[[limit]]\nid = \"a\"\nlayer = \"user\"\nroute = \"chat\"\n\
                  messages = \"*\"\nrate = \"1/day\"\n";
    let service = Service::new(&format!("{IDENTITY}{policy}"));
    assert_eq!(service.send(&Ask::get("/chat").by("alice"), Message::default(), 3).await, 1);
    assert_eq!(service.send(&Ask::get("/game").by("alice"), Message::default(), 3).await, 3);
}

#[tokio::test]
async fn as_many_as_a_limit_says_are_in_flight_at_the_same_time() {
    let policy = "[[limit]]\nid = \"a\"\nlayer = \"user\"\nmessages = \"*\"\nalgorithm = \"concurrency\"\n\
                  rate = \"2/min\"\n";
    let service = Service::new(&format!("{IDENTITY}{policy}"));
    let alice = Ask::get("/chat").by("alice");
    let mut held = Vec::new();
    for permit in 0..3 {
        let extras = Extras {
            message: Some(Message::default()),
            permit: Some(PermitId::new(permit)),
            ..Extras::default()
        };
        held.push(service.engine.decide(&alice.facts(), extras).await.expect("memory answers"));
    }
    assert_eq!(held.iter().map(Decision::allowed).collect::<Vec<_>>(), [true, true, false]);
    service.engine.release(&held[0]).await.expect("memory answers");
    assert_eq!(service.send(&alice, Message::default(), 1).await, 1);
}

#[tokio::test]
async fn strikes_of_messages_climb_the_ladder() {
    let policy = "[[limit]]\nid = \"a\"\nlayer = \"user\"\nmessages = \"*\"\nrate = \"1/s\"\n\
                  [ladder]\nrungs = [{ strikes = 2, ban = \"1h\" }]\n";
    let service = Service::new(&format!("{IDENTITY}{policy}"));
    let alice = Ask::get("/chat").by("alice");
    for _ in 0..2 {
        service.send(&alice, Message::default(), 3).await;
        service.wait(Span::from_secs(2));
    }
    let refused = service.message(&alice, Message::default()).await.refusal().map(|refusal| refusal.reason);
    assert!(matches!(refused, Some(threshold::engine::Reason::Banned { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_limit_of_requests_that_becomes_one_of_messages_stays_in_force_for_its_window() {
    let limit =
        |more: &str| format!("{IDENTITY}[[limit]]\nid = \"a\"\nlayer = \"user\"\nrate = \"2/min\"\n{more}");
    let service = Service::new(&limit(""));
    let alice = Ask::get("/chat").by("alice");
    assert_eq!(service.drain(&alice, 3).await, 2);
    service.engine.reload(crate::common::rules(&limit("messages = \"*\"\n"))).expect("one limit");
    // The same id and subject are the same count.
    assert_eq!(service.drain(&alice, 3).await, 0);
    assert_eq!(service.send(&alice, Message::default(), 3).await, 0);
    service.wait(Span::from_secs(120));
    assert_eq!(service.drain(&alice, 3).await, 3);
    assert_eq!(service.send(&alice, Message::default(), 3).await, 2);
}

/// Whether a run of so many messages passes as one.
async fn run(service: &Service, ask: &Ask, kind: &str, count: u64) -> bool {
    let message = Message { count: NonZeroU64::new(count), ..of(kind) };
    let extras = Extras { message: Some(message), ..Extras::default() };
    let (facts, mut decision) = (ask.facts(), Decision::default());
    let identity = service.engine.identify(&facts);
    service.engine.pass_run(&facts, &identity, extras, &mut decision).await.expect("memory answers")
}

#[tokio::test]
async fn a_run_of_like_messages_is_charged_as_one_or_not_at_all() {
    let (service, alice) = (chat(), Ask::get("/chat").by("alice"));
    assert!(run(&service, &alice, "Typing", 3).await);
    // Two are more than is left, and nothing is charged for them.
    assert!(!run(&service, &alice, "Typing", 2).await);
    assert_eq!(service.send(&alice, of("Typing"), 5).await, 1);
    assert!(!run(&service, &alice, "Compute", 3).await);
    assert!(run(&service, &alice, "Compute", 2).await);
    assert_eq!(service.send(&alice, of("Compute"), 5).await, 0);
}

#[tokio::test]
async fn a_run_is_refused_without_a_strike() {
    let policy = "[[limit]]\nid = \"a\"\nlayer = \"user\"\nmessages = \"*\"\nrate = \"1/s\"\n\
                  [ladder]\nrungs = [{ strikes = 1, ban = \"1h\" }]\n";
    let service = Service::new(&format!("{IDENTITY}{policy}"));
    let alice = Ask::get("/chat").by("alice");
    assert!(!run(&service, &alice, "Typing", 5).await);
    assert_eq!(service.send(&alice, of("Typing"), 1).await, 1);
}

#[tokio::test]
async fn what_is_only_observed_is_counted_one_by_one() {
    let policy = "[[limit]]\nid = \"a\"\nlayer = \"user\"\nmessages = \"*\"\nrate = \"3/day\"\nenforce = \"observe\"\n";
    let service = Service::new(&format!("{IDENTITY}{policy}"));
    let alice = Ask::get("/chat").by("alice");
    assert!(!run(&service, &alice, "Typing", 2).await);
    assert_eq!(service.send(&alice, of("Typing"), 5).await, 5);
}
