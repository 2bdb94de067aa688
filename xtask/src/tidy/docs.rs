//! Decision records are complete, and links between pages lead somewhere.

use super::{File, Finding};

const RECORDS: &str = "docs/adr/";

/// What every decision record answers.
const ANSWERS: &[&str] = &["Context", "Decision", "Price"];

/// Pages at the root whose links are followed; under `docs/` all are.
const ROOT_PAGES: &[&str] =
    &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"];

/// Finds decision records that are misnamed, misnumbered or incomplete.
pub(crate) fn records(files: &[File]) -> Vec<Finding> {
    let is_record = |file: &&File| file.path.strip_prefix(RECORDS).is_some_and(|name| name != "README.md");
    let mut records: Vec<&File> = files.iter().filter(is_record).collect();
    records.sort_by_key(|file| &file.path);
    let mut findings: Vec<Finding> = records.iter().flat_map(|file| check_record(file)).collect();
    findings.extend(check_numbers(&records));
    findings
}

fn check_record(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    if number(file).is_none() {
        findings.push(Finding::new(&file.path, 1, "a decision record is named `NNNN-title.md`: rename it"));
    }
    let missing = ANSWERS.iter().filter(|answer| !file.text.contains(**answer));
    let what = |answer: &&str| format!("a decision record says its {answer}: add that part");
    findings.extend(missing.map(|answer| Finding::new(&file.path, 1, what(answer))));
    findings
}

/// Numbers run without a gap, so that a missing record is noticed and the next number is plain.
fn check_numbers(records: &[&File]) -> Vec<Finding> {
    let numbered: Vec<(u32, &File)> =
        records.iter().filter_map(|file| number(file).map(|number| (number, *file))).collect();
    // A first record called 0000 is as good as 0001.
    let mut expected = numbered.first().map_or(1, |(first, _)| (*first).min(1));
    let mut findings = Vec::new();
    for (number, file) in numbered {
        if number < expected {
            findings.push(Finding::new(
                &file.path,
                1,
                format!("number {number:04} is taken: use the next free one"),
            ));
        } else if number > expected {
            findings.push(Finding::new(
                &file.path,
                1,
                format!("number {expected:04} is skipped: numbers have no gaps"),
            ));
        }
        expected = number + 1;
    }
    findings
}

/// The number of a well-named record.
fn number(file: &File) -> Option<u32> {
    let (number, title) = file.path.strip_prefix(RECORDS)?.strip_suffix(".md")?.split_once('-')?;
    let titled =
        !title.is_empty() && title.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let digits = number.len() == 4 && number.chars().all(|c| c.is_ascii_digit());
    if titled && digits { number.parse().ok() } else { None }
}

/// Finds relative links that lead nowhere.
pub(crate) fn links(files: &[File]) -> Vec<Finding> {
    let is_page = |file: &&File| {
        ROOT_PAGES.contains(&file.path.as_str())
            || (file.path.starts_with("docs/") && file.path.ends_with(".md"))
    };
    files.iter().filter(is_page).flat_map(|page| check_links(page, files)).collect()
}

fn check_links(page: &File, files: &[File]) -> Vec<Finding> {
    let broken =
        targets(&page.text).into_iter().filter(|(_, target)| !leads_somewhere(&page.path, target, files));
    let what = |target: &str| format!("the link to `{target}` leads nowhere: mend or remove it");
    broken.map(|(line, target)| Finding::new(&page.path, line, what(target.as_str()))).collect()
}

/// Every link target outside code, with its line.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start();
        if fence.starts_with("```") || fence.starts_with("~~~") {
            in_code = !in_code;
        } else if !in_code {
            targets.extend(targets_in(&without_code(line)).into_iter().map(|target| (index + 1, target)));
        }
    }
    targets
}

