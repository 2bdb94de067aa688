//! The configuration of envoyproxy/ratelimit.

use threshold::policy::Policy;

use crate::envoy::{Source, import};

/// Imports `bytes` as the command would.
///
/// # Panics
///
/// If a file that is accepted does not make a policy, or one that is refused has no place.
pub fn envoy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let source = Source { name: "fuzzed.yaml".to_owned(), text: text.to_owned() };
    match import(&[source], None) {
        Ok(imported) => match Policy::read("fuzzed", &imported.text, &|_| None) {
            Ok(policy) => assert_eq!(policy.limit.len(), imported.limits, "{}", imported.text),
            Err(error) => panic!("{error}\n{}", imported.text),
        },
        Err(mistakes) => {
            assert!(!mistakes.is_empty(), "a refusal without a reason");
            assert!(mistakes.iter().all(|mistake| mistake.line > 0 && mistake.column > 0), "{mistakes:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::envoy;

    #[test]
    fn odd_files_are_refused_or_make_a_policy() {
        for text in [
            "",
            "domain: d",
            "domain: \"\\u0007\"\ndescriptors: [{key: '${', value: '\\', rate_limit: {unit: DAY, requests_per_unit: 4294967295}}]",
            "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, name: 'a b', requests_per_unit: 1}}]",
            "domain: d\ndescriptors: [{key: a, value: '**', share_threshold: on}, {key: 'é', value: 'ü'}]",
            "&a [*a, *a]",
            "? [x]\n: y",
            "domain: d\ndescriptors: [{key: 'a=b'}, {key: '*'}, {key: x, descriptors: [{key: 'a=b'}]}]",
        ] {
            envoy(text.as_bytes());
        }
        envoy(&[0xff, 0xfe]);
    }
}
