//! Recognising somebody takes nothing from the heap, as long as no token is involved.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../threshold-store/tests/common/heap.rs"]
mod heap;

use heap::allocations_in;
use threshold::Timestamp;
use threshold::identify::{
    ClientIp, Facts, Headers, Identifier, Identity, IdentityRules, TenantSource, UserKind, UserSource,
};

const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

fn identifier(client_ip: ClientIp, tenant: TenantSource) -> Identifier {
    let rules = IdentityRules {
        trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()],
        client_ip,
        ipv6_aggregates: vec![56, 48],
        tenant: Some(tenant),
        user: vec![
            UserSource::Header("x-user".to_owned()),
            UserSource::ApiKey { header: "x-api-key".to_owned() },
            UserSource::Cookie("session".to_owned()),
        ],
        ..IdentityRules::default()
    };
    Identifier::new(rules).unwrap()
}

fn facts<'a>(peer: &str, headers: &'a dyn Headers) -> Facts<'a> {
    let host = Some("acme.grove.place:443");
    Facts {
        peer: peer.parse().unwrap(),
        method: "POST",
        host,
        path: "/t/acme/posts",
        bytes: Some(9),
        headers,
    }
}

#[track_caller]
fn identify_for_free<'a>(identifier: &Identifier, facts: &Facts<'a>) -> Identity<'a> {
    let mut identity = None;
    let count = allocations_in(|| identity = Some(identifier.identify(facts, NOW)));
    assert_eq!(count, 0);
    identity.unwrap()
}

#[test]
fn a_request_through_proxies_is_free() {
    let tenant = TenantSource::HostLabel { of: Some("grove.place".to_owned()) };
    let headers = [
        ("X-Forwarded-For", "6.6.6.6, 2001:db8:cafe::1, 10.1.1.1"),
        ("X-Forwarded-For", "10.2.2.2"),
        ("Forwarded", "for=\"[2001:db8:cafe::1]:80\";host=\"a,b\", for=10.2.2.2"),
        ("X-User", "alice"),
        ("Cookie", "a=b; session=s1"),
    ];
    for rule in [ClientIp::XForwardedFor, ClientIp::Forwarded] {
        let identifier = identifier(rule, tenant.clone());
        let identity = identify_for_free(&identifier, &facts("10.0.0.1", &headers));
        assert_eq!(identity.client.to_string(), "2001:db8:cafe::1");
        assert_eq!(identity.tenant.as_deref(), Some("acme"));
        assert_eq!((identity.user.as_deref(), identity.user_kind), (Some("alice"), Some(UserKind::Proxy)));
        let keys = allocations_in(|| assert_eq!(identifier.aggregate_keys(identity.client).count(), 2));
        assert_eq!(keys, 0);
    }
}

#[test]
fn attacks_and_doubts_are_free() {
    let identifier = identifier(ClientIp::XForwardedFor, TenantSource::Header("x-tenant".to_owned()));
    let mut headers = vec![("x-forwarded-for".to_owned(), "10.1.1.1,".repeat(5_000)); 200];
    for name in ["x-tenant", "x-user", "x-api-key", "x-api-key"] {
        headers.push((name.to_owned(), "\n".repeat(10_000)));
    }
    headers.push(("cookie".to_owned(), "session=a; session=b;".repeat(1_000)));
    for peer in ["203.0.113.9", "10.0.0.1"] {
        let identity = identify_for_free(&identifier, &facts(peer, &headers));
        assert_eq!(identity.client.to_string(), peer);
        assert_eq!((identity.tenant, identity.user), (None, None));
        assert!(!identity.doubts.is_empty());
    }
}

#[test]
fn a_path_and_a_cookie_are_free() {
    let identifier = identifier(ClientIp::CfConnectingIp, TenantSource::PathSegment(1));
    let headers = [("CF-Connecting-IP", "198.51.100.7"), ("Cookie", "session=s1")];
    let identity = identify_for_free(&identifier, &facts("10.0.0.1", &headers));
    assert_eq!(identity.client.to_string(), "198.51.100.7");
    assert_eq!((identity.tenant.as_deref(), identity.user.as_deref()), (Some("acme"), Some("s1")));
}
