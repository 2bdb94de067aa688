//! The whole service over real sockets, judged from the client. Its clock is set by hand, so nothing comes back unasked.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/site.rs"]
mod site;

use std::collections::BTreeMap;

use site::{ALICE, Answered, BOB, Site};

/// How often each status came, out of `many` requests at the same time.
async fn at_once(site: &Site, many: usize, headers: &[&[(&str, &str)]]) -> BTreeMap<u16, usize> {
    let mut asking = tokio::task::JoinSet::new();
    for turn in 0..many {
        let client = site.client([127, 0, 0, 1]);
        let headers = headers[turn % headers.len()];
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        asking.spawn(async move {
            let headers: Vec<_> =
                headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let mut client = client.await;
            client.send("GET", "/v1/forecast", &headers).await.status.as_u16()
        });
    }
    let mut statuses = BTreeMap::new();
    while let Some(status) = asking.join_next().await {
        *statuses.entry(status.unwrap()).or_default() += 1;
    }
    statuses
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_gets_ten_and_not_one_more() {
    let site = Site::start(&[]).await;
    let one: &[_] = &[ALICE, ("cf-connecting-ip", "192.0.2.1")];
    assert_eq!(at_once(&site, 60, &[one]).await, BTreeMap::from([(200, 10), (429, 50)]));
    let other: &[_] = &[ALICE, ("cf-connecting-ip", "192.0.2.2")];
    assert_eq!(at_once(&site, 3, &[other]).await, BTreeMap::from([(200, 3)]));
    site.wait(6);
    assert_eq!(at_once(&site, 5, &[one]).await, BTreeMap::from([(200, 1), (429, 4)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyone_together_gets_a_hundred() {
    let site = Site::start(&[("USER_RATE", "1000/min")]).await;
    let addresses: Vec<String> = (1..=15).map(|last| format!("192.0.2.{last}")).collect();
    let clients: Vec<[(&str, &str); 2]> =
        addresses.iter().map(|address| [ALICE, ("cf-connecting-ip", address.as_str())]).collect();
    let clients: Vec<&[(&str, &str)]> = clients.iter().map(|client| client.as_slice()).collect();
    assert_eq!(at_once(&site, 150, &clients).await, BTreeMap::from([(200, 100), (429, 50)]));
    let refused = site.ask(&[ALICE, ("cf-connecting-ip", "192.0.2.99")]).await;
    assert_eq!((refused.code().as_str(), refused.limit().as_str()), ("endpoint_rate_limited", "global"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_gets_twenty_from_all_addresses_together() {
    let site = Site::start(&[]).await;
    let clients: [&[_]; 3] = [
        &[ALICE, ("cf-connecting-ip", "192.0.2.1")],
        &[ALICE, ("cf-connecting-ip", "192.0.2.2")],
        &[ALICE, ("cf-connecting-ip", "192.0.2.3")],
    ];
    assert_eq!(at_once(&site, 30, &clients).await, BTreeMap::from([(200, 20), (429, 10)]));
    let refused = site.ask(&[ALICE, ("cf-connecting-ip", "192.0.2.4")]).await;
    assert_eq!((refused.status.as_u16(), refused.limit().as_str()), (429, "per-user"));
    let bob = site.ask(&[BOB, ("cf-connecting-ip", "192.0.2.4")]).await;
    assert_eq!(bob.status, 200, "bob has a budget of his own");
    site.wait(refused.header("retry-after").parse().unwrap());
    assert_eq!(site.ask(&[ALICE, ("cf-connecting-ip", "192.0.2.4")]).await.status, 200);
}

#[tokio::test]
async fn who_has_no_token_is_counted_before_being_turned_away() {
    let site = Site::start(&[]).await;
    let mut statuses = Vec::new();
    for turn in 0..12 {
        let guess = format!("Bearer guess-{turn}");
        statuses.push(site.ask(&[("authorization", &guess)]).await.status.as_u16());
    }
    assert_eq!(statuses, [vec![401; 10], vec![429; 2]].concat());
    assert_eq!(site.ask(&[ALICE]).await.status, 429, "the right token comes too late from there");
    let elsewhere = site.ask(&[ALICE, ("cf-connecting-ip", "192.0.2.1")]).await;
    assert_eq!(elsewhere.left("per-user"), Some(19), "no guess was charged to a user");
}

#[tokio::test]
async fn nobody_can_say_who_they_are_without_a_token() {
    let site = Site::start(&[]).await;
    assert_eq!(site.ask(&[("x-user", "alice")]).await.status, 401);
    for _ in 0..3 {
        site.ask(&[BOB, ("x-user", "alice")]).await;
    }
    assert_eq!(site.ask(&[ALICE]).await.left("per-user"), Some(19), "bob paid for what bob asked");
    assert_eq!(site.ask(&[BOB]).await.left("per-user"), Some(16));
}

#[tokio::test]
async fn the_address_is_believed_from_the_proxy_and_from_nobody_else() {
    let site = Site::start(&[]).await;
    let mut direct = site.client([127, 0, 0, 2]).await;
    let mut statuses = Vec::new();
    for turn in 0..12 {
        let forged = format!("192.0.2.{turn}");
        let headers = [("cf-connecting-ip", forged.as_str()), ("x-forwarded-for", forged.as_str())];
        statuses.push(direct.send("GET", "/", &headers).await.status.as_u16());
    }
    assert_eq!(statuses, [vec![200; 10], vec![429; 2]].concat(), "a new name every time buys nothing");
}

/// The document's fallback, which would let anybody choose an address.
#[tokio::test]
async fn no_other_header_stands_in_for_the_one_that_is_believed() {
    let site = Site::start(&[]).await;
    for turn in 0..3 {
        let answered = site.ask(&[ALICE, ("x-forwarded-for", &format!("192.0.2.{turn}"))]).await;
        assert_eq!(answered.left("per-address"), Some(9 - turn));
    }
}

#[tokio::test]
async fn answers_show_both_limits_and_refusals_when_to_come_back() {
    let site = Site::start(&[]).await;
    let answered = site.ask(&[ALICE]).await;
    assert_eq!((answered.left("per-address"), answered.left("per-user")), (Some(9), Some(19)));
    assert_eq!(answered.json()["daily"]["day"][0], "Monday");
    for _ in 0..9 {
        site.ask(&[ALICE]).await;
    }
    let refused = site.ask(&[ALICE]).await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, "6"));
    assert_eq!(refused.left("per-address"), Some(0));
    assert_eq!(refused.left("per-user"), None, "it was not asked");
    site.wait(6);
    assert_eq!(site.ask(&[ALICE]).await.left("per-user"), Some(11), "refusals cost the user nothing");
}

/// Every error has the same members, whoever made it.
#[tokio::test]
async fn errors_have_one_form_and_pages_elsewhere_may_read_them() {
    let site = Site::start(&[("USER_RATE", "1/min")]).await;
    let mut client = site.client([127, 0, 0, 1]).await;
    let mut errors: Vec<Answered> = Vec::new();
    errors.push(client.send("GET", "/v1/forecast", &[]).await);
    errors.push(client.send("GET", "/nowhere", &[]).await);
    errors.push(client.send("POST", "/", &[]).await);
    errors.push(client.send("GET", "/%zz", &[]).await);
    site.ask(&[ALICE]).await;
    errors.push(site.ask(&[ALICE]).await);
    for _ in 0..10 {
        site.ask(&[]).await;
    }
    errors.push(site.ask(&[]).await);
    let seen: Vec<_> = errors.iter().map(|error| (error.status.as_u16(), error.code())).collect();
    let expected = [
        (401, "unauthorized"),
        (404, "not_found"),
        (405, "method_not_allowed"),
        (400, "bad_path"),
        (429, "rate_limited"),
        (429, "rate_limited"),
    ];
    assert_eq!(seen, expected.map(|(status, code)| (status, code.to_owned())));
    for error in &errors {
        assert_eq!(error.header("content-type"), "application/json");
        assert_eq!(error.header("access-control-allow-origin"), "*");
        assert!(error.header("access-control-expose-headers").contains("Retry-After"));
        let body = error.json();
        assert_eq!(body["error"]["status"], error.status.as_u16());
        assert!(body["error"]["message"].is_string(), "{body}");
        let wait = body["error"]["retryAfter"].as_u64().map(|wait| wait.to_string());
        assert_eq!(wait.unwrap_or_default(), error.header("retry-after"));
    }
}

#[tokio::test]
async fn questions_ahead_of_a_request_are_answered_and_cost_nothing() {
    let site = Site::start(&[]).await;
    let mut client = site.client([127, 0, 0, 1]).await;
    let ahead = [("origin", "https://example.com"), ("access-control-request-method", "GET")];
    for _ in 0..20 {
        let answered = client.send("OPTIONS", "/v1/forecast", &ahead).await;
        assert_eq!(answered.status, 204);
        assert_eq!(answered.header("access-control-allow-headers"), "Authorization");
    }
    assert_eq!(site.ask(&[ALICE]).await.left("per-address"), Some(9));
}

#[tokio::test]
async fn while_the_store_fails_requests_pass_and_the_log_says_so() {
    let site = Site::start(&[]).await;
    for _ in 0..10 {
        site.ask(&[ALICE]).await;
    }
    assert_eq!(site.ask(&[ALICE]).await.status, 429);
    site.fail(true);
    assert_eq!(site.ask(&[ALICE]).await.status, 429, "for a second it is known who was refused");
    site.wait(2);
    for _ in 0..30 {
        let answered = site.ask(&[ALICE]).await;
        assert_eq!(
            (answered.status.as_u16(), answered.header("ratelimit")),
            (200, ""),
            "nobody knows what is left"
        );
    }
    assert_eq!(site.ask(&[]).await.status, 401, "open is not the same as unlocked");
    site.fail(false);
    site.wait(2);
    assert_eq!(site.ask(&[ALICE]).await.status, 429, "what was counted before still counts");
    let told: Vec<_> = site.said().iter().map(|line| site::parse(line)["state"].clone()).collect();
    let told: Vec<_> = told.iter().filter_map(|state| state.as_str()).collect();
    assert_eq!(told, ["down", "up"], "once each, and not for every request");
}

#[tokio::test]
async fn every_request_is_logged_without_its_address() {
    let site = Site::start(&[]).await;
    site.ask(&[ALICE, ("cf-connecting-ip", "192.0.2.77")]).await;
    site.ask(&[("cf-connecting-ip", "192.0.2.77")]).await;
    let said = site.said();
    let statuses: Vec<_> = said.iter().map(|line| site::parse(line)["status"].clone()).collect();
    assert_eq!(statuses, [200, 401]);
    assert!(said.iter().all(|line| !line.contains("192.0.2.77")));
}

#[tokio::test]
async fn the_page_is_there_and_counts_like_everything_else() {
    let site = Site::start(&[]).await;
    let page = site.client([127, 0, 0, 1]).await.send("GET", "/", &[]).await;
    assert!(page.header("content-type").starts_with("text/html"));
    assert!(page.text().contains("Get the forecast") && page.text().contains("/v1/forecast"));
    assert_eq!(page.left("per-address"), Some(9));
}
