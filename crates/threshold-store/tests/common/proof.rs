//! How large a test runs, and where what it has shown is written down.
#![allow(dead_code, reason = "each test binary takes what it needs")]
#![expect(
    clippy::disallowed_methods,
    reason = "a proof run is switched on from outside, and says how long it took"
)]

use std::path::Path;
use std::time::Instant;

/// A figure that a public claim rests on.
pub(crate) struct Proof {
    claim: &'static str,
    started: Instant,
}

/// The everyday size, or with `THRESHOLD_PROVE` the full one.
pub(crate) fn size(everyday: u64, full: u64) -> u64 {
    if proving() { full } else { everyday }
}

pub(crate) fn proving() -> bool {
    std::env::var_os("THRESHOLD_PROVE").is_some()
}

impl Proof {
    pub(crate) fn of(claim: &'static str) -> Self {
        Self { claim, started: Instant::now() }
    }

    /// Writes the figure beside its bound, where a proof run asks for it.
    pub(crate) fn record(self, name: &str, figure: &str, bound: &str, holds: bool) {
        let Some(folder) = std::env::var_os("THRESHOLD_PROOF_DIR") else { return };
        let seconds = self.started.elapsed().as_secs_f64();
        let Self { claim, .. } = self;
        let line = format!(
            "{{\"claim\": {claim:?}, \"figure\": {figure:?}, \"bound\": {bound:?}, \"holds\": {holds}, \
             \"seconds\": {seconds:.1}}}\n"
        );
        std::fs::create_dir_all(&folder).expect("the proof folder can be made");
        std::fs::write(Path::new(&folder).join(format!("{name}.json")), line)
            .expect("the proof can be written");
    }
}
