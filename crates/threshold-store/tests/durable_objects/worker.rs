//! The Worker, asked in plain bytes.

use serde_json::{Value, json};
use threshold_testkit::figures::size;
use threshold_testkit::servers::{Workerd, fresh_prefix, workerd};

use crate::http::{self, Answer, get, post, raw, send};
use crate::make::Dice;

fn port() -> u16 {
    workerd().rsplit(':').next().unwrap().parse().unwrap()
}

fn detail(answer: &Answer) -> String {
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer:?}");
    assert_eq!(answer.json()["status"], answer.status, "{answer:?}");
    answer.json()["detail"].as_str().unwrap().to_owned()
}

/// One step of cost 1 to a window of three.
fn window() -> Value {
    json!([2, 0, 0, 1, 3, 3_600_000_000_u64, 0])
}

fn ask(prefix: &str, steps: &[Value]) -> Value {
    let mut batch = vec![json!(1)];
    batch.extend_from_slice(steps);
    let body = json!({ "keys": ["0123456789abcdef0123456789abcdef"], "batches": [batch] });
    let answer = post(port(), &format!("/v1/judge?shard=7&prefix={prefix}"), &body.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[test]
fn a_batch_is_judged_and_says_what_it_found() {
    let prefix = fresh_prefix();
    let first = ask(&prefix, &[window()]);
    assert_eq!((&first["charged"], &first["found"]), (&json!([1]), &json!([null])));
    let second = ask(&prefix, &[window(), window(), window()]);
    assert_eq!(second["charged"], json!([0]), "all or nothing");
    assert_eq!(second["found"][0][1], json!(1));
    assert_eq!(ask(&prefix, &[window(), window()])["charged"], json!([1]));
    assert_eq!(ask(&prefix, &[window()])["charged"], json!([0]));
}

#[test]
fn only_who_has_the_token_may_ask() {
    let body = r#"{"keys":[],"batches":[]}"#;
    for token in
        ["", "Bearer", "Bearer ", "Bearer secre", "Bearer secret2", "bearer secret", "Basic secret", "secret"]
    {
        let answer = send(port(), "POST /v1/judge?shard=0", &[("Authorization", token)], body);
        assert_eq!(answer.status, 401, "{token:?}: {answer:?}");
        assert!(detail(&answer).contains("Authorization: Bearer TOKEN"), "{answer:?}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    for verb in ["judge", "refund", "reset", "open", "health"] {
        let answer = send(port(), &format!("POST /v1/{verb}"), &[], "{}");
        assert_eq!(answer.status, 401, "{verb}: {answer:?}");
    }
    assert_eq!(post(port(), "/v1/judge?shard=0", body).status, 200);
}

#[test]
fn what_is_malformed_is_told_where_and_how_to_put_it_right() {
    let key = "0123456789abcdef0123456789abcdef";
    let judged = |batches: Value| json!({ "keys": [key], "batches": batches }).to_string();
    let long: Vec<Value> = (0..1_025).map(|_| json!([1])).collect();
    let deep = vec![window(); 4_097];
    let cases = [
        (String::new(), "body: write JSON"),
        ("{".to_owned(), "body: write JSON"),
        ("[]".to_owned(), "body: write an object"),
        ("null".to_owned(), "body: write an object"),
        ("{}".to_owned(), "keys: write a list"),
        (r#"{"keys":["XYZ"]}"#.to_owned(), "keys[0]: write the key as 32 hexadecimal digits"),
        (r#"{"keys":[7]}"#.to_owned(), "keys[0]"),
        (r#"{"keys":[]}"#.to_owned(), "batches: write a list"),
        (r#"{"keys":[],"batches":[],"now":-1}"#.to_owned(), "now: write a whole number from 1"),
        (judged(json!([[]])), "batches[0][0]: write 1 to charge or 2 to look"),
        (judged(json!([[3]])), "batches[0][0]"),
        (judged(json!([[1, 5]])), "batches[0][1]: write a list"),
        (judged(json!([[1, [9]]])), "batches[0][1][0]: write what it is judged by"),
        (judged(json!([[1, ["1"]]])), "batches[0][1]"),
        (judged(json!([[1, ["4", 0, 0, 1, 3, 9]]])), "batches[0][1][0]: write what it is judged by"),
        (judged(json!([[1, ["length", 0, 0, 1, 3, 9]]])), "batches[0][1][0]"),
        (judged(json!([[1, ["__proto__", 0, 0, 1, 3, 9]]])), "batches[0][1][0]"),
        (json!({ "keys": [[key]], "batches": [[1, window()]] }).to_string(), "keys[0]"),
        (judged(json!([[1, [2, 0, 0, 1, 3]]])), "a fixed window has 7 members"),
        (judged(json!([[1, [2, 4, 0, 1, 3, 9, 0]]])), "batches[0][1][1]"),
        (
            judged(json!([[1, [2, 0, 1, 1, 3, 9, 0]]])),
            "batches[0][1][2]: write the place of a key; there are 1",
        ),
        (judged(json!([[1, [2, 0, 0, 0, 3, 9, 0]]])), "batches[0][1][3]: write a whole number from 1"),
        (judged(json!([[1, [2, 0, 0, -1, 3, 9, 0]]])), "batches[0][1][3]"),
        (judged(json!([[1, [2, 0, 0, 1.5, 3, 9, 0]]])), "batches[0][1][3]"),
        (judged(json!([[1, [2, 0, 0, 1e300, 3, 9, 0]]])), "batches[0][1][3]"),
        (judged(json!([[1, [2, 0, 0, "1", 3, 9, 0]]])), "batches[0][1][3]"),
        (judged(json!([[1, [2, 0, 0, null, 3, 9, 0]]])), "batches[0][1][3]"),
        (
            judged(json!([[1, [4, 0, 0, 1, 10_001, 9]]])),
            "batches[0][1][4]: write a whole number from 0 to 10000",
        ),
        (
            judged(json!([[1, [5, 0, 0, "me", 1, 3, 9]]])),
            "batches[0][1][3]: write the permit as 32 hexadecimal",
        ),
        (judged(json!(long)), "batches: write at most 1024"),
        (judged(json!([[1], ([json!(1)].into_iter().chain(deep).collect::<Vec<_>>())])), "at most 4097"),
    ];
    for (body, says) in cases {
        let answer = post(port(), "/v1/judge?shard=0", &body);
        assert_eq!(answer.status, 400, "{says}: {answer:?}");
        assert!(detail(&answer).contains(says), "{says}: {answer:?}");
    }
    assert!(
        detail(&post(port(), "/v1/refund?shard=0", r#"{"keys":[],"refunds":[["a"]]}"#))
            .contains("refunds[0][0]")
    );
    assert!(detail(&post(port(), "/v1/open", r#"{"secret":"a"}"#)).contains("secret: write the fingerprint"));
}

/// Puts something else in the place of one value somewhere in it.
fn disturb(value: &mut Value, dice: &mut Dice) {
    const ODD: [&str; 14] = [
        "null",
        "true",
        "-1",
        "0",
        "1",
        "2",
        "1.5",
        "1e300",
        "4503599627370496",
        "9007199254740993",
        "\"x\"",
        "[]",
        "{}",
        "[[1]]",
    ];
    let members: Vec<&mut Value> = match value {
        Value::Array(list) => list.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => Vec::new(),
    };
    if members.is_empty() || dice.roll(6) == 0 {
        *value = serde_json::from_str(ODD[dice.below(ODD.len())]).unwrap();
        return;
    }
    let at = dice.below(members.len());
    disturb(members.into_iter().nth(at).unwrap(), dice);
}

#[test]
fn no_body_breaks_it() {
    let (prefix, mut dice) = (fresh_prefix(), Dice(11));
    let key = |n: u64| format!("{n:032x}");
    let (id, hour) = ("0123456789abcdef0123456789abcdef", 3_600_000_000_u64);
    let judged = json!({ "now": 1_800_000_000_000_000_u64, "keys": [key(1), key(2), key(3), key(4), key(5)], "batches": [
        [1, [1, 0, 0, 6_000_000, 0, 60_000_000, 0, 1, 10, 9, 60_000_000, 10], [2, 0, 1, 1, 3, hour, 0]],
        [1, [3, 1, 2, 1, 3, hour, 878_907, 4_096], [4, 0, 3, 1, 3, hour], [5, 0, 4, id, 1, 3, hour]],
        [2, [6, 0, 4, id, 0, 3, hour], [7, 0, 4, id, 0, 3, hour], [0, 2, 0], [0, 0, 3, 4, hour], [1, 2, 0, 7, 0, 9, 0, 3, 11, 9, 60_000_000, 1]],
    ] });
    let refunded = json!({ "now": 1_800_000_000_000_000_u64, "keys": [key(1), key(2), key(3), key(4)], "refunds": [
        [1_800_000_000_000_000_u64, [1, 0, 0, 6_000_000, 0, 60_000_000, 0, 1, 10, 9, 60_000_000, 10], [4, 0, 3, 1, 3, hour]],
        [5, [2, 0, 1, 1, 3, hour, 0], [3, 0, 2, 1, 3, hour, 878_907, 4_096]],
    ] });
    let mut seen = std::collections::BTreeMap::new();
    for round in 0..size(600, 20_000) {
        let (verb, mut body) =
            if round % 3 == 0 { ("refund", refunded.clone()) } else { ("judge", judged.clone()) };
        (0..=dice.roll(3)).for_each(|_| disturb(&mut body, &mut dice));
        let answer = post(port(), &format!("/v1/{verb}?shard=7&prefix={prefix}"), &body.to_string());
        assert!([200, 400].contains(&answer.status), "{body}: {answer:?}");
        *seen.entry(answer.status).or_insert(0) += 1;
    }
    assert!(seen.values().all(|count| *count > 20), "some make sense and some do not: {seen:?}");
}

#[test]
fn what_goes_nowhere_is_told() {
    for (line, status, says) in [
        ("POST /", 404, "ask /v1/judge"),
        ("POST /v1/", 404, "ask /v1/judge"),
        ("POST /v2/judge", 404, "ask /v1/judge"),
        ("POST /v1/judge", 400, "shard: write a whole number from 0 to 127"),
        ("POST /v1/judge?shard=128", 400, "shard"),
        ("POST /v1/judge?shard=1.5", 400, "shard"),
        ("POST /v1/judge?shard=x", 400, "shard"),
        ("POST /v1/judge?shard=0&shards=64", 409, "there are 128 shards here, not 64"),
        ("POST /v1/judge?shard=0&prefix=a/b", 400, "prefix"),
        ("POST /v1/judge?shard=0&prefix=", 400, "prefix"),
        ("GET /v1/judge?shard=0", 405, "POST"),
        ("DELETE /v1/reset?shard=0", 405, "POST"),
    ] {
        let answer = send(port(), line, &[("Authorization", "Bearer secret")], "{}");
        assert_eq!(answer.status, status, "{line}: {answer:?}");
        assert!(detail(&answer).contains(says), "{line}: {answer:?}");
    }
}

#[test]
fn bodies_are_bounded() {
    let head =
        "POST /v1/judge?shard=0 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer secret\r\n";
    let answer =
        raw(port(), format!("{head}Content-Length: 1048577\r\n\r\n{}", " ".repeat(1_048_577)).as_bytes());
    assert_eq!(answer.status, 413, "{answer:?}");
    assert!(detail(&answer).contains("longer than 1048576 bytes"), "{answer:?}");
    let answer =
        raw(port(), format!("{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n").as_bytes());
    assert_eq!(answer.status, 411, "{answer:?}");
    assert!(detail(&answer).contains("Content-Length"), "{answer:?}");
}

#[test]
fn who_hangs_up_keeps_nobody_waiting() {
    let prefix = fresh_prefix();
    let body =
        json!({ "keys": ["0123456789abcdef0123456789abcdef"], "batches": [[1, window()]] }).to_string();
    let request = format!(
        "POST /v1/judge?shard=7&prefix={prefix} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for _ in 0..20 {
        for _ in 0..5 {
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", port())).unwrap();
            std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        }
        ask(&prefix, &[window()]);
    }
    assert_eq!(ask(&prefix, &[window()])["charged"], json!([0]), "whoever asked was charged");
}

#[test]
fn many_requests_of_one_decision_each_are_all_answered() {
    let (prefix, rounds) = (fresh_prefix(), size(200, 2_000));
    let count = 32 * rounds;
    let step = json!([2, 0, 0, 1, count / 2, 3_600_000_000_u64, 0]);
    let body = json!({ "keys": ["0123456789abcdef0123456789abcdef"], "batches": [[1, step]] }).to_string();
    let request = format!(
        "POST /v1/judge?shard=7&prefix={prefix} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let caller = || {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port())).unwrap();
        (0..rounds).filter(|_| http::again(&mut stream, &request).contains("\"charged\":[1]")).count()
    };
    let admitted: usize = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..32).map(|_| scope.spawn(caller)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    assert_eq!(admitted, count / 2);
}

#[test]
fn its_health_is_the_time_and_what_is_kept() {
    let answer = send(port(), "GET /v1/health", &[("Authorization", "Bearer secret")], "");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!((&answer.json()["version"], &answer.json()["shards"]), (&json!(1), &json!(128)));
    assert!(answer.json()["now"].as_u64().unwrap() > 1_700_000_000_000_000);
}

#[test]
fn a_number_of_shards_that_changed_is_refused() {
    let server = Workerd::tested();
    let open = |shards: u16| {
        let said = get(server.port(), &format!("/inside/open?shards={shards}")).body;
        serde_json::from_str::<Value>(&said).unwrap_or_else(|_| panic!("{said}"))
    };
    assert_eq!(open(128)[0], json!(200));
    let refused = open(64);
    assert_eq!(refused[0], json!(409));
    assert!(refused[1].as_str().unwrap().contains("set SHARDS to 128 again"), "{refused}");
}
