//! Tokens: which ones count, and that no other ever does.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use threshold::Timestamp;
use threshold::identify::{
    BadToken, Doubt, Headers, Identifier, IdentityRules, JwtKey, JwtRules, MAX_TOKEN_BYTES, TenantSource,
    TierSource, TokenSource, UserKind, UserSource,
};

use crate::{NOW, STRANGER, Seen, behind_proxies, facts, see_with};

const SECRET: &[u8] = b"a secret of the issuer, for tests only";
const RSA_PUBLIC: &str = include_str!("../data/jwt/rs256-public.pem");
const RSA_PRIVATE: &str = include_str!("../data/jwt/rs256-private.pem");
const EC_PUBLIC: &str = include_str!("../data/jwt/es256-public.pem");
const EC_PRIVATE: &str = include_str!("../data/jwt/es256-private.pem");
const ED_PUBLIC: &str = include_str!("../data/jwt/eddsa-public.pem");
const ED_PRIVATE: &str = include_str!("../data/jwt/eddsa-private.pem");
const P384_PUBLIC: &str = include_str!("../data/jwt/p384-public.pem");
const RSA_1024_PUBLIC: &str = include_str!("../data/jwt/rsa1024-public.pem");

/// [`NOW`] in seconds.
const SECONDS: u64 = 1_800_000_000;

fn hs256() -> JwtRules {
    JwtRules::new(JwtKey::Hs256(SECRET.to_vec()))
}

fn rules(jwt: JwtRules) -> IdentityRules {
    IdentityRules { user: vec![UserSource::Jwt(jwt)], ..behind_proxies() }
}

fn alice() -> Value {
    json!({ "sub": "alice", "exp": SECONDS + 300 })
}

fn signed(claims: &Value) -> String {
    encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(SECRET)).unwrap()
}

fn see_in(rules: IdentityRules, headers: &dyn Headers) -> Seen {
    see_with(&Identifier::new(rules).unwrap(), &facts(STRANGER, headers))
}

fn bearing(jwt: JwtRules, token: &str) -> Seen {
    see_in(rules(jwt), &[("Authorization", format!("Bearer {token}"))])
}

#[track_caller]
fn assert_user(seen: Seen, expected: &str) {
    assert_eq!(
        (seen.user.as_deref(), seen.kind, seen.doubts),
        (Some(expected), Some(UserKind::Token), vec![])
    );
}

#[track_caller]
fn assert_bad(seen: Seen, reason: BadToken) {
    assert_eq!((seen.user, seen.tenant, seen.doubts), (None, None, vec![Doubt::BadToken(reason)]));
}

#[test]
fn a_good_token_names_its_user() {
    assert_user(bearing(hs256(), &signed(&alice())), "alice");
    let number = json!({ "sub": 42, "exp": SECONDS + 300 });
    assert_user(bearing(hs256(), &signed(&number)), "42");
    let large = json!({ "sub": u64::MAX, "exp": SECONDS + 300 });
    assert_user(bearing(hs256(), &signed(&large)), "18446744073709551615");
    let other = JwtRules { claim: "email".to_owned(), ..hs256() };
    let email = json!({ "sub": "1", "email": "a@example.com", "exp": SECONDS + 300 });
    assert_user(bearing(other, &signed(&email)), "a@example.com");
}

#[test]
fn every_algorithm_verifies_with_its_public_key() {
    let keys = [
        (
            Algorithm::RS256,
            EncodingKey::from_rsa_pem(RSA_PRIVATE.as_bytes()),
            JwtKey::Rs256(RSA_PUBLIC.to_owned()),
        ),
        (
            Algorithm::ES256,
            EncodingKey::from_ec_pem(EC_PRIVATE.as_bytes()),
            JwtKey::Es256(EC_PUBLIC.to_owned()),
        ),
        (
            Algorithm::EdDSA,
            EncodingKey::from_ed_pem(ED_PRIVATE.as_bytes()),
            JwtKey::EdDsa(ED_PUBLIC.to_owned()),
        ),
    ];
    for (algorithm, private, public) in keys {
        let token = encode(&Header::new(algorithm), &alice(), &private.unwrap()).unwrap();
        assert_user(bearing(JwtRules::new(public.clone()), &token), "alice");
        // Another payload under the same signature.
        let parts: Vec<&str> = token.split('.').collect();
        let mallory = signed(&json!({ "sub": "mallory", "exp": SECONDS + 300 }));
        let forged = format!("{}.{}.{}", parts[0], mallory.split('.').nth(1).unwrap(), parts[2]);
        assert_bad(bearing(JwtRules::new(public), &forged), BadToken::Signature);
        assert_bad(bearing(hs256(), &token), BadToken::Algorithm);
    }
}

