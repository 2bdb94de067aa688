//! `cargo xtask prove`: the same tests at full figures, and a page that says what came out.
//!
//! A test that proves something writes one flat JSON object per claim into the folder named by
//! `THRESHOLD_PROOF_DIR`: `claim`, `figure`, `bound` and `holds`. A run that leaves no such file proved nothing and
//! is an error, however many tests passed.
//!
//! All of it takes many hours, so it can be had in parts: each replaces the rows of its own claims and keeps the others.

mod claim;
mod machine;
mod page;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use clap::builder::PossibleValuesParser;

use crate::fuzz::{Programs, TARGETS};
use crate::process::{self, Failure};
use crate::servers::{self, Tests};
use crate::{metadata, terminal};
use claim::Claim;
use page::Row;

/// How many inputs each target gets.
const INPUTS: u64 = 10_000_000;
const PAGE: &str = "docs/operations/proof.md";

/// What of it is run.
#[derive(Debug, Subcommand)]
pub(crate) enum Part {
    /// Only the tests, or those of them that a filter of nextest chooses
    #[command(
        after_help = "Examples:\n  cargo xtask prove tests\n  cargo xtask prove tests 'test(kills_of_redis)'"
    )]
    Tests {
        /// As `cargo nextest run -E` takes it
        #[arg(value_name = "FILTER")]
        filter: Option<String>,
    },
    /// Only the fuzzers, or those that are named
    #[command(after_help = "Examples:\n  cargo xtask prove fuzz\n  cargo xtask prove fuzz policy resp")]
    Fuzz {
        /// Only these
        #[arg(value_name = "TARGET", value_parser = PossibleValuesParser::new(TARGETS))]
        targets: Vec<String>,
    },
    /// Only the page, with the claims that tests left which were run by hand
    #[command(after_help = "Example:\n  \
        THRESHOLD_PROVE=1 THRESHOLD_PROOF_DIR=$PWD/target/claims cargo nextest run --workspace --profile prove -E 'test(kills_of)'\n  \
        cargo xtask prove page target/claims --how 'debug build'")]
    Page {
        /// Where they are
        folder: PathBuf,
        /// How they were run, for who reads the page: by `cargo xtask prove` it is an optimised build, alone on the machine
        #[arg(long)]
        how: String,
    },
}

pub(crate) fn run(part: Option<Part>) -> Result<(), Failure> {
    let folder = match &part {
        Some(Part::Page { folder, .. }) => folder.clone(),
        _ => {
            let folder = metadata::read()?.target.join("proof");
            empty(&folder)?;
            folder
        }
    };
    let (tests, fuzzed) = match &part {
        Some(Part::Tests { filter }) => (tell(&folder, None, run_tests(&folder, filter.as_deref())), Ok(())),
        Some(Part::Fuzz { targets }) => (Ok(()), fuzz(&folder, targets)),
        Some(Part::Page { how, .. }) => (tell(&folder, Some(how), Ok(())), Ok(())),
        None => (tell(&folder, None, run_tests(&folder, None)), fuzz(&folder, &[])),
    };
    let (claims, unreadable) = read_claims(&folder)?;
    if part.is_none() && fuzzed.is_ok() {
        // All of it was run: what nothing claims any more has no place on the page.
        write_page(Vec::new(), &claims, None)?;
    }
    // The page comes first: a proof that failed is exactly the one worth reading.
    tests?;
    fuzzed?;
    judge(&claims, &unreadable)
}

/// Old files would pass for results of this run.
fn empty(folder: &Path) -> Result<(), Failure> {
    let outcome = fs::create_dir_all(folder).and_then(|()| {
        for file in json_files(folder)? {
            fs::remove_file(file)?;
        }
        Ok(())
    });
    outcome.map_err(|error| Failure::new(format!("the proof folder cannot be emptied: {error}")))
}

fn run_tests(folder: &Path, filter: Option<&str>) -> Result<(), Failure> {
    // Every claim is wanted, so one failed test does not stop the others.
    let arguments = "--workspace --cargo-profile release --profile prove --no-fail-fast";
    servers::run(&Tests { arguments, profile: "release" }, |command| {
        command.env("THRESHOLD_PROVE", "1").env("THRESHOLD_PROOF_DIR", folder);
        command.args(filter.into_iter().flat_map(|filter| ["-E", filter]));
    })
}

/// A target that stops early leaves a claim that does not hold.
fn fuzz(folder: &Path, only: &[String]) -> Result<(), Failure> {
    let programs = Programs::build()?;
    let chosen = |target: &&&str| only.is_empty() || only.iter().any(|only| only == **target);
    for target in TARGETS.iter().filter(chosen) {
        let run = programs.run(target, INPUTS);
        let claim = serde_json::json!({
            "claim": format!("fuzz {target}: made-up inputs break nothing and hang nowhere"),
            "figure": if run.is_ok() { format!("{INPUTS} inputs") } else { "one did".to_owned() },
            "bound": format!("{INPUTS} inputs"),
            "holds": run.is_ok(),
        });
        fs::write(folder.join(format!("fuzz-{target}.json")), claim.to_string())
            .map_err(|error| Failure::new(format!("a proof cannot be written: {error}")))?;
        tell(folder, None, Ok(()))?;
    }
    Ok(())
}

