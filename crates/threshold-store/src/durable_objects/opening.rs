//! What is looked at before the first batch.

use serde_json::Value;
use threshold_core::{Secret, StoreError, StoreErrorKind};

use super::error::Trouble;
use super::line::Line;
use super::wire;
use crate::check::{Check, all_well};
use crate::open::SecretPair;

const OPEN: &str = "open the store in Durable Objects";
/// The version of what is said between this store and the Worker.
const VERSION: u64 = 1;

/// What the Worker says about itself and about what is kept.
struct About {
    said: Value,
    secret: Option<u128>,
    shards: Option<u16>,
}

impl About {
    fn of(answer: &[u8]) -> Result<Self, Trouble> {
        let said = wire::parsed(answer)?;
        let secret = said.get("secret").and_then(Value::as_str);
        // What is no fingerprint belongs to nobody.
        let secret = secret.map(|kept| u128::from_str_radix(kept, 16).unwrap_or_default());
        let shards = said.get("shards").and_then(Value::as_u64).and_then(|shards| u16::try_from(shards).ok());
        Ok(Self { said, secret, shards: shards.filter(|shards| *shards > 0) })
    }

    /// Everything that is looked at, but for the secret.
    fn checks(&self) -> Vec<Check> {
        let version = self.said.get("version").and_then(Value::as_u64);
        let version = match version {
            Some(VERSION) => Check::good("version", format!("the Worker speaks version {VERSION}")),
            other => Check::bad(
                "version",
                format!(
                    "the Worker speaks version {}, this node {VERSION}: deploy the Worker of this version",
                    other.unwrap_or(0)
                ),
            ),
        };
        let shards = match self.shards {
            Some(shards) => Check::good("shards", format!("{shards}, each an object of its own")),
            None => Check::bad("shards", "the Worker does not say how many there are: deploy it again"),
        };
        let clock = match wire::now(&self.said) {
            Ok(now) => Check::clock(now),
            Err(trouble) => Check::bad("clock", trouble.detail),
        };
        vec![version, shards, clock]
    }
}

async fn ask(line: &Line, body: String) -> Result<About, Trouble> {
    let target = format!("/v1/open?prefix={}", line.place().prefix);
    About::of(&line.ask(&target, body).await?)
}

/// Everything that is looked at. Nothing is written.
pub(super) async fn checks(line: &Line, secrets: Option<SecretPair<'_>>) -> Vec<Check> {
    let about = match ask(line, "{}".to_owned()).await {
        Ok(about) => about,
        Err(trouble) => return vec![Check::bad("worker", trouble.detail)],
    };
    let mut checks = about.checks();
    let other = || other_secret(line).to_string();
    checks.extend(secrets.map(|secrets| Check::secret(about.secret, secrets, other)));
    checks
}

/// Refuses a Worker that cannot keep limits, and keeps the fingerprint of the secret there. Gives the number of shards.
///
/// Keys under another secret are other keys: every limit would start afresh, and nodes with different ones would each have
/// limits of their own.
pub(super) async fn look(
    line: &Line,
    (secret, previous): (&Secret, Option<&Secret>),
) -> Result<u16, StoreError> {
    let during = |trouble: Trouble| trouble.during(OPEN);
    all_well(OPEN, &ask(line, "{}".to_owned()).await.map_err(during)?.checks())?;
    let shown = |secret: &Secret| format!("{:032x}", secret.fingerprint());
    let previous =
        previous.map_or_else(String::new, |previous| format!(",\"previous\":\"{}\"", shown(previous)));
    let about = ask(line, format!("{{\"secret\":\"{}\"{previous}}}", shown(secret))).await.map_err(during)?;
    match (about.secret == Some(secret.fingerprint()), about.shards) {
        (true, Some(shards)) => Ok(shards),
        (false, _) => Err(other_secret(line)),
        (_, None) => Err(Trouble::nonsense("no number of shards").during(OPEN)),
    }
}

fn other_secret(line: &Line) -> StoreError {
    let detail = format!(
        "what is kept under {:?} was made with another secret; give the secret it was made with, give that one as the \
         previous, or choose another prefix=",
        line.place().prefix
    );
    StoreError::new(StoreErrorKind::Misconfigured, OPEN, detail)
}
