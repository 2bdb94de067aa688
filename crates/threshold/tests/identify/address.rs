//! Addresses: networks, doubts, bounds and keys.

use std::collections::HashSet;

use threshold::identify::{Cidr, ClientIp, Doubt, Identifier, IdentityRules, address_key};

use crate::{PROXY, STRANGER, behind_proxies, facts, ip, see};

fn by(rule: ClientIp) -> IdentityRules {
    IdentityRules { client_ip: rule, ..behind_proxies() }
}

#[test]
fn by_default_the_client_is_the_peer() {
    let headers = [("x-forwarded-for", "6.6.6.6"), ("forwarded", "for=6.6.6.6")];
    let seen = see(IdentityRules::default(), &facts("::ffff:203.0.113.9", &headers));
    assert_eq!(seen.client, ip(STRANGER));
    assert_eq!(seen.doubts, []);
}

#[test]
fn what_cannot_be_read_is_the_peer_and_a_doubt() {
    let doubts = |rule: ClientIp, headers: &[(&str, &str)]| {
        let seen = see(by(rule), &facts(PROXY, &headers));
        assert_eq!(seen.client, ip(PROXY), "{headers:?}");
        seen.doubts
    };
    let unreadable = [Doubt::ForwardedUnreadable];
    assert_eq!(doubts(ClientIp::XForwardedFor, &[("x-forwarded-for", "6.6.6.6, unknown")]), unreadable);
    assert_eq!(doubts(ClientIp::XForwardedFor, &[("x-forwarded-for", "")]), unreadable);
    assert_eq!(doubts(ClientIp::Forwarded, &[("forwarded", "for=_hidden")]), unreadable);
    assert_eq!(doubts(ClientIp::Forwarded, &[("forwarded", "for=\"6.6.6.6")]), unreadable);
    assert_eq!(doubts(ClientIp::CfConnectingIp, &[("cf-connecting-ip", "6.6.6.6, 6.6.6.7")]), unreadable);
    let twice = [("x-real-ip", "6.6.6.6"), ("X-Real-IP", "6.6.6.6")];
    assert_eq!(doubts(ClientIp::Header("x-real-ip".into()), &twice), [Doubt::ForwardedRepeated]);
}

#[test]
fn a_missing_header_is_no_doubt() {
    for rule in [ClientIp::XForwardedFor, ClientIp::Forwarded, ClientIp::CfConnectingIp] {
        let seen = see(by(rule), &facts(PROXY, &()));
        assert_eq!((seen.client, seen.doubts), (ip(PROXY), vec![]));
    }
}

#[test]
fn the_walk_ends_after_64_hops() {
    let found = |trusted_hops: usize| {
        let value = format!("198.51.100.7{}", ", 10.1.1.1".repeat(trusted_hops));
        let seen = see(by(ClientIp::XForwardedFor), &facts(PROXY, &[("x-forwarded-for", value)]));
        (seen.client, seen.doubts)
    };
    assert_eq!(found(63), (ip("198.51.100.7"), vec![]));
    assert_eq!(found(64), (ip(PROXY), vec![Doubt::ForwardedTooLong]));
    assert_eq!(found(10_000), (ip(PROXY), vec![Doubt::ForwardedTooLong]));
}

#[test]
fn the_walk_ends_after_eight_kibibytes() {
    let found = |rule: ClientIp, name: &str, value: String| {
        let seen = see(by(rule), &facts(PROXY, &[(name, value)]));
        (seen.client, seen.doubts)
    };
    let too_long = (ip(PROXY), vec![Doubt::ForwardedTooLong]);
    // The client, a comma and one trusted hop behind many spaces: 8,192 bytes with the commas, and one more.
    let spaced = |spaces: usize| format!("198.51.100.7,{}10.1.1.1", " ".repeat(spaces));
    let fits = 8_192 - 13 - 8;
    assert_eq!(found(ClientIp::XForwardedFor, "x-forwarded-for", spaced(fits)).0, ip("198.51.100.7"));
    assert_eq!(found(ClientIp::XForwardedFor, "x-forwarded-for", spaced(fits + 1)), too_long);
    let quoted = format!("for=198.51.100.7, for=10.1.1.1;x=\"{}\"", "a".repeat(9_000));
    assert_eq!(found(ClientIp::Forwarded, "forwarded", quoted), too_long);
    // Any amount on the left of the client is no reason to look at it.
    let long = format!("{}, 198.51.100.7", "6.6.6.6 ".repeat(100_000));
    assert_eq!(found(ClientIp::XForwardedFor, "x-forwarded-for", long).0, ip("198.51.100.7"));
}

