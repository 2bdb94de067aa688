//! Whom a limit counts by: addresses, networks, anonymous users, unknown tenants, accounts.

use crate::common::{Ask, IDENTITY, Service};

fn per(per: &str, rate: &str) -> Service {
    Service::new(&format!(
        "{IDENTITY}\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nper = {per}\nrate = \"{rate}\"\n"
    ))
}

#[tokio::test]
async fn anonymous_users_are_counted_by_address() {
    let service = per("\"user\"", "3/min");
    let anonymous = |address: &str| Ask::get("/").from(address);
    assert_eq!(service.drain(&anonymous("192.0.2.1"), 5).await, 3);
    assert_eq!(service.drain(&anonymous("192.0.2.2"), 5).await, 3);
    assert_eq!(service.drain(&anonymous("192.0.2.1").by("alice"), 5).await, 3, "a user is no address");
}

#[tokio::test]
async fn ipv6_addresses_of_one_network_are_one_client() {
    let service = per("\"ip\"", "3/min");
    let from = |address: &str| Ask::get("/").from(address);
    let rotating = ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::", "2001:db8::abcd"];
    let mut allowed = 0;
    for address in rotating {
        allowed += service.drain(&from(address), 2).await;
    }
    assert_eq!(allowed, 3);
    assert_eq!(service.drain(&from("2001:db8:0:1::1"), 5).await, 3, "the next /64 is another client");
    assert_eq!(service.drain(&from("::ffff:192.0.2.9"), 2).await, 2);
    assert_eq!(service.drain(&from("192.0.2.9"), 2).await, 1, "the same address in both notations");
}

#[tokio::test]
async fn larger_networks_are_counted_at_once() {
    let policy = IDENTITY.replace(
        "[identity]",
        "[identity]\nipv6_aggregates = [{ prefix = 56, times = 2 }, { prefix = 48, times = 3 }]",
    );
    let service =
        Service::new(&format!("{policy}\n[[limit]]\nid = \"ip\"\nlayer = \"edge\"\nrate = \"10/min\"\n"));
    let mut by_56 = 0;
    for subnet in 0..8 {
        by_56 += service.drain(&Ask::get("/").from(&format!("2001:db8:0:{subnet:x}::1")), 5).await;
    }
    assert_eq!(by_56, 20, "eight networks of one /56: twice the limit together");
    let mut by_48 = 0;
    for subnet in 1..8 {
        by_48 += service.drain(&Ask::get("/").from(&format!("2001:db8:0:{subnet:x}00::1")), 10).await;
    }
    assert_eq!(by_48, 10, "the /48 has three times the limit, and 20 of it are gone");
    assert_eq!(service.drain(&Ask::get("/").from("192.0.2.1"), 20).await, 10);
}

#[tokio::test]
async fn a_tenant_that_only_the_request_names_must_be_known() {
    let policy = IDENTITY.replace("tenant = { header = \"x-tenant\" }", "tenant = { path_segment = 0 }");
    let service = Service::new(&format!(
        "{policy}\n[tiers.t]\nr = \"5/min\"\n[tenants]\nknown = \"t\"\n\
         [[limit]]\nid = \"tenant\"\nlayer = \"tenant\"\nrate = \"5/min\"\n\
         [[limit]]\nid = \"user\"\nlayer = \"user\"\nper = \"user\"\nrate = \"4/min\"\n"
    ));
    let mut allowed = 0;
    for name in 0..10 {
        allowed += service.drain(&Ask::get(&format!("/forged-{name}/x")).by("mallory"), 2).await;
    }
    assert_eq!(allowed, 4, "made-up tenants are one unknown tenant and mint no fresh users");
    assert_eq!(service.drain(&Ask::get("/known/x").by("mallory").from("192.0.2.50"), 9).await, 4);
}

#[tokio::test]
async fn several_parts_are_one_subject() {
    let service = per("[\"account\", \"ip\"]", "2/min");
    let login = |account, address: &str| Ask { account: Some(account), ..Ask::get("/").from(address) };
    assert_eq!(service.drain(&login("alice", "192.0.2.1"), 5).await, 2);
    assert_eq!(service.drain(&login("alice", "192.0.2.2"), 5).await, 2);
    assert_eq!(service.drain(&login("bob", "192.0.2.1"), 5).await, 2);
    assert_eq!(service.drain(&Ask::get("/"), 5).await, 5, "without an account the limit has no subject");
}

#[tokio::test]
async fn everyone_is_one_subject() {
    let service = per("\"everyone\"", "4/min");
    let mut allowed = 0;
    for address in 0..10 {
        allowed += service.drain(&Ask::get("/").from(&format!("192.0.2.{address}")), 1).await;
    }
    assert_eq!(allowed, 4);
}

#[tokio::test]
async fn headers_of_strangers_are_not_believed() {
    let service = per("\"user\"", "3/min");
    let mut allowed = 0;
    for forged in 0..10 {
        let ask = Ask::get("/").by(&format!("user-{forged}")).from(&format!("10.0.0.{forged}"));
        allowed += service.drain(&Ask { peer: "203.0.113.5".parse().unwrap(), ..ask }, 1).await;
    }
    assert_eq!(allowed, 3);
}
