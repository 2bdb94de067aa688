//! `threshold schema`.

use threshold::policy::Policy;

use crate::Ended;
use crate::output::Output;

/// Prints the JSON Schema of a policy.
pub(crate) fn schema(output: &mut Output) -> Ended {
    output.line(&format!("{:#}", Policy::schema()));
    Ended::Well
}
