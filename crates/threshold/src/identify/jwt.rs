//! Signed tokens: who signed them, and what they say.
//!
//! The library checks the signature, with the one configured algorithm. Everything else is checked here: it
//! would ask the system for the time, and pass tokens that lack the claims it was told to compare.

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::{Map, Value};
use threshold_core::Timestamp;

use super::doubt::BadToken;
use super::error::IdentityError;
use super::rules::{JwtKey, JwtRules};
use super::user::Also;

type Claims = Map<String, Value>;

const MICROS: i128 = 1_000_000;

/// Verifies the tokens of one issuer.
pub(super) struct Verifier {
    key: DecodingKey,
    validation: Validation,
    user: String,
    also: Also<String>,
    leeway: i128,
    issuer: Option<String>,
    audience: Option<String>,
}

/// Whom a verified token names.
pub(super) struct Named {
    pub(super) user: String,
    pub(super) also: Also<String>,
}

impl Verifier {
    /// Reads the key. `also` are the claims that name more than the user.
    pub(super) fn new(rules: &JwtRules, also: &Also<String>) -> Result<Self, IdentityError> {
        if rules.claim.is_empty() {
            return Err(IdentityError::Claim("user"));
        }
        let (key, algorithm) = read_key(&rules.key)?;
        Ok(Self {
            key,
            validation: signature_only(algorithm),
            user: rules.claim.clone(),
            also: also.clone(),
            leeway: i128::from(rules.leeway_secs) * MICROS,
            issuer: rules.issuer.clone(),
            audience: rules.audience.clone(),
        })
    }

    /// Whom the token names, if it is good at `now`.
    pub(super) fn verify(&self, token: &[u8], now: Timestamp) -> Result<Named, BadToken> {
        let data =
            decode::<Claims>(token, &self.key, &self.validation).map_err(|error| reason(error.kind()))?;
        // Extensions that must be understood are not: RFC 7515, part 4.1.11.
        if data.header.crit.is_some() {
            return Err(BadToken::Malformed);
        }
        self.check_time(&data.claims, now)?;
        self.check_parties(&data.claims)?;
        let said = |claim: &Option<String>| data.claims.get(claim.as_ref()?).and_then(id);
        Ok(Named {
            user: data.claims.get(&self.user).and_then(id).ok_or(BadToken::Claim)?,
            also: Also { tenant: said(&self.also.tenant), tier: said(&self.also.tier) },
        })
    }

    /// Good from `nbf` on and before `exp`, each moved by the leeway.
    fn check_time(&self, claims: &Claims, now: Timestamp) -> Result<(), BadToken> {
        let now = i128::from(now.as_micros());
        let expiry = time(claims, "exp")?.ok_or(BadToken::NoExpiry)?;
        if now >= expiry.saturating_add(self.leeway) {
            return Err(BadToken::Expired);
        }
        match time(claims, "nbf")? {
            Some(start) if now < start.saturating_sub(self.leeway) => Err(BadToken::NotYetValid),
            _ => Ok(()),
        }
    }

    fn check_parties(&self, claims: &Claims) -> Result<(), BadToken> {
        if self
            .issuer
            .as_ref()
            .is_some_and(|wanted| claims.get("iss").and_then(Value::as_str) != Some(wanted))
        {
            return Err(BadToken::Issuer);
        }
        let is_for = |wanted: &String| match claims.get("aud") {
            Some(Value::String(one)) => one == wanted,
            Some(Value::Array(several)) => several.iter().any(|one| one.as_str() == Some(wanted)),
            _ => false,
        };
        if self.audience.as_ref().is_some_and(|wanted| !is_for(wanted)) {
            return Err(BadToken::Audience);
        }
        Ok(())
    }
}

/// Everything the library would check by the system's clock or by its own rules is switched off.
fn signature_only(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation
}

fn reason(kind: &ErrorKind) -> BadToken {
    match kind {
        ErrorKind::InvalidAlgorithm => BadToken::Algorithm,
        ErrorKind::InvalidSignature => BadToken::Signature,
        _ => BadToken::Malformed,
    }
}

/// A claim that is a time, in microseconds. Seconds may have a fraction.
fn time(claims: &Claims, name: &str) -> Result<Option<i128>, BadToken> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    let micros = whole.map(|seconds| seconds * MICROS);
    // The cast holds at the ends of the range.
    let micros = micros.or_else(|| value.as_f64().map(|seconds| (seconds * 1e6) as i128));
    micros.map(Some).ok_or(BadToken::Malformed)
}

/// An id is a string or an integer.
fn id(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if !number.is_f64() => Some(number.to_string()),
        _ => None,
    }
}

fn read_key(key: &JwtKey) -> Result<(DecodingKey, Algorithm), IdentityError> {
    let refuse = |problem, remedy| IdentityError::Key { algorithm: key.algorithm(), problem, remedy };
    let (read, algorithm) = match key {
        JwtKey::Hs256(secret) if secret.is_empty() => {
            return Err(refuse("the secret is empty", "set the secret that the issuer signs with"));
        }
        JwtKey::Hs256(secret) => return Ok((DecodingKey::from_secret(secret), Algorithm::HS256)),
        JwtKey::Rs256(pem) => (public(pem, DecodingKey::from_rsa_pem), Algorithm::RS256),
        JwtKey::Es256(pem) => (public(pem, DecodingKey::from_ec_pem), Algorithm::ES256),
        JwtKey::EdDsa(pem) => (public(pem, DecodingKey::from_ed_pem), Algorithm::EdDSA),
    };
    let key = read.map_err(|problem| {
        refuse(problem, "give the public key in PEM, as `openssl pkey -in private.pem -pubout` prints it")
    })?;
    match size_problem(&key, algorithm) {
        Some(problem) => Err(refuse(problem, "use a key made for this algorithm")),
        None => Ok((key, algorithm)),
    }
}

fn public(
    pem: &str,
    read: fn(&[u8]) -> jsonwebtoken::errors::Result<DecodingKey>,
) -> Result<DecodingKey, &'static str> {
    if pem.contains("PRIVATE KEY-----") {
        return Err("it is a private key, which belongs to the issuer alone");
    }
    // The library would take the first bits of a certificate for the key.
    if !pem.contains("PUBLIC KEY-----") {
        return Err("it is not a public key in PEM");
    }
    read(pem.as_bytes()).map_err(|_| "it cannot be read, or belongs to another algorithm")
}

/// The library looks at a key only when it verifies, and then every token is bad: look at it now.
fn size_problem(key: &DecodingKey, algorithm: Algorithm) -> Option<&'static str> {
    let bytes = key.as_bytes();
    match algorithm {
        Algorithm::RS256 if bytes.len() < 2048 / 8 => Some("it has less than 2048 bits"),
        Algorithm::ES256 if !matches!(bytes.len(), 33 | 65) => Some("it is not on the curve P-256"),
        Algorithm::EdDSA if bytes.len() != 32 => Some("it is not an Ed25519 key"),
        _ => None,
    }
}