/// Puts what there is so far onto the page, whatever came of it: a run that is cut off leaves what it had.
fn tell(folder: &Path, how: Option<&str>, ran: Result<(), Failure>) -> Result<(), Failure> {
    let (claims, _) = read_claims(folder)?;
    if !claims.is_empty() {
        let before = fs::read_to_string(process::root().join(PAGE)).unwrap_or_default();
        write_page(page::rows(&before), &claims, how)?;
    }
    ran
}

fn json_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<Vec<PathBuf>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    Ok(files)
}

/// The claims in order of file name, and what is wrong with each file that holds none.
fn read_claims(folder: &Path) -> Result<(Vec<Claim>, Vec<String>), Failure> {
    let unread = |error| Failure::new(format!("the proof files cannot be read: {error}"));
    let (mut claims, mut unreadable) = (Vec::new(), Vec::new());
    for path in json_files(folder).map_err(unread)? {
        match claim::parse(&fs::read_to_string(&path).map_err(unread)?) {
            Ok(claim) => claims.push(claim),
            Err(why) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                unreadable.push(format!("{name}: {why}"));
            }
        }
    }
    Ok((claims, unreadable))
}

fn write_page(before: Vec<Row>, claims: &[Claim], how: Option<&str>) -> Result<(), Failure> {
    if claims.is_empty() {
        return Ok(());
    }
    let today = machine::today();
    let date = how.map_or_else(|| today.clone(), |how| format!("{today}, {how}"));
    let rows = page::merged(before, claims.iter().map(|claim| claim.row(&date)));
    let path = process::root().join(PAGE);
    let folder = path.parent().unwrap_or(&path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, page::text(&machine::describe(), &today, &rows)))
        .map_err(|error| Failure::new(format!("{PAGE} cannot be written: {error}")))?;
    terminal::say(format_args!("wrote {PAGE}, claims of this run: {}", claims.len()));
    Ok(())
}

fn judge(claims: &[Claim], unreadable: &[String]) -> Result<(), Failure> {
    if !unreadable.is_empty() {
        return Err(Failure::new(format!(
            "proof files without a claim in them:\n  {}",
            unreadable.join("\n  ")
        )));
    }
    if claims.is_empty() {
        return Err(Failure::new("no test left a proof: nothing was proved")
            .with_remedy("a proving test writes one JSON file per claim into THRESHOLD_PROOF_DIR"));
    }
    let broken: Vec<&str> =
        claims.iter().filter(|claim| !claim.holds).map(|claim| claim.claim.as_str()).collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("these claims do not hold:\n  {}", broken.join("\n  "))))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::Task;

    fn claim(holds: bool) -> Claim {
        Claim { claim: "exact".into(), figure: "0 over".into(), bound: "0".into(), holds }
    }

    #[test]
    fn it_is_run_whole_or_in_parts() {
        let part = |words: &[&str]| match Task::try_parse_from(["xtask", "prove"].iter().chain(words)) {
            Ok(Task::Prove { part }) => Ok(part),
            Ok(_) => panic!("it is another task"),
            Err(refusal) => Err(refusal.to_string()),
        };
        assert!(matches!(part(&[]), Ok(None)));
        assert!(matches!(part(&["tests"]), Ok(Some(Part::Tests { filter: None }))));
        let chosen = part(&["tests", "test(a) or test(b)"]);
        assert!(
            matches!(chosen, Ok(Some(Part::Tests { filter: Some(filter) })) if filter == "test(a) or test(b)")
        );
        let chosen = part(&["fuzz", "policy", "resp"]);
        assert!(matches!(chosen, Ok(Some(Part::Fuzz { targets })) if targets == ["policy", "resp"]));
        let page = part(&["page", "claims", "--how", "by hand"]);
        assert!(matches!(page, Ok(Some(Part::Page { folder, .. })) if folder == Path::new("claims")));
        assert!(part(&["page", "claims"]).is_err(), "who reads the page has to know how they were run");
        assert!(part(&["fuzz", "polcy"]).unwrap_err().contains("policy"), "those that there are are named");
    }

    #[test]
    fn nothing_proved_is_a_failure() {
        assert!(judge(&[], &[]).unwrap_err().to_string().contains("nothing was proved"));
    }

    #[test]
    fn a_broken_claim_or_an_unreadable_file_is_a_failure() {
        assert!(judge(&[claim(true)], &[]).is_ok());
        assert!(judge(&[claim(true), claim(false)], &[]).unwrap_err().to_string().contains("exact"));
        assert!(judge(&[claim(true)], &["a.json: empty".into()]).unwrap_err().to_string().contains("a.json"));
    }

    #[test]
    fn old_files_go_and_new_ones_are_read_in_order() {
        let folder = std::env::temp_dir().join(format!("xtask-prove-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("old.json"), "{}").unwrap();
        empty(&folder).unwrap();
        fs::write(folder.join("b.json"), "[]").unwrap();
        fs::write(folder.join("a.json"), r#"{"claim": "c", "figure": 1, "bound": "2", "holds": true}"#)
            .unwrap();
        fs::write(folder.join("note.txt"), "not a claim").unwrap();
        let (claims, unreadable) = read_claims(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(claims.len(), 1);
        assert_eq!(unreadable.len(), 1);
        assert!(unreadable[0].starts_with("b.json: "), "{unreadable:?}");
    }
}
