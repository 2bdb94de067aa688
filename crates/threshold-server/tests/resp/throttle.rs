//! `CL.THROTTLE` and `THROTTLE`, as redis-cell and throttlecrab answer them.

use serde_json::json;

use super::common::{Wire, command, serve};
use crate::support::client::Client;

#[test]
fn redis_cell_is_answered_as_it_answers() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    // Its burst comes on top of the first one: three at once, one an hour after that.
    assert_eq!(wire.ask("CL.THROTTLE user:1 2 1 3600").numbers(), [0, 3, 2, -1, 3_600]);
    assert_eq!(wire.ask("cl.throttle user:1 2 1 3600 2").numbers(), [0, 3, 0, -1, 10_800]);
    let [limited, limit, remaining, retry, reset] = wire.ask("CL.THROTTLE user:1 2 1 3600").numbers()[..]
    else {
        panic!("five numbers")
    };
    assert_eq!((limited, limit, remaining), (1, 3, 0));
    assert!((1..=3_600).contains(&retry) && (7_200..=10_800).contains(&reset), "{retry} {reset}");
    // A look is never limited, and charges nothing.
    for _ in 0..3 {
        let [looked, 3, 0, -1, _] = wire.ask("CL.THROTTLE user:1 2 1 3600 0").numbers()[..] else {
            panic!("a look")
        };
        assert_eq!(looked, 0);
    }
    assert_eq!(wire.ask("CL.THROTTLE fresh 2 1 3600 0").numbers(), [0, 3, 3, -1, 0]);
    // More than there ever is: refused, without a time at which it would not be.
    assert_eq!(wire.ask("CL.THROTTLE fresh 2 1 3600 4").numbers(), [1, 3, 3, -1, 0]);
    assert_eq!(wire.ask("CL.THROTTLE fresh 2 1 3600 3").numbers(), [0, 3, 0, -1, 10_800]);
    // No burst at all.
    assert_eq!(wire.ask("CL.THROTTLE one 0 1 60").numbers(), [0, 1, 0, -1, 60]);
    assert_eq!(wire.ask("CL.THROTTLE one 0 1 60").numbers()[..2], [1, 1]);
}

#[test]
fn throttlecrab_is_answered_as_it_answers() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    // Its burst is all there is, and the wait comes last.
    assert_eq!(wire.ask("THROTTLE user:1 3 1 3600").numbers(), [1, 3, 2, 3_600, 0]);
    assert_eq!(wire.ask("throttle user:1 3 1 3600 2").numbers(), [1, 3, 0, 10_800, 0]);
    let [0, 3, 0, reset, retry] = wire.ask("THROTTLE user:1 3 1 3600").numbers()[..] else {
        panic!("a refusal")
    };
    assert!((1..=3_600).contains(&retry) && (7_200..=10_800).contains(&reset), "{retry} {reset}");
    assert_eq!(wire.ask("THROTTLE fresh 3 1 3600 0").numbers(), [1, 3, 3, 0, 0]);
    assert_eq!(wire.ask("THROTTLE fresh 3 1 3600 4").numbers(), [0, 3, 3, 0, -1]);
}

