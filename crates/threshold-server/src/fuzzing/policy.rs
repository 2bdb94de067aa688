//! A policy, from the first byte to rules.

use threshold::Secret;
use threshold::engine::{Rules, Secrets};
use threshold::policy::Policy;

/// Reads `bytes` as a policy: it can be used and described, or every problem has a place in it and a remedy.
///
/// # Panics
///
/// If one of these does not hold.
pub fn policy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let no_variable = |_: &str| None;
    match Policy::read("policy.toml", text, &no_variable) {
        Ok(policy) => {
            for finding in policy.lint() {
                assert!(!finding.what.is_empty() && !finding.remedy.is_empty());
            }
            assert!(policy.guarantees().len() >= policy.limit.len().min(1));
            assert!(!policy.remarks().is_empty());
            // It may still name keys of tokens that are none.
            if let Err(error) = Rules::new(&policy, &Secrets::new(Secret::new([7; 16])), &no_variable) {
                assert!(!error.to_string().is_empty());
            }
        }
        Err(error) => {
            assert!(!error.problems.is_empty());
            let lines = text.split('\n').count();
            for problem in &error.problems {
                assert!((1..=lines).contains(&problem.line), "{problem}");
                assert!(problem.column > 0 && !problem.what.is_empty() && !problem.remedy.is_empty());
            }
        }
    }
}
