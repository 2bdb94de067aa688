//! Everyday sizes and full figures: the same tests, run longer by `cargo xtask prove`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

/// True under `cargo xtask prove`.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the proof run is switched on from outside")]
pub fn proving() -> bool {
    std::env::var_os("THRESHOLD_PROVE").is_some()
}

/// The everyday size, or the full one when proving.
#[must_use]
pub fn size<T>(everyday: T, full: T) -> T {
    if proving() { full } else { everyday }
}

/// A public claim while it is being tested. Recording it writes what was shown where `cargo xtask prove`
/// collects it; without that run it writes nothing.
pub struct Claim {
    text: &'static str,
    started: Instant,
}

impl Claim {
    /// Starts the test of a claim.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "says how long a proof took; nothing is asserted on it")]
    pub fn of(text: &'static str) -> Self {
        Self { text, started: Instant::now() }
    }

    /// Records the figure beside its bound, in a file called `name`.
    ///
    /// # Panics
    ///
    /// If the claim does not hold, or if the record cannot be written.
    pub fn show(self, name: &str, figure: &str, bound: &str, holds: bool) {
        self.report(name, figure, bound, holds);
        assert!(holds, "{}: {figure}, but the bound is {bound}", self.text);
    }

    /// Records a figure of time or speed beside its goal, in a file called `name`: the page says whether it was reached, and
    /// no test fails by it.
    ///
    /// # Panics
    ///
    /// If the record cannot be written.
    pub fn report(&self, name: &str, figure: &str, bound: &str, holds: bool) {
        if let Some(path) = proof_path(name) {
            let seconds = self.started.elapsed().as_secs_f64();
            let mut record = String::from("{");
            for (field, value) in [("claim", self.text), ("figure", figure), ("bound", bound)] {
                write!(record, "{field:?}: {value:?}, ").expect("writing to a string");
            }
            write!(record, "\"holds\": {holds}, \"seconds\": {seconds:.1}}}").expect("writing to a string");
            std::fs::write(path, record).expect("the proof folder is writable");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the proof run says where to write")]
fn proof_path(name: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("THRESHOLD_PROOF_DIR")?);
    std::fs::create_dir_all(&folder).expect("the proof folder can be made");
    Some(folder.join(format!("{name}.json")))
}