#[test]
fn a_public_key_is_no_secret() {
    // The attack: the public key is known to all, so sign with it as if it were the secret of HS256.
    for public in [RSA_PUBLIC, RSA_PUBLIC.trim(), EC_PUBLIC, ED_PUBLIC] {
        let key = EncodingKey::from_secret(public.as_bytes());
        let token = encode(&Header::new(Algorithm::HS256), &alice(), &key).unwrap();
        let keys = [
            JwtKey::Rs256(RSA_PUBLIC.to_owned()),
            JwtKey::Es256(EC_PUBLIC.to_owned()),
            JwtKey::EdDsa(ED_PUBLIC.to_owned()),
        ];
        for key in keys {
            assert_bad(bearing(JwtRules::new(key), &token), BadToken::Algorithm);
        }
    }
}

#[test]
fn another_key_or_algorithm_signs_for_nobody() {
    let sign = |algorithm, secret: &[u8]| {
        encode(&Header::new(algorithm), &alice(), &EncodingKey::from_secret(secret)).unwrap()
    };
    assert_bad(bearing(hs256(), &sign(Algorithm::HS256, b"guess")), BadToken::Signature);
    assert_bad(bearing(hs256(), &sign(Algorithm::HS384, SECRET)), BadToken::Algorithm);
    assert_bad(bearing(hs256(), &sign(Algorithm::HS512, SECRET)), BadToken::Algorithm);
}

#[test]
fn a_token_without_a_signature_names_nobody() {
    let token = signed(&alice());
    let (message, signature) = token.rsplit_once('.').unwrap();
    let payload = message.split_once('.').unwrap().1;
    // {"alg":"none"}, {"alg":"None"} and {"alg":"NONE","typ":"JWT"}.
    for header in ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJOb25lIn0", "eyJhbGciOiJOT05FIiwidHlwIjoiSldUIn0"] {
        assert_bad(bearing(hs256(), &format!("{header}.{payload}.")), BadToken::Malformed);
        assert_bad(bearing(hs256(), &format!("{header}.{payload}.{signature}")), BadToken::Malformed);
    }
    assert_bad(bearing(hs256(), &format!("{message}.")), BadToken::Signature);
}

#[test]
fn a_truncated_token_names_nobody() {
    let token = signed(&alice());
    for length in 1..token.len() {
        let seen = bearing(hs256(), &token[..length]);
        assert_eq!(seen.user, None, "{length} bytes");
        assert!(matches!(seen.doubts[..], [Doubt::BadToken(_)]), "{length} bytes: {:?}", seen.doubts);
    }
    for garbage in [".", "..", "...", "a.b.c", "{}", "\u{7f}", "é.é.é"] {
        assert_bad(bearing(hs256(), garbage), BadToken::Malformed);
    }
}

#[test]
fn a_huge_token_is_not_even_read() {
    let sized =
        |padding: usize| signed(&json!({ "sub": "alice", "exp": SECONDS + 300, "pad": "x".repeat(padding) }));
    let fits = sized(12_000);
    assert!(fits.len() <= MAX_TOKEN_BYTES);
    assert_user(bearing(hs256(), &fits), "alice");
    let huge = sized(12_400);
    assert!(huge.len() > MAX_TOKEN_BYTES);
    assert_bad(bearing(hs256(), &huge), BadToken::TooLong);
}