#[test]
fn numbers_that_make_no_sense_are_named_with_what_would() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    for (line, what) in [
        (
            "CL.THROTTLE",
            "ERR wrong number of arguments; write CL.THROTTLE key max_burst count period [quantity]",
        ),
        ("CL.THROTTLE k 1 1", "ERR wrong number of arguments"),
        ("THROTTLE k 1 1 1 1 1", "ERR wrong number of arguments; write THROTTLE key"),
        ("CL.THROTTLE  1 1 1", "ERR key must have 1 to 1024 bytes, not 0"),
        ("CL.THROTTLE k -1 1 1", "ERR max_burst must be a whole number from 0 to 4503599627370494, not '-1'"),
        ("CL.THROTTLE k 4503599627370495 1 1", "ERR max_burst must be a whole number from 0"),
        ("THROTTLE k 0 1 1", "ERR max_burst must be a whole number from 1 to 4503599627370495, not '0'"),
        ("CL.THROTTLE k 1 0 1", "ERR count must be a whole number from 1 to 4503599627370495, not '0'"),
        ("CL.THROTTLE k 1 x\u{e9} 1", "ERR count must be a whole number from 1 to 4503599627370495, not 'x"),
        ("CL.THROTTLE k 1 1 0", "ERR period must be a whole number of seconds from 1 to 281474976, not '0'"),
        ("CL.THROTTLE k 1 1 281474977", "ERR period must be a whole number of seconds"),
        ("CL.THROTTLE k 1 1 9223372036854775808", "ERR period must be a whole number of seconds"),
        (
            "CL.THROTTLE k 1 1 1 -1",
            "ERR quantity must be a whole number from 0 to 4503599627370495, not '-1'",
        ),
        ("CL.THROTTLE k 1000000 1 1000000", "lower the burst or raise the rate"),
        ("CL.THROTTLE k 1 4503599627370493 1", "use a rounder number"),
    ] {
        let reply = wire.ask(line);
        assert!(reply.error().contains(what), "{line}: {reply:?}");
    }
    let key = "k".repeat(1_025);
    assert!(wire.ask(&format!("THROTTLE {key} 1 1 1")).error().contains("not 1025"));
    assert_eq!(wire.ask(&format!("THROTTLE {} 1 1 60", &key[1..])).numbers()[0], 1);
    // Lines that are no text do not break the error in two.
    wire.send(command(&[&b"CL.THROTTLE"[..], b"k", b"1\r\n+OK", b"1", b"1"]));
    assert!(wire.reply().error().contains("not '1\\r\\n+OK'"));
    assert_eq!(wire.ask("PING").text(), "PONG");
}

#[test]
fn a_rate_that_does_not_divide_evenly_is_kept_exactly() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    // 7 a day: a truncated interval would have given the last one back early, a rounded one late.
    let reset = |wire: &mut Wire| wire.ask("CL.THROTTLE sevenths 6 7 86400 7").numbers();
    assert_eq!(reset(&mut wire), [0, 7, 0, -1, 86_400]);
}

#[test]
fn a_key_is_any_bytes_and_its_count_outlives_other_numbers() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    let key = b"\x00\xff\r\n key";
    wire.send(command(&[&b"CL.THROTTLE"[..], key, b"9", b"10", b"3600", b"6"]));
    assert_eq!(wire.reply().numbers()[..3], [0, 10, 4]);
    // Another burst and another count on the same key and period: what is owed stays owed.
    wire.send(command(&[&b"CL.THROTTLE"[..], key, b"4", b"5", b"3600", b"0"]));
    assert_eq!(wire.reply().numbers()[..3], [0, 5, 0]);
    wire.send(command(&[&b"THROTTLE"[..], key, b"20", b"20", b"3600", b"0"]));
    assert_eq!(wire.reply().numbers()[..3], [1, 20, 14]);
    // Another period is another limit.
    wire.send(command(&[&b"THROTTLE"[..], key, b"20", b"20", b"60", b"0"]));
    assert_eq!(wire.reply().numbers()[..3], [1, 20, 20]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_decision_api_counts_the_same_key_by_the_same_period() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    assert_eq!(wire.ask("CL.THROTTLE shared 9 10 3600 4").numbers()[..3], [0, 10, 6]);
    let api = Client::new(server.api);
    let question = json!({ "rate": "10/hour", "key": "shared", "cost": 5 }).to_string();
    let headers = [("content-type", "application/json")];
    let answer = api.send(api.request("POST", "/v1/consume", &headers, &question)).await.json();
    assert_eq!((&answer["allowed"], &answer["remaining"]), (&json!(true), &json!(1)), "{answer}");
    assert_eq!(wire.ask("THROTTLE shared 10 10 3600").numbers()[..3], [1, 10, 0]);
}
