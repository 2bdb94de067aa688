//! The chat as its clients see it: real sockets, and numbers by the client's own count.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/programs.rs"]
mod programs;
#[path = "support/site.rs"]
mod site;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};

use site::{Site, Tally, outcome, soon, tally};

/// The types and texts that tests send most.
fn join() -> Json {
    json!({ "type": "Join", "room": "lobby" })
}

fn typing() -> Json {
    json!({ "type": "Typing", "room": "lobby" })
}

fn message(text: &str) -> Json {
    json!({ "type": "SendMessage", "room": "lobby", "text": text })
}

fn compute(number: u64) -> Json {
    json!({ "type": "Compute", "number": number })
}

fn announce() -> Json {
    json!({ "type": "Announce", "text": "hear, hear" })
}

// Rooms.

#[tokio::test]
async fn everybody_in_a_room_hears_a_message_and_nobody_else_does() {
    let site = Site::start(&[]).await;
    let (mut alice, mut bob, mut paula) =
        (site.connect("alice").await, site.connect("bob").await, site.connect("paula").await);
    alice.join("lobby").await;
    bob.join("lobby").await;
    paula.join("attic").await;
    alice.say(message("hello")).await;
    let heard = json!({ "type": "Message", "from": "alice", "room": "lobby", "text": "hello" });
    assert_eq!(bob.hear().await, heard);
    let mut own = [alice.hear().await, alice.hear().await];
    own.sort_by_key(|answer| answer["type"] == "Ok");
    assert_eq!(own[0], heard, "who says it hears it too");
    paula.say(json!({ "type": "SendMessage", "room": "attic", "text": "quiet here" })).await;
    let first = [paula.hear().await, paula.hear().await];
    assert!(first.iter().all(|heard| heard["from"] != "alice"), "{first:?}");
}

#[tokio::test]
async fn who_types_is_told_to_the_others_only() {
    let site = Site::start(&[]).await;
    let (mut alice, mut bob) = (site.connect("alice").await, site.connect("bob").await);
    alice.join("lobby").await;
    bob.join("lobby").await;
    alice.say(typing()).await;
    assert_eq!(bob.hear().await, json!({ "type": "Typing", "from": "alice", "room": "lobby" }));
    assert_eq!(alice.hear().await["type"], "Ok");
    assert_eq!(alice.ask(join()).await["members"], 2);
}

#[tokio::test]
async fn nobody_speaks_in_a_room_without_being_there() {
    let site = Site::start(&[]).await;
    let mut alice = site.connect("alice").await;
    assert_eq!(outcome(&alice.ask(message("hello")).await), "INVALID_ARGUMENT");
    alice.join("attic").await;
    assert_eq!(outcome(&alice.ask(message("hello")).await), "INVALID_ARGUMENT");
    alice.join("lobby").await;
    assert_eq!(outcome(&alice.ask(message("hello")).await), "taken");
}

#[tokio::test]
async fn who_has_no_token_is_turned_away() {
    let site = Site::start(&[]).await;
    for url in [format!("ws://{}/chat", site.address), site.url("nobody")] {
        let Err(Error::Http(answer)) = site.try_connect(&url).await else { panic!("{url} was let in") };
        assert_eq!(answer.status(), 401);
    }
}

// Limits of types.

#[tokio::test]
async fn a_type_of_message_passes_two_hundred_times_at_once_and_then_a_hundred_times_a_second() {
    let site = Site::start(&[]).await;
    let mut paula = site.connect("paula").await;
    paula.join("lobby").await;
    assert_eq!(paula.repeat(205, typing()).await, tally(&[("taken", 200), ("cheap", 5)]));
    assert_eq!(paula.repeat(200, message("hi")).await, tally(&[("taken", 200)]), "types do not share");
    site.wait_ms(1_000);
    assert_eq!(paula.repeat(105, typing()).await, tally(&[("taken", 100), ("cheap", 5)]));
}

#[tokio::test]
async fn users_do_not_share_what_a_type_has() {
    let site = Site::start(&[]).await;
    let (mut paula, mut quentin) = (site.connect("paula").await, site.connect("quentin").await);
    assert_eq!(paula.repeat(201, join()).await, tally(&[("taken", 200), ("cheap", 1)]));
    assert_eq!(quentin.repeat(201, join()).await, tally(&[("taken", 200), ("cheap", 1)]));
}

