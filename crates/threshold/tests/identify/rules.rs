//! Rules that cannot work are refused, with a remedy.

use threshold::identify::{ClientIp, Identifier, IdentityRules, TenantSource, TierSource, UserSource};

fn refused(rules: IdentityRules) -> String {
    Identifier::new(rules).unwrap_err().to_string()
}

#[test]
fn prefixes_fit_each_other() {
    for prefix in [0, 129, 255] {
        let rules = IdentityRules { ipv6_prefix: prefix, ..IdentityRules::default() };
        assert!(refused(rules).contains("write 64"));
    }
    for aggregate in [0, 64, 65] {
        let rules = IdentityRules { ipv6_aggregates: vec![56, aggregate], ..IdentityRules::default() };
        assert!(refused(rules).contains("such as [56, 48]"));
    }
}

#[test]
fn names_can_be_sent() {
    for name in ["", "x user", "x:user", "naïve"] {
        let rules = [
            IdentityRules { client_ip: ClientIp::Header(name.into()), ..IdentityRules::default() },
            IdentityRules { tenant: Some(TenantSource::Header(name.into())), ..IdentityRules::default() },
            IdentityRules { user: vec![UserSource::Header(name.into())], ..IdentityRules::default() },
            IdentityRules { user: vec![UserSource::Cookie(name.into())], ..IdentityRules::default() },
            IdentityRules {
                user: vec![UserSource::ApiKey { header: name.into() }],
                ..IdentityRules::default()
            },
        ];
        for rules in rules {
            assert!(refused(rules).contains("cannot be the name of a"), "{name:?}");
        }
    }
}

#[test]
fn a_base_domain_is_a_domain() {
    for domain in ["", ".", "https://grove.place", "grove.place/x", "grove.place:80", "a..b"] {
        let tenant = TenantSource::HostLabel { of: Some(domain.to_owned()) };
        let rules = IdentityRules { tenant: Some(tenant), ..IdentityRules::default() };
        assert!(refused(rules).contains("is not a base domain"), "{domain:?}");
    }
}

#[test]
fn a_claim_needs_a_token() {
    let claim = |name: &str| IdentityRules {
        tenant: Some(TenantSource::JwtClaim(name.to_owned())),
        ..IdentityRules::default()
    };
    assert!(refused(claim("org")).contains("add a jwt source"));
    assert!(refused(claim("")).contains("has no name"));
    let tier = |source| IdentityRules { tier: Some(source), ..IdentityRules::default() };
    assert!(refused(tier(TierSource::JwtClaim("plan".to_owned()))).contains("the tier is a claim"));
    assert!(refused(tier(TierSource::JwtClaim(String::new()))).contains("the tier claim has no name"));
    assert!(
        refused(tier(TierSource::Header("x tier".to_owned()))).contains("cannot be the name of a header")
    );
}
