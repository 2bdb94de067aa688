//! Signatures, by which a receiver knows who sent an alarm, and when.

use aws_lc_rs::hmac;
use threshold::Timestamp;

/// The header that a signature is in.
pub(super) const HEADER: &str = "threshold-signature";

/// A secret that is shared with a receiver.
#[derive(Clone)]
pub(crate) struct Signer(hmac::Key);

impl Signer {
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// `t=<seconds>,v1=<hex>`: the second part is the HMAC-SHA256 of the seconds, a full stop and the body.
    pub(super) fn sign(&self, now: Timestamp, body: &[u8]) -> String {
        let seconds = now.as_micros() / 1_000_000;
        let mut context = hmac::Context::with_key(&self.0);
        context.update(format!("{seconds}.").as_bytes());
        context.update(body);
        let hex: String = context.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("t={seconds},v1={hex}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_what_others_compute() {
        // echo -n '1700000000.{"a":1}' | openssl dgst -sha256 -hmac 'a secret of some length'
        let signed = Signer::new(b"a secret of some length")
            .sign(Timestamp::from_micros(1_700_000_000_999_999), b"{\"a\":1}");
        let wanted = "e09db3ce6e6e8f9b633a62851e5074a9e9148ac19b1c0e1a8f7c352380be630b";
        assert_eq!(signed, format!("t=1700000000,v1={wanted}"));
    }
}
