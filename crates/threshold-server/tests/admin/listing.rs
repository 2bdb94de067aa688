//! Lists come in pages, and every page goes on where the last ended.

use serde_json::json;

use super::common::{Operated, POLICY};

#[tokio::test(flavor = "multi_thread")]
async fn pages_go_on_where_the_last_ended_and_miss_nothing() {
    let operated = Operated::start(POLICY);
    for number in 0..23 {
        let kind = if number % 2 == 0 { "ban" } else { "shadow" };
        let ban = json!({ "client": format!("192.0.2.{number}"), "for": "1h", "reason": format!("{number}"), "kind": kind });
        operated.told("POST", "sanctions", &ban.to_string()).await;
    }
    for (filter, expected) in
        [("", (0..23).collect::<Vec<u32>>()), ("&kind=ban", (0..23).step_by(2).collect())]
    {
        for size in [1, 5, 12, 23, 100] {
            let (mut seen, mut after) = (Vec::new(), String::new());
            loop {
                let page = operated.told("GET", &format!("sanctions?limit={size}{filter}{after}"), "").await;
                let items = page["items"].as_array().unwrap();
                assert!(items.len() <= size, "{page}");
                seen.extend(
                    items.iter().map(|item| item["reason"].as_str().unwrap().parse::<u32>().unwrap()),
                );
                match page["next"].as_str() {
                    Some(next) => after = format!("&after={next}"),
                    None => break,
                }
            }
            assert_eq!(seen, expected, "{size} {filter}");
        }
    }
    let one = operated.told("GET", "sanctions?client=192.0.2.7", "").await;
    assert_eq!((one["items"].as_array().unwrap().len(), &one["items"][0]["reason"]), (1, &json!("7")));
    operated.told("DELETE", "sanctions/192.0.2.7", "").await;
    assert_eq!(operated.told("GET", "sanctions?client=192.0.2.7", "").await["items"], json!([]));
    let all = operated.told("GET", "sanctions?client=192.0.2.7&active=false", "").await;
    assert_eq!(all["items"][0]["inForce"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_come_first_where_they_are_asked_for() {
    let operated = Operated::start(POLICY);
    for number in 0..13 {
        let ban =
            json!({ "client": format!("192.0.2.{number}"), "for": "1h", "reason": "much", "kind": "ban" });
        operated.told("POST", "sanctions", &ban.to_string()).await;
    }
    let all = operated.told("GET", "audit", "").await;
    let mut ids: Vec<String> =
        all["items"].as_array().unwrap().iter().map(|item| item["id"].to_string()).collect();
    assert_eq!(ids.len(), 13, "{all}");
    assert_eq!(operated.told("GET", "audit?order=oldest", "").await, all);
    ids.reverse();
    for size in [1, 4, 13, 100] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let page = operated.told("GET", &format!("audit?order=newest&limit={size}{after}"), "").await;
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= size, "{page}");
            seen.extend(items.iter().map(|item| item["id"].to_string()));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        assert_eq!(seen, ids, "{size}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn violations_and_standings_are_told() {
    let operated = Operated::start(&format!("{POLICY}[ladder]\n"));
    for _ in 0..4 {
        operated.status().await;
    }
    let violations = operated.told("GET", "violations?client=127.0.0.1", "").await;
    assert_eq!(violations["items"][0]["limit"], "api", "{violations}");
    assert_eq!(operated.told("GET", "violations?order=newest&client=127.0.0.1", "").await, violations);
    let standing = operated.told("GET", "standing/127.0.0.1", "").await;
    assert_eq!(standing["subjects"][0]["violations"], 1, "{standing}");
    let counted = operated.told("GET", "analytics?view=violations&window=7d", "").await;
    assert_eq!(
        (&counted["rows"][0]["endpoint"], &counted["rows"][0]["violation_count"]),
        (&json!("api"), &json!(1))
    );
    assert_eq!(operated.told("GET", "violations?client=192.0.2.7", "").await["items"], json!([]));
}
