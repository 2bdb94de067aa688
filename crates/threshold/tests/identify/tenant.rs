//! The tenant, from wherever the rules say.

use threshold::identify::{BadId, Doubt, Facts, Identifier, IdentityRules, TenantSource};

use crate::{NOW, PROXY, STRANGER, Seen, behind_proxies, facts, see};

fn by(source: TenantSource) -> IdentityRules {
    IdentityRules { tenant: Some(source), ..behind_proxies() }
}

fn of_host(host: &str, base: Option<&str>) -> Seen {
    let source = TenantSource::HostLabel { of: base.map(str::to_owned) };
    see(by(source), &Facts { host: Some(host), ..facts(STRANGER, &()) })
}

fn of_path(path: &str, index: usize) -> Seen {
    see(by(TenantSource::PathSegment(index)), &Facts { path, ..facts(STRANGER, &()) })
}

#[track_caller]
fn assert_tenant(seen: Seen, expected: &str) {
    assert_eq!((seen.tenant.as_deref(), seen.doubts), (Some(expected), vec![]));
}

#[track_caller]
fn assert_none(seen: Seen) {
    assert_eq!((seen.tenant, seen.doubts), (None, vec![]));
}

#[track_caller]
fn assert_bad(seen: Seen, reason: BadId) {
    assert_eq!((seen.tenant, seen.doubts), (None, vec![Doubt::BadTenant(reason)]));
}

#[test]
fn the_labels_in_front_of_the_base_domain() {
    let base = Some("grove.place");
    assert_tenant(of_host("acme.grove.place", base), "acme");
    assert_tenant(of_host("Acme.Grove.PLACE", base), "acme");
    assert_tenant(of_host("acme.grove.place:8443", base), "acme");
    assert_tenant(of_host("acme.grove.place.", base), "acme");
    assert_tenant(of_host("acme.grove.place.:80", base), "acme");
    assert_tenant(of_host("a.b.grove.place", base), "a.b");
    assert_tenant(of_host("acme.grove.place", Some(".Grove.Place.")), "acme");
    for other in
        ["grove.place", "acme-grove.place", "evilgrove.place", "acme.grove.place.evil.com", "place", "", "é"]
    {
        assert_none(of_host(other, base));
    }
}

#[test]
fn without_a_base_domain_the_first_of_three_labels() {
    assert_tenant(of_host("acme.example.com", None), "acme");
    assert_tenant(of_host("acme.eu.example.com", None), "acme");
    for other in
        ["example.com", "localhost", "localhost:80", "192.0.2.1", "192.0.2.1:80", "[2001:db8::1]:80", ""]
    {
        assert_none(of_host(other, None));
    }
}

#[test]
fn odd_hosts_name_nobody() {
    for host in [
        ".grove.place",
        "a..b.grove.place",
        "a b.grove.place",
        "a%2e.grove.place",
        "é.grove.place",
        "u@a.grove.place",
    ] {
        assert_bad(of_host(host, Some("grove.place")), BadId::Malformed);
    }
    let long = format!("{}.grove.place", "a".repeat(257));
    assert_bad(of_host(&long, Some("grove.place")), BadId::TooLong);
}

#[test]
fn a_segment_of_the_path() {
    assert_tenant(of_path("/acme/posts", 0), "acme");
    assert_tenant(of_path("/t/acme", 1), "acme");
    assert_tenant(of_path("/t/acme?tenant=evil", 1), "acme");
    assert_tenant(of_path("/t/Acme/a%20b", 1), "Acme");
    assert_tenant(of_path("/t/acme/", 1), "acme");
    assert_tenant(of_path("/t/acme//x", 1), "acme");
    for (path, index) in [("/", 0), ("", 0), ("/t", 1), ("/t/", 1), ("*", 0), ("?/acme", 0)] {
        assert_none(of_path(path, index));
    }
}

#[test]
fn a_path_that_can_be_read_in_two_ways_names_nobody() {
    let other_ways = [
        "/t/%61cme",
        "/t/acme%2f",
        "/t/acme;x",
        "//t/acme",
        "/t//acme",
        "/./acme",
        "/t/../acme",
        "/t/acme/../evil",
        "/t/acme/%2e%2E/evil",
        "/t/acme/x%2f..%2f..%2fevil",
        "/t/acme/..%5cevil",
        "/t/acme\\evil",
        "/t/acme/..",
        "/t/acme/.",
    ];
    for path in other_ways {
        assert_bad(of_path(path, 1), BadId::Malformed);
    }
    for fine in ["/t/acme/...", "/t/acme/.well-known", "/t/acme/a%2", "/t/acme/a.b"] {
        assert_tenant(of_path(fine, 1), "acme");
    }
}

#[test]
fn a_header_counts_from_a_trusted_proxy_only() {
    let rules = || by(TenantSource::Header("x-tenant".to_owned()));
    let headers = [("X-Tenant", " acme ")];
    assert_tenant(see(rules(), &facts(PROXY, &headers)), "acme");
    let stranger = see(rules(), &facts(STRANGER, &headers));
    assert_eq!((stranger.tenant, stranger.doubts), (None, vec![Doubt::UntrustedIdentityHeader]));
    assert_none(see(rules(), &facts(PROXY, &())));
    assert_none(see(rules(), &facts(PROXY, &[("x-tenant", "")])));
    assert_bad(see(rules(), &facts(PROXY, &[("x-tenant", "a"), ("x-tenant", "a")])), BadId::Repeated);
    assert_bad(see(rules(), &facts(PROXY, &[("x-tenant", "a\nb")])), BadId::NotText);
    assert_bad(see(rules(), &facts(PROXY, &[("x-tenant", b"\xff".as_slice())])), BadId::NotText);
    assert_tenant(see(rules(), &facts(PROXY, &[("x-tenant", "x".repeat(256))])), &"x".repeat(256));
    assert_bad(see(rules(), &facts(PROXY, &[("x-tenant", "x".repeat(257))])), BadId::TooLong);
}

#[test]
fn only_a_proxy_or_a_token_vouches_for_a_tenant() {
    let verified = |source| {
        let facts = Facts { host: Some("acme.example.com"), ..facts(PROXY, &[("x-tenant", "acme")]) };
        Identifier::new(by(source)).unwrap().identify(&facts, NOW).tenant_verified
    };
    assert!(verified(TenantSource::Header("x-tenant".to_owned())));
    assert!(!verified(TenantSource::Header("x-other".to_owned())));
    assert!(!verified(TenantSource::HostLabel { of: None }));
}
