//! The configuration of envoyproxy/ratelimit, read and written as a policy.
//!
//! | module | holds |
//! | --- | --- |
//! | `yaml` | a file as a tree of values with their places |
//! | `merge` | values that take over the fields of others |
//! | `read` | that tree as descriptors, checked as the other service checks them |
//! | `ids` | what limits are called, which their counts are kept by |
//! | `write` | the descriptors as limits of a policy, with what could not be carried over |

mod ids;
mod merge;
mod read;
mod write;
mod yaml;

use std::collections::HashMap;
use std::fmt;

use threshold::AlgorithmKind;

/// A file and what is in it.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// What was made of files.
#[derive(Debug)]
pub(crate) struct Imported {
    /// The limits, as a policy has them.
    pub(crate) text: String,
    /// What means something else here, or nothing, with its place.
    pub(crate) notes: Vec<Remark>,
    pub(crate) limits: usize,
}

/// Something about a place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remark {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, what, remedy } = self;
        write!(f, "{file}:{line}:{column}: {what}; {remedy}")
    }
}

/// Makes limits of `sources`, which count by `algorithm` or by windows of the clock.
///
/// # Errors
///
/// Everything that is wrong with them; nothing is made then.
pub(crate) fn import(sources: &[Source], algorithm: Option<AlgorithmKind>) -> Result<Imported, Vec<Remark>> {
    let (mut domains, mut mistakes) = (Vec::new(), Vec::new());
    let mut known: HashMap<String, &str> = HashMap::new();
    for source in sources {
        match read::domain(source) {
            Ok(domain) => {
                if let Some(other) = known.insert(domain.name.clone(), &source.name) {
                    let what = format!("the domain {:?} is in {other} as well", domain.name);
                    mistakes.push(domain.place.remark(what, "put both into one file"));
                }
                domains.push(domain);
            }
            Err(wrong) => mistakes.extend(wrong),
        }
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    write::policy(&domains, algorithm).map_err(|remark| vec![remark])
}

#[cfg(test)]
mod tests {
    use threshold::policy::Policy;

    use super::*;

    const RATED: &str = "rate_limit: {unit: hour, requests_per_unit: 2}";

    fn imported(descriptors: &str) -> Result<Imported, String> {
        let text = format!("domain: d\ndescriptors:\n{descriptors}");
        let told = |wrong: Vec<Remark>| wrong.iter().map(Remark::to_string).collect::<Vec<_>>().join("\n");
        import(&[Source { name: "a.yaml".to_owned(), text }], None).map_err(told)
    }

    /// What is made of descriptors: the policy, its text, and what is not carried over.
    fn made(descriptors: &str) -> (Policy, String, Vec<String>) {
        let Imported { text, notes, .. } = imported(descriptors).unwrap_or_else(|wrong| panic!("{wrong}"));
        let policy = Policy::read("made", &text, &|_| None).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
        (policy, text, notes.iter().map(Remark::to_string).collect())
    }

    fn refused(descriptors: &str) -> String {
        imported(descriptors).expect_err(descriptors)
    }

    #[test]
    fn what_is_written_is_bounded_too() {
        // Once in the file, and before each of many limits in the policy.
        let long = format!("- key: a\n  value: {}\n  descriptors:\n", "x".repeat(100_000));
        let many: String =
            (0..1_000).map(|value| format!("  - {{key: b, value: {value}, {RATED}}}\n")).collect();
        let told = refused(&(long + &many));
        assert!(told.contains("the entries of all limits up to here are more than 16777216 bytes"), "{told}");
        // Each replaces all of the others.
        let named = |key: &str, more: &str| -> String {
            let limit = format!("unit: hour, requests_per_unit: 2, {more}");
            (0..2_000)
                .map(|value| format!("- {{key: {key}, value: {value}, rate_limit: {{{limit}}}}}\n"))
                .collect()
        };
        let told = refused(&(named("a", "name: x") + &named("b", "replaces: [{name: x}, {name: x}]")));
        assert!(told.contains("the limits up to here are more than 16777216 bytes; name fewer"), "{told}");
        let many: String =
            (0..10_001).map(|value| format!("- {{key: b, value: {value}, {RATED}}}\n")).collect();
        assert!(refused(&many).contains("there are more than 10000 limits in all"));
    }

    #[test]
    fn a_name_is_shown_and_no_id() {
        let limit = |name: &str| format!("rate_limit: {{unit: hour, requests_per_unit: 2, name: {name}}}");
        let text = format!("- {{key: a, {}}}\n- {{key: b, {}}}\n", limit("api"), limit("'two words'"));
        let (policy, _, notes) = made(&text);
        let ids: Vec<&str> = policy.limit.iter().map(|limit| limit.id.as_str()).collect();
        assert_eq!(ids, ["d/a", "d/b"]);
        let names = policy.limit.iter().map(|limit| limit.name.as_ref().map(|name| name.as_str()));
        assert_eq!(names.collect::<Vec<_>>(), [Some("api"), None]);
        assert!(notes[0].starts_with("a.yaml:4:3: the name \"two words\" is not carried over"), "{notes:?}");
    }

    #[test]
    fn one_entry_is_shared_and_another_of_its_key_is_not() {
        let nested = |value: &str| {
            format!(
                "- key: path\n  value: /a*\n  share_threshold: true\n  descriptors:\n  - {{{value}, {RATED}}}\n"
            )
        };
        for (inner, shared) in [
            ("key: path", "shared = [\"path=/a*\"]"),
            ("key: path, value: /b*", "shared = [\"path=/a*\"]"),
            ("key: path, value: /b", "shared = [\"path\"]"),
            ("key: path, value: /b*, share_threshold: true", "shared = [\"path\"]"),
            ("key: user", "shared = [\"path\"]"),
        ] {
            let (_, text, _) = made(&nested(inner));
            assert!(text.contains(&format!("\n{shared}\n")), "{inner}: {text}");
        }
        let (policy, _, notes) = made(&nested("key: path, value: /a*"));
        assert_eq!(policy.limit.len(), 0);
        assert!(notes[0].contains("two of its entries are the same"), "{notes:?}");
    }

    #[test]
    fn what_is_said_of_descriptors_without_a_limit_is_told() {
        let text = format!(
            "- key: a\n  quota_mode: true\n  descriptors:\n  - {{key: b, {RATED}}}\n- {{key: c, metadata: x}}\n"
        );
        let (_, text, notes) = made(&text);
        let what = "what is said of a descriptor without a limit is not carried over; leave it out";
        assert_eq!(notes, [format!("a.yaml:4:15: {what}"), format!("a.yaml:7:22: {what}")]);
        assert!(text.contains("# Note (a.yaml:4, quota_mode): "), "{text}");
    }

    #[test]
    fn fields_are_taken_over_where_all_readers_agree() {
        let first = format!("- &one\n  key: a\n  value: x\n  {RATED}\n");
        let (policy, ..) =
            made(&format!("{first}- {{<<: *one, value: y}}\n- {{<<: [{{value: z}}, *one]}}\n"));
        let ids: Vec<&str> = policy.limit.iter().map(|limit| limit.id.as_str()).collect();
        assert_eq!(ids, ["d/a=x", "d/a=y", "d/a=z"]);
        assert!(policy.limit.iter().all(|limit| limit.rate.is_some()));
        for (more, told) in [
            (
                "{value: y, <<: *one}",
                "a.yaml:7:14: \"value\" stands before `<<`, which brings another; put `<<` first",
            ),
            ("{<<: *one, value: y, rate_limit: {unit: day}}", "`<<` brings fields of \"rate_limit\" as well"),
            ("{<<: x, key: b}", "a.yaml:7:8: `<<` takes over fields, and these are none"),
            ("{<<: [*one, x], key: b}", "`<<` takes over fields, and these are none"),
            ("{<<: *one, <<: *one}", "\"<<\" stands here twice"),
            ("{'<<': *one}", "there is no field \"<<\" here"),
        ] {
            let said = refused(&format!("{first}- {more}\n"));
            assert!(said.contains(told), "{more}: {said}");
        }
    }

    #[test]
    fn numbers_that_readers_differ_on_are_refused() {
        for number in ["010", "0_10", "+010", "0x10", "0o10"] {
            let told =
                refused(&format!("- {{key: a, rate_limit: {{unit: day, requests_per_unit: {number}}}}}\n"));
            assert!(told.contains("begins with a 0, and readers differ"), "{told}");
        }
        let (policy, ..) = made("- {key: a, rate_limit: {unit: day, requests_per_unit: 0}}\n");
        assert!(policy.limit[0].refuse);
    }
}
