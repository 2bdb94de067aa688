//! Who is asking: sources that exclude each other, keys that are missing.

use super::super::Policy;
use super::super::decode::{Placed, Reader};
use super::super::identity::{Identity, Jwt, JwtAlgorithm};
use crate::identify::ClientIp;

pub(super) fn check(policy: &Policy, reader: &mut Reader<'_>) {
    let Some(identity) = &policy.identity else { return };
    sources(identity, reader);
    prefixes(identity, reader);
    for user in identity.user.iter().flat_map(|users| &users.0) {
        if let Some(jwt) = &user.jwt {
            token(jwt, reader);
        }
    }
    if let Some(tier) = &identity.unknown_tier
        && policy.tiers.get(tier).is_none()
        && !reader.is_unread("tiers")
    {
        let what = format!("there is no tier {:?}", tier.value);
        reader.note_placed(tier, what, format!("add [tiers.{}]", tier.value));
    }
}

fn sources(identity: &Identity, reader: &mut Reader<'_>) {
    let users = || identity.user.iter().flat_map(|users| &users.0);
    if let Some(client_ip) = &identity.client_ip
        && client_ip.value != ClientIp::Peer
        && identity.trusted_proxies.is_empty()
    {
        let remedy = "list your proxies in `trusted_proxies`, or use \"peer\"";
        reader.note_placed(client_ip, "nobody is trusted to send this header", remedy);
    }
    if let Some(tenant) = &identity.tenant {
        let named = [tenant.host_label.is_some(), tenant.header.is_some(), tenant.jwt_claim.is_some()];
        if count(&named) + usize::from(tenant.path_segment.is_some()) != 1 {
            let remedy = "keep one of `host_label`, `header`, `path_segment` and `jwt_claim`";
            reader.note_placed(tenant, "a tenant is read in exactly one place", remedy);
        }
    }
    if let Some(tier) = &identity.tier
        && tier.header.is_some() == tier.jwt_claim.is_some()
    {
        let remedy = "keep one of `header` and `jwt_claim`";
        reader.note_placed(tier, "a tier is read in exactly one place", remedy);
    }
    for user in users() {
        let named =
            [user.header.is_some(), user.cookie.is_some(), user.api_key.is_some(), user.jwt.is_some()];
        if count(&named) != 1 {
            let remedy = "keep one of `jwt`, `header`, `cookie` and `api_key`; for several, write a list";
            reader.note_placed(user, "a user is read in exactly one place", remedy);
        }
    }
    let no_token = !users().any(|user| user.jwt.is_some());
    let remedy = "add `user = { jwt = { ... } }`";
    if let Some(tenant) = identity.tenant.as_ref().filter(|tenant| tenant.jwt_claim.is_some() && no_token) {
        reader.note_placed(tenant, "there is no token to read a claim from", remedy);
    }
    if let Some(tier) = identity.tier.as_ref().filter(|tier| tier.jwt_claim.is_some() && no_token) {
        reader.note_placed(tier, "there is no token to read a claim from", remedy);
    }
}

fn count(flags: &[bool]) -> usize {
    flags.iter().filter(|flag| **flag).count()
}

fn prefixes(identity: &Identity, reader: &mut Reader<'_>) {
    let own = identity.ipv6_prefix.as_ref().map_or(64, |prefix| prefix.value);
    if let Some(prefix) = &identity.ipv6_prefix
        && !(32..=128).contains(&prefix.value)
    {
        reader.note_placed(
            prefix,
            format!("/{own} is no prefix of one client"),
            "use 32 to 128; 64 is usual",
        );
    }
    for (index, aggregate) in identity.ipv6_aggregates.iter().enumerate() {
        let earlier = &identity.ipv6_aggregates[..index];
        if earlier.iter().any(|other| other.prefix.value == aggregate.prefix.value) {
            let what = format!("/{} stands here twice", aggregate.prefix.value);
            reader.note_placed(&aggregate.prefix, what, "remove one of them");
        }
        if ![48, 56].contains(&aggregate.prefix.value) || aggregate.prefix.value >= own {
            let what = format!("/{} is no network above /{own}", aggregate.prefix.value);
            reader.note_placed(&aggregate.prefix, what, "use 56 or 48");
        }
        if aggregate.times.value == 0 {
            reader.note_placed(&aggregate.times, "no part of the limit is left", "use at least 1");
        }
    }
}

fn token(jwt: &Placed<Jwt>, reader: &mut Reader<'_>) {
    if let Some(name) = &jwt.secret_env
        && (reader.environment)(name).is_none_or(|value| value.is_empty())
    {
        let what = format!("the environment variable {} is not set", name.value);
        reader.note_placed(name, what, "set it");
    }
    let secrets = usize::from(jwt.secret.is_some()) + usize::from(jwt.secret_env.is_some());
    match jwt.algorithm {
        JwtAlgorithm::Hs256 if secrets != 1 || jwt.public_key.is_some() => {
            reader.note_placed(
                jwt,
                "HS256 needs one secret",
                "add `secret_env = \"JWT_SECRET\"`, and no public key",
            );
        }
        JwtAlgorithm::Rs256 | JwtAlgorithm::Es256 | JwtAlgorithm::EdDsa
            if secrets > 0 || jwt.public_key.is_none() =>
        {
            reader.note_placed(
                jwt,
                "this algorithm needs a public key",
                "add `public_key`, in PEM, and no secret",
            );
        }
        _ => {}
    }
    if jwt.cookie.is_some() && jwt.header.is_some() {
        reader.note_placed(jwt, "a token is read in one place", "keep one of `cookie` and `header`");
    }
}