/// Drops what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// `[text](target)`, `[text](target "title")` and `[name]: target`.
fn targets_in(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let definition = line.strip_prefix('[').filter(|rest| !rest.starts_with('^'));
    let definition =
        definition.and_then(|rest| rest.split_once("]: ")).and_then(|(_, rest)| rest.split(' ').next());
    inline.chain(definition).map(|target| target.trim_matches(['<', '>']).to_owned()).collect()
}

fn leads_somewhere(page: &str, target: &str, files: &[File]) -> bool {
    let path = target.split(['#', '?']).next().unwrap_or_default();
    // An address, or a heading of the same page.
    if path.is_empty() || path.contains(':') {
        return true;
    }
    let Some(path) = resolve(page, path) else {
        return false;
    };
    let folder = format!("{path}/");
    path.is_empty() || files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
}

/// The target from the root; nothing if it leaves the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let from_root = target.starts_with('/');
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let start = if from_root { "" } else { folder };
    let mut parts: Vec<&str> = Vec::new();
    for part in start.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{file, lines};
    use super::*;

    const WHOLE: &str = "# A\n\n## Context\n\n## Decision\n\n## Price\n";

    fn judge(names: &[&str]) -> Vec<String> {
        let files: Vec<File> = names.iter().map(|name| file(&format!("docs/adr/{name}"), WHOLE)).collect();
        records(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn whole_records_in_a_row_are_fine() {
        assert!(judge(&["0001-batch-as-data.md", "0002-time.md", "README.md"]).is_empty());
        assert!(judge(&["0000-records.md", "0001-time.md"]).is_empty());
    }

    #[test]
    fn misnamed_records_are_found() {
        for name in ["1-time.md", "0001.md", "0001-.md", "0001-Time.md", "time.md", "0001-time.txt"] {
            assert!(judge(&[name])[0].contains("`NNNN-title.md`"), "{name}");
        }
    }

    #[test]
    fn double_and_missing_numbers_are_found() {
        assert_eq!(
            judge(&["0001-a.md", "0001-b.md"]),
            ["docs/adr/0001-b.md:1: number 0001 is taken: use the next free one"]
        );
        assert_eq!(
            judge(&["0001-a.md", "0003-c.md"]),
            ["docs/adr/0003-c.md:1: number 0002 is skipped: numbers have no gaps"]
        );
        assert!(judge(&["0002-b.md"])[0].contains("0001 is skipped"));
    }

    #[test]
    fn a_record_without_its_price_is_found() {
        let findings = records(&[file("docs/adr/0001-a.md", "Context, Decision")]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].to_string().contains("says its Price"));
    }

    fn follow(path: &str, text: &str) -> Vec<usize> {
        let files = [file(path, text), file("docs/guide/start.md", ""), file("crates/a/src/lib.rs", "")];
        lines(&links(&files))
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let text = "[a](docs/guide/start.md#first) [b](docs/guide) [c](./crates/a/ \"title\")\n\
                    [`d`](/crates/a/src/lib.rs) [e](https://example.com/x) [f](#here) [g](mailto:a@example.com)\n\
                    [h]: docs/guide/start.md\n[^1]: a note\n";
        assert!(follow("README.md", text).is_empty());
        assert!(
            follow("docs/guide/more.md", "[a](start.md) [b](../../crates/a/src/lib.rs) [c](../..)")
                .is_empty()
        );
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        assert_eq!(follow("README.md", "fine\n[a](docs/gone.md)\n[b]: gone.md\n"), [2, 3]);
        assert_eq!(follow("docs/guide/start.md", "[out](../../../a.md)"), [1]);
        assert_eq!(follow("README.md", "[a](docs/gui)"), [1]);
    }

    #[test]
    fn code_and_other_pages_are_not_followed() {
        assert!(follow("README.md", "`[a](gone.md)`\n```\n[b](gone.md)\n```\n").is_empty());
        assert!(follow("crates/a/README.md", "[a](gone.md)").is_empty());
    }
}