#[tokio::test]
async fn types_that_nobody_knows_share_one_bucket() {
    let site = Site::start(&[]).await;
    let mut paula = site.connect("paula").await;
    let mut outcomes = Tally::new();
    for turn in 0..205 {
        let answer = paula.ask(json!({ "type": format!("Invented{turn}") })).await;
        *outcomes.entry(outcome(&answer)).or_default() += 1;
    }
    let refused_by_the_chat = "INVALID_ARGUMENT";
    assert_eq!(outcomes, tally(&[(refused_by_the_chat, 200), ("cheap", 5)]));
    for noise in ["hello", r#"["type"]"#, r#"{"type":{}}"#] {
        paula.send(noise).await;
        assert_eq!(outcome(&paula.hear().await), "cheap", "{noise} has no type, which is one nobody knows");
    }
    assert_eq!(outcome(&paula.ask(join()).await), "taken");
}

#[tokio::test]
async fn a_message_that_names_its_type_twice_is_taken_for_neither() {
    let site = Site::start(&[]).await;
    let mut alice = site.connect("alice").await;
    alice.send(r#"{"type":"Typing","id":"1","type":"Compute","number":3}"#).await;
    let answer = alice.hear().await;
    assert_eq!(answer["payload"]["code"], "INVALID_ARGUMENT");
    assert_eq!(alice.repeat(2, compute(3)).await, tally(&[("taken", 2)]), "nothing was charged for it");
}

#[tokio::test]
async fn of_expensive_messages_exactly_two_fit_into_a_burst_of_ten() {
    let site = Site::start(&[]).await;
    let mut paula = site.connect("paula").await;
    assert_eq!(paula.ask(compute(12)).await["result"], 144);
    assert_eq!(paula.ask(compute(13)).await["result"], 169);
    let refused = paula.ask(compute(14)).await;
    assert_eq!(refused["payload"]["details"]["limitId"], "expensive");
    assert_eq!(
        (&refused["payload"]["details"]["observed"], &refused["payload"]["details"]["limit"]),
        (&json!(5), &json!(10))
    );
    assert_eq!(refused["payload"]["retryAfterMs"], 2_500, "five come back at two a second");
    site.wait_ms(2_499);
    assert_eq!(outcome(&paula.ask(compute(14)).await), "expensive");
    site.wait_ms(1);
    assert_eq!(paula.repeat(2, compute(14)).await, tally(&[("taken", 1), ("expensive", 1)]));
}

#[tokio::test]
async fn what_one_limit_refuses_is_charged_to_no_other() {
    let site = Site::start(&[]).await;
    let mut alice = site.connect("alice").await;
    assert_eq!(alice.repeat(50, compute(2)).await, tally(&[("taken", 2), ("expensive", 48)]));
    assert_eq!(alice.repeat(100, join()).await, tally(&[("taken", 98), ("tier", 2)]));
}

// Limits of users, by tier.

#[tokio::test]
async fn a_free_user_has_a_hundred_messages_at_once_and_ten_a_second() {
    let site = Site::start(&[]).await;
    let mut alice = site.connect("alice").await;
    assert_eq!(alice.repeat(105, join()).await, tally(&[("taken", 100), ("tier", 5)]));
    site.wait_ms(1_000);
    assert_eq!(alice.repeat(15, join()).await, tally(&[("taken", 10), ("tier", 5)]));
}

#[tokio::test]
async fn a_premium_user_has_a_thousand_messages_at_once_and_a_hundred_a_second() {
    let site = Site::start(&[("CHEAP", "5000/s burst 5000")]).await;
    let mut paula = site.connect("paula").await;
    assert_eq!(paula.repeat(1_005, join()).await, tally(&[("taken", 1_000), ("tier", 5)]));
    site.wait_ms(1_000);
    assert_eq!(paula.repeat(105, join()).await, tally(&[("taken", 100), ("tier", 5)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_of_a_user_share_one_budget() {
    let site = Site::start(&[]).await;
    let mut talking = Vec::new();
    for _ in 0..4 {
        let mut alice = site.connect("alice").await;
        talking.push(tokio::spawn(async move { alice.repeat(40, join()).await }));
    }
    let mut together = Tally::new();
    for one in talking {
        for (outcome, count) in one.await.unwrap() {
            *together.entry(outcome).or_default() += count;
        }
    }
    assert_eq!(together, tally(&[("taken", 100), ("tier", 60)]));
    assert_eq!(outcome(&site.connect("bob").await.ask(join()).await), "taken");
}

#[tokio::test]
async fn a_price_that_a_tier_never_has_is_told_as_such() {
    let site = Site::start(&[]).await;
    let (mut alice, mut paula) = (site.connect("alice").await, site.connect("paula").await);
    let never = alice.ask(announce()).await["payload"].clone();
    assert_eq!(never["code"], "FAILED_PRECONDITION");
    assert_eq!((&never["retryable"], &never["retryAfterMs"]), (&json!(false), &Json::Null));
    assert_eq!((&never["details"]["observed"], &never["details"]["limit"]), (&json!(500), &json!(100)));
    assert_eq!(paula.repeat(2, announce()).await, tally(&[("taken", 2)]));
    let later = paula.ask(announce()).await["payload"].clone();
    assert_eq!((&later["code"], &later["retryAfterMs"]), (&json!("RESOURCE_EXHAUSTED"), &json!(5_000)));
}

// Limits of rooms, of connections and of what is in flight.

#[tokio::test]
async fn a_room_bears_three_hundred_messages_whoever_writes_them_and_fifty_a_second() {
    let site = Site::start(&[]).await;
    let (mut paula, mut quentin) = (site.connect("paula").await, site.connect("quentin").await);
    paula.join("lobby").await;
    assert_eq!(paula.repeat(200, message("hi")).await, tally(&[("taken", 200)]));
    quentin.join("lobby").await;
    assert_eq!(quentin.repeat(110, message("hi")).await, tally(&[("taken", 100), ("room", 10)]));
    site.wait_ms(1_000);
    assert_eq!(paula.repeat(55, message("hi")).await, tally(&[("taken", 50), ("room", 5)]));
    quentin.join("attic").await;
    let elsewhere = json!({ "type": "SendMessage", "room": "attic", "text": "hi" });
    assert_eq!(quentin.repeat(100, elsewhere).await, tally(&[("taken", 100)]));
}

#[tokio::test]
async fn a_connection_has_fifteen_hundred_frames_before_anything_in_them_is_read() {
    let site = Site::start(&[]).await;
    let mut alice = site.connect("alice").await;
    assert_eq!(alice.repeat(1_500, join()).await, tally(&[("taken", 100), ("tier", 1_400)]));
    for _ in 0..10 {
        alice.say(join()).await;
        let refused = alice.hear().await;
        let error = &refused["payload"];
        assert_eq!((&error["code"], &error["retryAfterMs"]), (&json!("RESOURCE_EXHAUSTED"), &json!(2)));
        assert_eq!((&error["details"]["limitId"], &error["details"]["limit"]), (&Json::Null, &json!(1_500)));
        assert_eq!(refused["meta"]["correlationId"], Json::Null, "nobody has read which one it was");
    }
    let mut elsewhere = site.connect("alice").await;
    assert_eq!(outcome(&elsewhere.ask(join()).await), "tier", "another connection has a pace of its own");
    site.wait_ms(1_000);
    assert_eq!(alice.repeat(500, join()).await, tally(&[("taken", 10), ("tier", 490)]));
    alice.say(join()).await;
    assert_eq!(alice.hear().await["payload"]["details"]["limit"], 1_500);
}

#[tokio::test]
async fn two_computations_are_in_flight_and_the_third_waits_until_an_answer_was_sent() {
    let site = Site::start(&[]).await;
    site.hold();
    let mut alice = site.connect("alice").await;
    let first = alice.say(compute(2)).await;
    let second = alice.say(compute(3)).await;
    alice.join("lobby").await;
    // Both are under way, and there is enough for two more.
    site.wait_ms(5_000);
    let refused = alice.ask(compute(4)).await;
    assert_eq!(
        (outcome(&refused).as_str(), &refused["payload"]["code"]),
        ("in-flight", &json!("RESOURCE_EXHAUSTED"))
    );
    assert_eq!(outcome(&alice.ask(join()).await), "taken", "whoever waits may talk");
    site.finish(1);
    let done = alice.hear().await;
    assert!([&first, &second].iter().any(|id| done["id"] == **id), "{done}");
    let third = alice.say(compute(4)).await;
    site.finish(2);
    assert_eq!(alice.answer_to(&third).await["result"], 16);
}

#[tokio::test]
async fn nobody_gets_past_those_in_flight_by_leaving_out_the_id() {
    let site = Site::start(&[]).await;
    site.hold();
    let mut alice = site.connect("alice").await;
    for _ in 0..2 {
        alice.send(&compute(2).to_string()).await;
    }
    alice.join("lobby").await;
    site.wait_ms(5_000);
    alice.send(&compute(2).to_string()).await;
    assert_eq!(outcome(&alice.hear().await), "in-flight");
}

#[tokio::test]
async fn who_leaves_gives_back_what_was_in_flight() {
    let site = Site::start(&[]).await;
    site.hold();
    let mut alice = site.connect("alice").await;
    alice.say(compute(2)).await;
    alice.say(compute(3)).await;
    alice.join("lobby").await;
    site.wait_ms(5_000);
    assert_eq!(outcome(&alice.ask(compute(4)).await), "in-flight");
    drop(alice);
    site.finish(3);
    let mut back = site.connect("alice").await;
    while outcome(&back.ask(compute(4)).await) == "in-flight" {
        tokio::task::yield_now().await;
    }
}

// What is told about a refusal.

#[tokio::test]
async fn a_refusal_says_what_it_is_for_and_when_to_come_back() {
    let site = Site::start(&[]).await;
    let mut alice = site.connect("alice").await;
    alice.repeat(100, join()).await;
    let refused = alice.ask(join()).await;
    let expected = json!({
        "type": "ERROR",
        "meta": { "timestamp": 1_800_000_000_000_u64, "correlationId": "101" },
        "payload": {
            "code": "RESOURCE_EXHAUSTED", "message": "too many messages", "retryable": true, "retryAfterMs": 100,
            "details": { "type": "rate", "messageType": "Join", "limitId": "tier", "observed": 1, "limit": 100 },
        },
    });
    assert_eq!(refused, expected);
    site.wait_ms(100);
    assert_eq!(outcome(&alice.ask(join()).await), "taken", "whoever waits as long as told is heard");
}

/// A message of so many bytes.
fn sized(bytes: usize) -> String {
    let empty = json!({ "type": "SendMessage", "id": "large", "text": "" }).to_string();
    json!({ "type": "SendMessage", "id": "large", "text": "x".repeat(bytes - empty.len()) }).to_string()
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_and_the_connection_goes_on() {
    let site = Site::start(&[]).await;
    let mut alice = site.connect("alice").await;
    alice.send(&sized(16_384)).await;
    assert_eq!(alice.hear().await["payload"]["message"], "join that room first", "this one is read");
    alice.send(&sized(16_385)).await;
    let refused = alice.hear().await["payload"].clone();
    assert_eq!((&refused["code"], &refused["retryAfterMs"]), (&json!("FAILED_PRECONDITION"), &Json::Null));
    assert_eq!(refused["details"]["type"], "payload");
    assert_eq!(
        (&refused["details"]["observed"], &refused["details"]["limit"]),
        (&json!(16_385), &json!(16_384))
    );
    assert_eq!(alice.repeat(105, join()).await, tally(&[("taken", 99), ("tier", 6)]), "it cost nothing");
}

#[tokio::test]
async fn a_message_that_nobody_wants_to_receive_ends_the_connection() {
    let site = Site::start(&[]).await;
    let mut alice = site.connect("alice").await;
    let _ = alice.socket.send(Message::text("x".repeat(4 * 16_384 + 1))).await;
    let ended = soon(alice.socket.next()).await;
    assert!(matches!(ended, None | Some(Err(_))), "{ended:?}");
    assert_eq!(outcome(&site.connect("alice").await.ask(join()).await), "taken");
}

#[tokio::test]
async fn every_refusal_is_logged_exactly_once() {
    let site = Site::start(&[]).await;
    let mut alice = site.connect("alice").await;
    let (mut refused, mut kinds) = (0, Vec::new());
    for request in [join(), compute(2), announce()].iter().cycle().take(120) {
        let outcome = outcome(&alice.ask(request.clone()).await);
        if outcome != "taken" {
            refused += 1;
            kinds.push(outcome);
        }
    }
    alice.send(&sized(16_385)).await;
    alice.hear().await;
    let said = site.said();
    assert_eq!(said.len(), refused + 1);
    let limits: Vec<_> = said.iter().filter_map(|line| line["limitId"].as_str()).collect();
    assert_eq!(limits, kinds, "in the order in which the client was told");
    let last = &said[refused];
    assert_eq!((&last["event"], &last["type"]), (&json!("limit_exceeded"), &json!("payload")));
    assert!(said.iter().all(|line| line["clientId"] == last["clientId"]), "one connection has one number");
}

#[tokio::test]
async fn what_passes_is_not_logged() {
    let site = Site::start(&[]).await;
    site.connect("alice").await.repeat(100, join()).await;
    assert_eq!(site.said(), Vec::<Json>::new());
}

// Connections that are closed instead.

/// What is not listened to could take the last word with it, so the client here goes on talking and hears it all the same.
#[tokio::test]
async fn whoever_is_over_a_limit_is_closed_with_1013_if_the_policy_says_so() {
    let site = Site::start(&[("ON_EXCEED", "close")]).await;
    let mut alice = site.connect("alice").await;
    for _ in 0..2_000 {
        alice.say(join()).await;
    }
    for _ in 0..100 {
        assert_eq!(alice.hear().await["type"], "Ok");
    }
    let Some(Ok(Message::Close(Some(CloseFrame { code, reason })))) = soon(alice.socket.next()).await else {
        panic!("the end is told")
    };
    assert_eq!((u16::from(code), reason.as_str()), (1013, "rate limit exceeded"));
    assert_eq!(site.said().len(), 1, "it was refused once, and then nobody was there");
    site.wait_ms(100);
    assert_eq!(outcome(&site.connect("alice").await.ask(join()).await), "taken", "and may come back");
}

#[tokio::test]
async fn a_goodbye_is_always_heard() {
    let site = Site::start(&[("PACE", "3/day")]).await;
    let mut alice = site.connect("alice").await;
    alice.repeat(3, join()).await;
    alice.socket.close(None).await.unwrap();
    assert!(matches!(soon(alice.socket.next()).await, Some(Ok(Message::Close(_)))));
    assert!(soon(alice.socket.next()).await.is_none());
    assert_eq!(site.said(), Vec::<Json>::new());
}

// The page, and programs in other languages.

#[tokio::test]
async fn the_page_is_there_and_needs_nothing_from_elsewhere() {
    let site = Site::start(&[]).await;
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: chat.test\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut page = String::new();
    soon(stream.read_to_string(&mut page)).await.unwrap();
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("text/html"), "{page}");
    assert!(page.contains("Flood") && page.contains("retryAfterMs"));
    assert!(!page.contains("https://") && !page.contains("src="), "it fetches nothing");
}

/// What the policy leaves open, so that only the pace of a connection is ever over.
const PACE_ONLY: [(&str, &str); 4] =
    [("PACE", "100/s burst 100"), ("FREE", "10000/s"), ("CHEAP", "10000/s"), ("ROOM", "10000/s")];

#[tokio::test]
async fn a_client_in_python_waits_as_long_as_it_is_told_and_loses_nothing() {
    let site = Site::start(&[]).await;
    programs::obeys(&site, programs::python()).await;
    programs::gives_up(&site, programs::python()).await;
    programs::obeys(&Site::start(&PACE_ONLY).await, programs::python()).await;
}

#[tokio::test]
async fn a_client_in_javascript_waits_as_long_as_it_is_told_and_loses_nothing() {
    let site = Site::start(&[]).await;
    programs::obeys(&site, programs::node()).await;
    programs::gives_up(&site, programs::node()).await;
    programs::obeys(&Site::start(&PACE_ONLY).await, programs::node()).await;
}
