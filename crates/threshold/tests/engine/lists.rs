//! Who is bound by nothing, and who is refused.

use threshold::Retry;
use threshold::engine::Reason;

use crate::common::{Ask, IDENTITY, Service};

fn service(lists: &str) -> Service {
    let policy = format!(
        "{IDENTITY}\n[tenants]\nacme = \"t\"\nevil = \"t\"\n[tiers.t]\nrequests = \"100/min\"\n[[limit]]\nid = \"edge\"\nlayer = \"edge\"\nrate = \"2/min\"\n[lists]\n{lists}\n"
    );
    Service::new(&policy)
}

#[tokio::test]
async fn networks_users_and_tenants_that_no_limit_binds() {
    let service = service(
        "allow = [\"10.0.0.0/8\", \"2001:db8::/32\"]\nallow_users = [\"root\", \"acme/admin\"]\nallow_tenants = [\"acme\"]",
    );
    assert_eq!(service.drain(&Ask::get("/"), 10).await, 2);
    assert_eq!(service.drain(&Ask::get("/").from("10.9.9.9"), 10).await, 10);
    assert_eq!(service.drain(&Ask::get("/").from("2001:db8:5::1"), 10).await, 10);
    assert_eq!(service.drain(&Ask::get("/").by("root"), 10).await, 10);
    assert_eq!(service.drain(&Ask::get("/").of("acme"), 10).await, 10);
    assert_eq!(service.drain(&Ask::get("/").of("evil").by("admin").from("192.0.2.50"), 10).await, 2);
}

#[tokio::test]
async fn those_that_are_refused_for_good() {
    let service =
        service("deny = [\"203.0.113.0/24\"]\ndeny_users = [\"mallory\"]\ndeny_tenants = [\"evil\"]");
    for ask in [Ask::get("/").from("203.0.113.9"), Ask::get("/").by("mallory"), Ask::get("/").of("evil")] {
        let refusal = service.ask(&ask).await.refusal().expect("refused");
        assert_eq!((refusal.reason, refusal.retry), (Reason::Listed, Retry::Never));
    }
    assert_eq!(service.drain(&Ask::get("/"), 10).await, 2, "all others are limited as ever");
}

#[tokio::test]
async fn who_is_on_both_is_refused() {
    let service = service("allow = [\"10.0.0.0/8\"]\ndeny = [\"10.6.0.0/16\"]\ndeny_users = [\"mallory\"]");
    assert!(service.allows(&Ask::get("/").from("10.1.1.1")).await);
    assert!(!service.allows(&Ask::get("/").from("10.6.6.6")).await);
    assert!(!service.allows(&Ask::get("/").from("10.1.1.1").by("mallory")).await);
}

#[tokio::test]
async fn a_name_alone_opens_nothing() {
    let policy = "[identity]\nuser = { cookie = \"name\" }\n[[limit]]\nid = \"edge\"\nlayer = \"edge\"\nrate = \"2/min\"\n[lists]\nallow_users = [\"root\"]\n";
    let service = Service::new(policy);
    let forger = Ask { peer: "203.0.113.9".parse().unwrap(), ..Ask::get("/") }.with("cookie", "name=root");
    assert_eq!(service.drain(&forger, 10).await, 2);
}
