//! `cargo xtask prove`: the same tests at full figures, and a page that says what came out.
//!
//! A test that proves something writes one flat JSON object per claim into the folder named by
//! `THRESHOLD_PROOF_DIR`: `claim`, `figure`, `bound` and `holds`. A run that leaves no such file proved nothing and
//! is an error, however many tests passed.

mod claim;
mod machine;

use std::fs;
use std::path::{Path, PathBuf};

use crate::fuzz::{Programs, TARGETS};
use crate::process::{self, Failure};
use crate::servers::{self, Tests};
use crate::{metadata, terminal};
use claim::Claim;

/// How many inputs each target gets.
const INPUTS: u64 = 10_000_000;
const PAGE: &str = "docs/operations/proof.md";

pub(crate) fn run() -> Result<(), Failure> {
    let folder = metadata::read()?.target.join("proof");
    empty(&folder)?;
    let tests = run_tests(&folder);
    let fuzzed = fuzz(&folder);
    let (claims, unreadable) = read_claims(&folder)?;
    if !claims.is_empty() {
        write_page(&page(&machine::describe(), &machine::today(), &claims))?;
        terminal::say(format_args!("wrote {PAGE}, claims: {}", claims.len()));
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

fn run_tests(folder: &Path) -> Result<(), Failure> {
    // Every claim is wanted, so one failed test does not stop the others.
    let arguments = "--workspace --cargo-profile release --no-fail-fast";
    servers::run(&Tests { arguments, profile: "release" }, |command| {
        command.env("THRESHOLD_PROVE", "1").env("THRESHOLD_PROOF_DIR", folder);
    })
}

/// A target that stops early leaves a claim that does not hold.
fn fuzz(folder: &Path) -> Result<(), Failure> {
    let programs = Programs::build()?;
    for target in TARGETS {
        let run = programs.run(target, INPUTS);
        let claim = serde_json::json!({
            "claim": format!("fuzz {target}: made-up inputs break nothing and hang nowhere"),
            "figure": if run.is_ok() { format!("{INPUTS} inputs") } else { "one did".to_owned() },
            "bound": format!("{INPUTS} inputs"),
            "holds": run.is_ok(),
        });
        fs::write(folder.join(format!("fuzz-{target}.json")), claim.to_string())
            .map_err(|error| Failure::new(format!("a proof cannot be written: {error}")))?;
    }
    Ok(())
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

fn write_page(text: &str) -> Result<(), Failure> {
    let path = process::root().join(PAGE);
    let folder = path.parent().unwrap_or(&path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| Failure::new(format!("{PAGE} cannot be written: {error}")))
}

fn page(machine: &[(&str, String)], today: &str, claims: &[Claim]) -> String {
    let machine: String = machine.iter().map(|(what, value)| format!("- {what}: {value}\n")).collect();
    let rows: String = claims.iter().map(Claim::row).collect();
    format!(
        "# Proof\n\n\
         What Threshold claims, measured at full figures. Written by `cargo xtask prove`; not edited by hand.\n\n\
         - date: {today}\n- command: `cargo xtask prove`\n{machine}\n\
         | claim | figure | bound | holds |\n| --- | --- | --- | --- |\n{rows}"
    )
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
    use super::*;

    fn claim(holds: bool) -> Claim {
        Claim { claim: "exact".into(), figure: "0 over".into(), bound: "0".into(), holds }
    }

    #[test]
    fn the_page_holds_the_machine_and_every_claim() {
        let text = page(&[("cores", "2".into())], "2026-01-02", &[claim(true), claim(false)]);
        assert!(text.starts_with("# Proof\n"), "{text}");
        assert!(
            text.contains("- date: 2026-01-02\n- command: `cargo xtask prove`\n- cores: 2\n\n| claim |"),
            "{text}"
        );
        assert!(text.ends_with("| exact | 0 over | 0 | yes |\n| exact | 0 over | 0 | **no** |\n"), "{text}");
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