#[test]
fn the_client_is_known_before_anything_else_is() {
    let identifier = Identifier::new(by(ClientIp::XForwardedFor)).unwrap();
    let headers = [("X-Forwarded-For", "6.6.6.6, 198.51.100.7")];
    assert_eq!(identifier.client(&facts(PROXY, &headers)), (ip("198.51.100.7"), None));
    assert_eq!(identifier.client(&facts(STRANGER, &headers)), (ip(STRANGER), None));
    assert!(identifier.trusts(ip("::ffff:10.0.0.1")));
}

#[test]
fn networks_contain_what_they_say() {
    let contains = |network: &str, address: &str| network.parse::<Cidr>().unwrap().contains(ip(address));
    assert!(contains("10.0.0.0/8", "10.255.255.255"));
    assert!(!contains("10.0.0.0/8", "11.0.0.0"));
    assert!(contains("192.0.2.1", "192.0.2.1"));
    assert!(!contains("192.0.2.1", "192.0.2.2"));
    assert!(contains("0.0.0.0/0", "255.255.255.255"));
    assert!(contains("0.0.0.0/0", "::ffff:1.2.3.4"));
    assert!(!contains("0.0.0.0/0", "::1"));
    assert!(!contains("::/0", "1.2.3.4"));
    assert!(contains("::/0", "ffff::"));
    assert!(contains("2001:db8::/33", "2001:db8:7fff::1"));
    assert!(!contains("2001:db8::/33", "2001:db8:8000::1"));
    assert!(contains("::ffff:10.0.0.0/104", "10.9.9.9"));
    assert_eq!("::ffff:10.0.0.0/104".parse::<Cidr>().unwrap().to_string(), "10.0.0.0/8");
    assert_eq!("2001:db8::".parse::<Cidr>().unwrap().to_string(), "2001:db8::/128");
}

#[test]
fn what_is_no_network_is_refused_with_a_remedy() {
    for text in [
        "",
        "10.0.0.0/",
        "/8",
        "10.0.0/8",
        "10.0.0.0/08",
        "10.0.0.0/+8",
        "10.0.0.0/-1",
        "a/8",
        "10.0.0.0/8/8",
    ] {
        assert!(text.parse::<Cidr>().unwrap_err().to_string().contains("10.0.0.0/8"), "{text}");
    }
    let error = |text: &str| text.parse::<Cidr>().unwrap_err().to_string();
    assert_eq!(error("10.0.0.0/33"), "10.0.0.0/33 has a prefix longer than its address; use at most /32");
    assert_eq!(
        error("10.1.0.0/8"),
        "10.1.0.0/8 has bits set behind its prefix; write 10.0.0.0/8 if you mean the whole network"
    );
    assert!(error("::ffff:10.0.0.0/64").contains("is not a network"));
    assert!(error("fe80::1%1/64").contains("is not a network"));
}

#[test]
fn one_network_is_one_subject() {
    assert_eq!(address_key(ip("2001:db8::1"), 64), address_key(ip("2001:db8::ffff:0:1:2"), 64));
    assert_ne!(address_key(ip("2001:db8::1"), 64), address_key(ip("2001:db8:0:1::1"), 64));
    assert_eq!(address_key(ip("2001:db8::1"), 56), address_key(ip("2001:db8:0:ff::1"), 56));
    assert_ne!(address_key(ip("2001:db8::1"), 56), address_key(ip("2001:db8:0:100::1"), 56));
    assert_eq!(address_key(ip("::ffff:192.0.2.1"), 64), address_key(ip("192.0.2.1"), 48));
    assert_ne!(address_key(ip("192.0.2.1"), 64), address_key(ip("192.0.2.2"), 64));
    let lengths = [("192.0.2.1", 64), ("::", 64), ("::", 65)]
        .map(|(text, prefix)| address_key(ip(text), prefix).as_bytes().len());
    assert_eq!(lengths, [4, 9, 17], "only the bits that count");
}

#[test]
fn networks_inside_each_other_and_families_stay_apart() {
    let keys = [
        address_key(ip("2001:db8::"), 64),
        address_key(ip("2001:db8::"), 56),
        address_key(ip("2001:db8::"), 48),
        address_key(ip("0.0.0.0"), 64),
        address_key(ip("::"), 64),
        address_key(ip("0.0.0.1"), 128),
        address_key(ip("::1"), 128),
    ];
    assert_eq!(HashSet::from(keys).len(), keys.len());
}

#[test]
fn aggregates_are_subjects_of_ipv6_only() {
    let rules = IdentityRules { ipv6_aggregates: vec![56, 48], ..IdentityRules::default() };
    let identifier = Identifier::new(rules).unwrap();
    let client = ip("2001:db8:1:2:3::4");
    assert_eq!(identifier.address_key(client), address_key(client, 64));
    let aggregates: Vec<_> = identifier.aggregate_keys(client).collect();
    assert_eq!(aggregates, [address_key(client, 56), address_key(client, 48)]);
    assert_eq!(identifier.aggregate_keys(ip("::ffff:192.0.2.1")).count(), 0);
}
