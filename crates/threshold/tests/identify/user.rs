//! The user, from headers, cookies and keys.

use threshold::identify::{BadId, Doubt, Headers, Identifier, IdentityRules, UserKind, UserSource};

use crate::{NOW, PROXY, STRANGER, Seen, behind_proxies, facts, see};

fn by(source: UserSource) -> IdentityRules {
    IdentityRules { user: vec![source], ..behind_proxies() }
}

fn cookie() -> UserSource {
    UserSource::Cookie("session".to_owned())
}

fn api_key(header: &str) -> UserSource {
    UserSource::ApiKey { header: header.to_owned() }
}

fn from_stranger(source: UserSource, headers: &dyn Headers) -> Seen {
    see(by(source), &facts(STRANGER, headers))
}

#[track_caller]
fn assert_user(seen: Seen, expected: &str, kind: UserKind) {
    assert_eq!((seen.user.as_deref(), seen.kind, seen.doubts), (Some(expected), Some(kind), vec![]));
}

#[track_caller]
fn assert_none(seen: Seen) {
    assert_eq!((seen.user, seen.kind, seen.doubts), (None, None, vec![]));
}

#[track_caller]
fn assert_bad(seen: Seen, reason: BadId) {
    assert_eq!((seen.user, seen.doubts), (None, vec![Doubt::BadUser(reason)]));
}

#[test]
fn a_header_counts_from_a_trusted_proxy_only() {
    let rules = || by(UserSource::Header("x-user".to_owned()));
    let headers = [("X-USER", "Alice")];
    assert_user(see(rules(), &facts(PROXY, &headers)), "Alice", UserKind::Proxy);
    let stranger = see(rules(), &facts(STRANGER, &headers));
    assert_eq!((stranger.user, stranger.doubts), (None, vec![Doubt::UntrustedIdentityHeader]));
    assert_none(see(rules(), &facts(STRANGER, &())));
    assert_bad(see(rules(), &facts(PROXY, &[("x-user", "a"), ("X-User", "b")])), BadId::Repeated);
}

#[test]
fn a_cookie_is_found_among_others_on_any_line() {
    let is = |expected: &str, headers: &[(&str, &str)]| {
        assert_user(from_stranger(cookie(), &headers), expected, UserKind::Cookie);
    };
    is("s1", &[("Cookie", "session=s1")]);
    is("s1", &[("cookie", "a=b; session=s1; c=d")]);
    is("s1", &[("cookie", "a=b"), ("COOKIE", "c=d;session=s1")]);
    is("s1", &[("cookie", " session = \"s1\" ")]);
    is("a=b", &[("cookie", "session=a=b")]);
    is("s1", &[("cookie", "session=s1; session=s1"), ("cookie", "session=\"s1\"")]);
    is("s1", &[("cookie", ";;;=;session;session=s1")]);
}

#[test]
fn a_cookie_of_another_name_is_another_cookie() {
    for line in [
        "",
        "Session=s1",
        "xsession=s1",
        "session2=s1",
        "session",
        "session=",
        "session=\"\"",
        "a=session=s1",
    ] {
        assert_none(from_stranger(cookie(), &[("cookie", line)]));
    }
}

#[test]
fn a_cookie_with_two_values_names_nobody() {
    assert_bad(from_stranger(cookie(), &[("cookie", "session=a; session=b")]), BadId::Repeated);
    assert_bad(from_stranger(cookie(), &[("cookie", "session=a"), ("cookie", "session=b")]), BadId::Repeated);
    assert_bad(from_stranger(cookie(), &[("cookie", "session=; session=b")]), BadId::Repeated);
}

#[test]
fn an_api_key_is_the_one_value_of_its_header() {
    assert_user(from_stranger(api_key("x-api-key"), &[("X-Api-Key", " k1 ")]), "k1", UserKind::ApiKey);
    assert_none(from_stranger(api_key("x-api-key"), &()));
    let twice = [("x-api-key", "k1"), ("x-api-key", "k2")];
    assert_bad(from_stranger(api_key("x-api-key"), &twice), BadId::Repeated);
    for value in ["Bearer k1", "bearer  k1", "BEARER\tk1", "k1"] {
        assert_user(
            from_stranger(api_key("Authorization"), &[("authorization", value)]),
            "k1",
            UserKind::ApiKey,
        );
    }
}

#[test]
fn an_id_has_at_most_256_bytes_of_text() {
    let key = |value: Vec<u8>| from_stranger(api_key("x-api-key"), &[("x-api-key", value)]);
    assert_user(key(vec![b'k'; 256]), &"k".repeat(256), UserKind::ApiKey);
    assert_bad(key(vec![b'k'; 257]), BadId::TooLong);
    assert_bad(key(vec![0xff]), BadId::NotText);
    assert_bad(key(b"a\0b".to_vec()), BadId::NotText);
}

#[test]
fn sources_are_asked_in_order() {
    let rules = || IdentityRules {
        user: vec![UserSource::Header("x-user".to_owned()), api_key("x-api-key"), cookie()],
        ..behind_proxies()
    };
    let all = [("x-user", "alice"), ("x-api-key", "k1"), ("cookie", "session=s1")];
    assert_user(see(rules(), &facts(PROXY, &all)), "alice", UserKind::Proxy);
    let stranger = see(rules(), &facts(STRANGER, &all));
    assert_eq!((stranger.user.as_deref(), stranger.kind), (Some("k1"), Some(UserKind::ApiKey)));
    assert_eq!(stranger.doubts, [Doubt::UntrustedIdentityHeader]);
    let bad_key = [("x-api-key", "a"), ("x-api-key", "b"), ("cookie", "session=s1")];
    let seen = see(rules(), &facts(STRANGER, &bad_key));
    assert_eq!((seen.user.as_deref(), seen.doubts), (Some("s1"), vec![Doubt::BadUser(BadId::Repeated)]));
}

#[test]
fn a_doubt_is_told_once() {
    let user = vec![UserSource::Header("x-user".to_owned()), UserSource::Header("x-other".to_owned())];
    let seen = see(
        IdentityRules { user, ..behind_proxies() },
        &facts(STRANGER, &[("x-user", "a"), ("x-other", "b")]),
    );
    assert_eq!(seen.doubts, [Doubt::UntrustedIdentityHeader]);
    assert_eq!(seen.doubts[0].to_string(), "untrusted_identity_header");
    assert_eq!(Doubt::BadUser(BadId::TooLong).to_string(), "bad_user:too_long");
}

#[test]
fn credentials_are_never_printed() {
    let headers = [("x-api-key", "hunter2")];
    let facts = facts(STRANGER, &headers);
    let identifier = Identifier::new(by(api_key("x-api-key"))).unwrap();
    let printed = format!("{:?}", identifier.identify(&facts, NOW));
    assert!(printed.contains("ApiKey") && !printed.contains("hunter2"), "{printed}");
}

#[test]
fn only_a_token_or_a_proxy_vouches_for_a_user() {
    assert!(UserKind::Token.verified() && UserKind::Proxy.verified());
    assert!(!UserKind::Cookie.verified() && !UserKind::ApiKey.verified());
    assert!(UserKind::Cookie.secret() && !UserKind::Token.secret());
}
