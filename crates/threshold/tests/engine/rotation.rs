//! A new secret: what was counted under the one before still counts.

use crate::common::{Ask, Service, limited, override_all, rotate};

#[tokio::test]
async fn a_larger_network_keeps_what_it_consumed() {
    let text = "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\nclient_ip = \"x-forwarded-for\"\nipv6_aggregates = [{ prefix = 48, times = 2 }]\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"2/hour\"\n";
    let service = Service::new(text);
    let at = |n: usize| Ask::get("/").from(&format!("2001:db8:0:{n}::1"));
    let mut sum = 0;
    for n in 1..4 {
        sum += service.drain(&at(n), 5).await;
    }
    assert_eq!(sum, 4);
    let rotated = rotate(&service, text);
    let mut more = 0;
    for n in 10..14 {
        more += rotated.drain(&at(n), 5).await;
    }
    assert_eq!(more, 0, "the network used its 2 x 2 this hour");
}

#[tokio::test]
async fn an_override_of_another_period_keeps_what_was_consumed() {
    let text = limited("rate = \"10/hour\"");
    let service = Service::new(&text);
    let alice = Ask::get("/").by("alice");
    service.set(override_all("one", "5/day")).await;
    assert_eq!(service.drain(&alice, 9).await, 5);
    let rotated = rotate(&service, &text);
    rotated.set(override_all("one", "5/day")).await;
    assert_eq!(rotated.drain(&alice, 9).await, 0, "5 a day, and they are spent");
}

#[tokio::test]
async fn a_raised_override_raises_both() {
    let text = limited("rate = \"10/hour\"");
    let service = rotate(&Service::new(&text), &text);
    service.set(override_all("one", "20/hour")).await;
    assert_eq!(service.drain(&Ask::get("/").by("alice"), 30).await, 20);
}
