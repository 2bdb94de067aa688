//! The hourly alarm: what it drops, what it leaves, and that a restart does not put it off.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use threshold_testkit::servers::Workerd;

use crate::http::{get, post};

const OBJECT: &str = "threshold/7";
const HOUR: u64 = 3_600_000_000;

fn look(server: &Workerd) -> Value {
    get(server.port(), &format!("/inside/look?object={OBJECT}")).json()
}

/// Charges each key once: at `now` if it is given, else by the object's own time.
fn charge(server: &Workerd, keys: &[String], step: &Value, now: Option<u64>) {
    for keys in keys.chunks(1_000) {
        let batch = |place: usize| {
            let mut step = step.clone();
            step[2] = json!(place);
            json!([1, step])
        };
        let batches: Vec<Value> = (0..keys.len()).map(batch).collect();
        let mut body = json!({ "keys": keys, "batches": batches });
        if let Some(now) = now {
            body["now"] = json!(now);
        }
        let answer = post(server.port(), "/v1/judge?shard=7", &body.to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["charged"], json!(vec![1; keys.len()]));
    }
}

fn keys(kind: char, count: usize) -> Vec<String> {
    // Spread as hashes are.
    (0..count).map(|n| format!("{:024x}{:06x}{:02x}", n * 7_919 % 65_536, n, kind as u32)).collect()
}

fn window() -> Value {
    json!([2, 0, 0, 1, 3, HOUR, 0])
}

fn log() -> Value {
    json!([4, 0, 0, 1, 3, HOUR])
}

fn permit() -> Value {
    json!([5, 0, 0, "0123456789abcdef0123456789abcdef", 1, 3, HOUR])
}

/// Waits until the object has that many rows, in the order of its tables.
fn comes_down_to(server: &Workerd, rows: [u64; 3]) -> Value {
    let wanted = json!({ "cells": rows[0], "entries": rows[1], "permits": rows[2] });
    for _ in 0..1_200 {
        let seen = look(server);
        if seen["rows"] == wanted {
            return seen;
        }
        sleep(Duration::from_millis(25));
    }
    panic!("{:?}, not {wanted}", look(server));
}

#[test]
fn it_drops_what_is_over_page_by_page_and_leaves_the_rest() {
    let server = Workerd::tested();
    let long_ago = Some(1_000_000_000_000_000);
    charge(&server, &keys('a', 2_500), &window(), long_ago);
    charge(&server, &keys('b', 10), &window(), None);
    charge(&server, &keys('c', 30), &log(), long_ago);
    charge(&server, &keys('d', 3), &log(), None);
    charge(&server, &keys('e', 20), &permit(), long_ago);
    charge(&server, &keys('f', 2), &permit(), None);
    let before = look(&server);
    assert_eq!(before["rows"], json!({ "cells": 2_510, "entries": 33, "permits": 22 }));
    assert!(before["alarm"].is_u64(), "the first write sets it: {before}");
    get(server.port(), &format!("/inside/ring?object={OBJECT}"));
    let after = comes_down_to(&server, [10, 3, 2]);
    assert_eq!(after["sweeps"], json!(3), "2,510 rows are three pages");
    assert!(after["alarm"].as_u64() > before["alarm"].as_u64(), "the next is an hour later: {after}");
    // What was left is still charged, what was dropped is as new.
    let judge = |key: &String| {
        let body = json!({ "keys": [key], "batches": [[1, window(), window(), window()]] }).to_string();
        post(server.port(), "/v1/judge?shard=7", &body).json()["charged"][0].clone()
    };
    assert_eq!((judge(&keys('b', 1)[0]), judge(&keys('a', 1)[0])), (json!(0), json!(1)));
}

/// Each table is gone through once, however many pages the others have.
#[test]
fn a_short_table_waits_for_a_long_one() {
    let server = Workerd::tested();
    let long_ago = Some(1_000_000_000_000_000);
    charge(&server, &keys('a', 3_500), &window(), None);
    charge(&server, &keys('c', 4_500), &log(), long_ago);
    get(server.port(), &format!("/inside/ring?object={OBJECT}"));
    comes_down_to(&server, [3_500, 0, 0]);
    // The last page of the cells may still be to come, and a second round would begin at once.
    sleep(Duration::from_millis(500));
    assert_eq!(look(&server)["sweeps"], json!(5), "4,500 rows are five pages");
}

#[test]
fn what_left_a_log_leaves_its_rows_too() {
    let server = Workerd::tested();
    let begin = 1_000_000_000_000_000;
    for at in [0, 1, 2, HOUR + 1, HOUR + 2, HOUR + 3, 3 * HOUR, 3 * HOUR + 1] {
        charge(&server, &keys('a', 1), &log(), Some(begin + at));
    }
    // At each admission what had left by the last one goes.
    assert_eq!(look(&server)["rows"]["entries"], json!(2));
}

#[test]
fn a_restart_neither_forgets_the_alarm_nor_puts_it_off() {
    let mut server = Workerd::tested();
    charge(&server, &keys('a', 5), &window(), None);
    let before = look(&server)["alarm"].clone();
    for _ in 0..2 {
        server.start_again();
        charge(&server, &keys('b', 5), &window(), Some(1_000_000_000_000_000));
        assert_eq!(look(&server)["alarm"], before);
        let keys = keys('b', 5);
        let reset = post(server.port(), "/v1/reset?shard=7", &json!({ "keys": keys }).to_string());
        assert_eq!(reset.status, 200, "{reset:?}");
    }
    assert_eq!(look(&server)["rows"]["cells"], json!(5));
}

#[test]
fn an_alarm_that_was_due_while_nobody_ran_rings_after_the_restart() {
    let mut server = Workerd::tested();
    charge(&server, &keys('a', 5), &window(), Some(1_000_000_000_000_000));
    get(server.port(), &format!("/inside/later?object={OBJECT}"));
    server.kill();
    sleep(Duration::from_millis(1_500));
    server.start_again();
    comes_down_to(&server, [0, 0, 0]);
    assert_eq!(look(&server)["alarm"], json!(null), "an empty object has nothing to sweep");
    charge(&server, &keys('a', 1), &window(), None);
    assert!(look(&server)["alarm"].is_u64(), "and sets it again with the next write");
}

#[test]
fn time_does_not_go_back_behind_what_was_written_down() {
    let mut server = Workerd::tested();
    let ask = |server: &Workerd| {
        let body = json!({ "keys": keys('a', 1), "batches": [[1, window()]] }).to_string();
        post(server.port(), "/v1/judge?shard=7", &body).json()["now"].as_u64().unwrap()
    };
    let first = ask(&server);
    // As if the clock had been an hour ahead in the life before.
    get(server.port(), &format!("/inside/ahead?object={OBJECT}&last={}", first + HOUR));
    server.start_again();
    assert!(ask(&server) >= first + HOUR);
}