fn at(micros: u64, claims: &Value) -> Result<String, BadToken> {
    let headers = [("authorization", format!("Bearer {}", signed(claims)))];
    let identifier = Identifier::new(rules(JwtRules { leeway_secs: 60, ..hs256() })).unwrap();
    let identity = identifier.identify(&facts(STRANGER, &headers), Timestamp::from_micros(micros));
    match (identity.user, identity.doubts.as_slice()) {
        (Some(user), []) => Ok(user.into()),
        (None, [Doubt::BadToken(reason)]) => Err(*reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_token_lasts_until_its_expiry_and_the_leeway() {
    let exp = SECONDS;
    let claims = json!({ "sub": "alice", "exp": exp });
    let end = (exp + 60) * 1_000_000;
    assert_eq!(at((exp + 59) * 1_000_000, &claims), Ok("alice".to_owned()));
    assert_eq!(at(end - 1, &claims), Ok("alice".to_owned()));
    assert_eq!(at(end, &claims), Err(BadToken::Expired));
    assert_eq!(at((exp + 61) * 1_000_000, &claims), Err(BadToken::Expired));
    let fraction = json!({ "sub": "alice", "exp": 1_800_000_000.5 });
    assert_eq!(at(end + 499_999, &fraction), Ok("alice".to_owned()));
    assert_eq!(at(end + 500_000, &fraction), Err(BadToken::Expired));
}

#[test]
fn a_token_begins_a_leeway_before_its_time() {
    let claims = json!({ "sub": "alice", "exp": SECONDS + 900, "nbf": SECONDS });
    let start = (SECONDS - 60) * 1_000_000;
    assert_eq!(at(start - 1, &claims), Err(BadToken::NotYetValid));
    assert_eq!(at((SECONDS - 61) * 1_000_000, &claims), Err(BadToken::NotYetValid));
    assert_eq!(at(start, &claims), Ok("alice".to_owned()));
}

#[test]
fn without_leeway_the_second_itself_decides() {
    let seen = |exp: u64| {
        bearing(JwtRules { leeway_secs: 0, ..hs256() }, &signed(&json!({ "sub": "a", "exp": exp })))
    };
    assert_eq!(NOW.as_micros(), SECONDS * 1_000_000);
    assert_user(seen(SECONDS + 1), "a");
    assert_bad(seen(SECONDS), BadToken::Expired);
}

#[test]
fn times_that_are_none_or_absurd_do_no_harm() {
    let with = |exp: Value| bearing(hs256(), &signed(&json!({ "sub": "alice", "exp": exp })));
    assert_bad(bearing(hs256(), &signed(&json!({ "sub": "alice" }))), BadToken::NoExpiry);
    assert_bad(with(json!("tomorrow")), BadToken::Malformed);
    assert_bad(with(json!(null)), BadToken::Malformed);
    assert_bad(with(json!(-1)), BadToken::Expired);
    assert_bad(with(json!(-1e300)), BadToken::Expired);
    assert_user(with(json!(u64::MAX)), "alice");
    assert_user(with(json!(1e300)), "alice");
    let nbf = json!({ "sub": "alice", "exp": SECONDS + 300, "nbf": "later" });
    assert_bad(bearing(hs256(), &signed(&nbf)), BadToken::Malformed);
    let boundless = JwtRules { leeway_secs: u64::MAX, ..hs256() };
    assert_user(bearing(boundless, &signed(&json!({ "sub": "alice", "exp": 1, "nbf": u64::MAX }))), "alice");
}

#[test]
fn a_token_names_its_user_in_the_claim() {
    let with = |sub: Value| bearing(hs256(), &signed(&json!({ "sub": sub, "exp": SECONDS + 300 })));
    assert_bad(bearing(hs256(), &signed(&json!({ "exp": SECONDS + 300 }))), BadToken::Claim);
    for sub in [json!(null), json!(true), json!(1.5), json!(""), json!("a\nb")] {
        assert_bad(with(sub), BadToken::Claim);
    }
    for sub in [json!(["alice"]), json!({ "id": 1 })] {
        let seen = with(sub);
        assert!(seen.user.is_none() && matches!(seen.doubts[..], [Doubt::BadToken(_)]), "{seen:?}");
    }
    assert_user(with(json!("x".repeat(256))), &"x".repeat(256));
    assert_bad(with(json!("x".repeat(257))), BadToken::Claim);
}

#[test]
fn issuer_and_audience_must_match_if_they_are_asked_for() {
    let with = |more: Value| {
        let mut claims = alice();
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        signed(&claims)
    };
    let issuer = || JwtRules { issuer: Some("https://id.example".to_owned()), ..hs256() };
    assert_user(bearing(issuer(), &with(json!({ "iss": "https://id.example" }))), "alice");
    for wrong in
        [json!({}), json!({ "iss": "https://evil.example" }), json!({ "iss": ["https://id.example"] })]
    {
        assert_bad(bearing(issuer(), &with(wrong)), BadToken::Issuer);
    }
    let audience = || JwtRules { audience: Some("api".to_owned()), ..hs256() };
    assert_user(bearing(audience(), &with(json!({ "aud": "api" }))), "alice");
    assert_user(bearing(audience(), &with(json!({ "aud": ["web", "api"] }))), "alice");
    for wrong in [
        json!({}),
        json!({ "aud": "web" }),
        json!({ "aud": ["web"] }),
        json!({ "aud": 1 }),
        json!({ "aud": "apis" }),
    ] {
        assert_bad(bearing(audience(), &with(wrong)), BadToken::Audience);
    }
    assert_user(bearing(hs256(), &with(json!({ "aud": "anybody", "iss": "anybody" }))), "alice");
}

#[test]
fn extensions_that_must_be_understood_are_not() {
    let header = Header { crit: Some(vec!["b64".to_owned()]), ..Header::new(Algorithm::HS256) };
    let token = encode(&header, &alice(), &EncodingKey::from_secret(SECRET)).unwrap();
    assert_bad(bearing(hs256(), &token), BadToken::Malformed);
}

#[test]
fn a_token_is_where_the_rules_say() {
    let token = signed(&alice());
    let from = |from: TokenSource| rules(JwtRules { from, ..hs256() });
    for scheme in ["bearer", "BEARER", "Bearer  "] {
        assert_user(
            see_in(from(TokenSource::Bearer), &[("authorization", format!("{scheme} {token}"))]),
            "alice",
        );
    }
    let cookie = [("cookie", format!("a=b; token={token}"))];
    assert_user(see_in(from(TokenSource::Cookie("token".to_owned())), &cookie), "alice");
    let header = [("X-Token", token.clone())];
    assert_user(see_in(from(TokenSource::Header("x-token".to_owned())), &header), "alice");
    for elsewhere in [format!("Basic {token}"), token.clone(), "Bearer".to_owned(), String::new()] {
        let seen = see_in(from(TokenSource::Bearer), &[("authorization", elsewhere)]);
        assert_eq!((seen.user, seen.doubts), (None, vec![]));
    }
    let twice = [("authorization", format!("Bearer {token}")), ("authorization", format!("Bearer {token}"))];
    assert_bad(see_in(from(TokenSource::Bearer), &twice), BadToken::Repeated);
}

#[test]
fn a_bad_token_is_nobody_even_beside_a_cookie() {
    let session = || UserSource::Cookie("session".to_owned());
    let rules = || IdentityRules { user: vec![UserSource::Jwt(hs256()), session()], ..behind_proxies() };
    let expired = format!("Bearer {}", signed(&json!({ "sub": "alice", "exp": 1 })));
    let both = [("authorization", expired.as_str()), ("cookie", "session=s1")];
    assert_bad(see_in(rules(), &both), BadToken::Expired);
    let seen = see_in(rules(), &both[1..].to_vec());
    assert_eq!((seen.user.as_deref(), seen.kind), (Some("s1"), Some(UserKind::Cookie)));
}

#[test]
fn keys_can_be_rotated() {
    let old = UserSource::Jwt(JwtRules::new(JwtKey::Hs256(b"the old secret".to_vec())));
    let rules = || IdentityRules { user: vec![old.clone(), UserSource::Jwt(hs256())], ..behind_proxies() };
    let good = [("authorization", format!("Bearer {}", signed(&alice())))];
    assert_user(see_in(rules(), &good), "alice");
    let expired = [("authorization", format!("Bearer {}", signed(&json!({ "sub": "alice", "exp": 1 }))))];
    let seen = see_in(rules(), &expired);
    assert_eq!(seen.user, None);
    assert_eq!(seen.doubts, [BadToken::Signature, BadToken::Expired].map(Doubt::BadToken));
    assert_eq!(seen.doubts[1].to_string(), "bad_token:expired");
}

#[test]
fn a_tenant_can_be_a_claim_of_a_good_token() {
    let rules = || IdentityRules { tenant: Some(TenantSource::JwtClaim("org".to_owned())), ..rules(hs256()) };
    let with = |org: Value, exp: u64| {
        let token = signed(&json!({ "sub": "alice", "org": org, "exp": exp }));
        see_in(rules(), &[("authorization", format!("Bearer {token}"))])
    };
    assert_eq!(with(json!("acme"), SECONDS + 300).tenant.as_deref(), Some("acme"));
    assert_eq!(with(json!(7), SECONDS + 300).tenant.as_deref(), Some("7"));
    assert_eq!(with(json!(null), SECONDS + 300).tenant, None);
    assert_eq!(with(json!("acme"), 1).tenant, None);
    let long = with(json!("x".repeat(257)), SECONDS + 300);
    assert_eq!((long.tenant, long.user.as_deref(), long.doubts.len()), (None, Some("alice"), 1));
}

#[test]
fn a_tier_can_be_a_claim_of_a_good_token() {
    let rules = || IdentityRules { tier: Some(TierSource::JwtClaim("plan".to_owned())), ..rules(hs256()) };
    let with = |plan: Value, exp: u64| {
        let token = signed(&json!({ "sub": "alice", "plan": plan, "exp": exp }));
        see_in(rules(), &[("authorization", format!("Bearer {token}"))])
    };
    assert_eq!(with(json!("oak"), SECONDS + 300).tier.as_deref(), Some("oak"));
    assert_eq!(with(json!("oak"), 1).tier, None, "an expired token says nothing");
    let long = with(json!("x".repeat(257)), SECONDS + 300);
    assert_eq!((long.tier, long.doubts[0].name()), (None, "bad_tier"));
}

fn refused(key: JwtKey) -> String {
    Identifier::new(rules(JwtRules::new(key))).unwrap_err().to_string()
}

#[test]
fn a_key_that_verifies_nothing_is_refused_with_a_remedy() {
    assert!(refused(JwtKey::Hs256(vec![])).contains("the secret is empty"));
    for pem in ["", "not a key", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"] {
        for key in [JwtKey::Rs256(pem.into()), JwtKey::Es256(pem.into()), JwtKey::EdDsa(pem.into())] {
            assert!(refused(key).contains("-pubout"), "{pem:?}");
        }
    }
    for (private, key) in [
        (RSA_PRIVATE, JwtKey::Rs256(RSA_PRIVATE.to_owned())),
        (EC_PRIVATE, JwtKey::Es256(EC_PRIVATE.to_owned())),
        (ED_PRIVATE, JwtKey::EdDsa(ED_PRIVATE.to_owned())),
    ] {
        let message = refused(key);
        assert!(message.contains("it is a private key"), "{message}");
        assert!(!message.contains(private.lines().nth(1).unwrap()), "the key is in the message");
    }
    assert!(refused(JwtKey::Rs256(EC_PUBLIC.to_owned())).contains("another algorithm"));
    assert!(refused(JwtKey::Es256(ED_PUBLIC.to_owned())).contains("another algorithm"));
    assert!(refused(JwtKey::EdDsa(RSA_PUBLIC.to_owned())).contains("another algorithm"));
    assert!(refused(JwtKey::Es256(P384_PUBLIC.to_owned())).contains("P-256"));
    assert!(refused(JwtKey::Rs256(RSA_1024_PUBLIC.to_owned())).contains("2048 bits"));
    let nameless = JwtRules { claim: String::new(), ..hs256() };
    assert!(Identifier::new(rules(nameless)).unwrap_err().to_string().contains("has no name"));
}

#[test]
fn keys_are_never_printed() {
    let printed = format!("{:?}", rules(hs256()));
    assert!(printed.contains("JwtKey(HS256, ..)"), "{printed}");
    assert!(!printed.contains("secret of the issuer") && !printed.contains("97, 32"), "{printed}");
}
