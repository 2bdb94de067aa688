//! The files of envoyproxy/ratelimit: found, read, and joined to a policy.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use threshold::policy::{Policy, PolicyError, Problem};

use super::{PolicyFileError, unreadable, variable};
use crate::envoy::{Imported, Remark, Source, import};
use crate::output::harmless;

/// How the names of those files end.
const ENDINGS: [&str; 2] = ["yaml", "yml"];

/// The files in `folder`, in the order of their names, or what is wrong with the folder.
pub(crate) fn envoy_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let unread =
        |error: Error| format!("{}: this folder cannot be read ({error}); name another", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        let named = path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
        if named && is_file(&path)? {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// True if there is a file at `path`, or a link to one: that is how some platforms put files in place. Whatever cannot be
/// looked at may be a file whose limits are wanted, and is no reason to go on without them.
fn is_file(path: &Path) -> Result<bool, String> {
    let told = |what: &str| Err(format!("{}: {what}", path.display()));
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(false),
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => told("this is neither a file nor a folder; remove it, or give it another ending"),
        Err(error) if error.kind() == ErrorKind::NotFound => match path.symlink_metadata() {
            Ok(_) => told("this link leads nowhere; put its file in place, or remove the link"),
            // It is gone since the folder was read.
            Err(_) => Ok(false),
        },
        Err(error) => Err(untold(path, &error)),
    }
}

/// Why `file` cannot be read.
fn untold(file: &Path, error: &Error) -> String {
    match unreadable(file, error) {
        PolicyFileError::Unreadable(what) => what,
        PolicyFileError::Broken(_) => file.display().to_string(),
    }
}

/// Reads `files`, whose text is theirs as it stands.
pub(crate) fn envoy_sources(files: &[PathBuf]) -> Result<Vec<Source>, String> {
    let read = |file: &PathBuf| {
        let name = file.display().to_string();
        let bytes = std::fs::read(file).map_err(|error| untold(file, &error))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| format!("{name}: this is not a text in UTF-8; save it as UTF-8"))?;
        Ok(Source { name, text })
    };
    files.iter().map(read).collect()
}

/// `policy` with the limits of the files in `folder`, and what could not be carried over of them.
pub(super) fn with_envoy(
    policy: Policy,
    folder: Option<&Path>,
) -> Result<(Policy, Vec<String>), PolicyFileError> {
    let Some(folder) = folder else { return Ok((policy, Vec::new())) };
    let named = |what: String| PolicyFileError::Unreadable(format!("--envoy-config {what}"));
    let files = envoy_files(folder).map_err(named)?;
    if files.is_empty() {
        let what = format!("{}: there are no files ending in .yaml or .yml; name another", folder.display());
        return Err(named(what));
    }
    let Imported { text, notes, .. } =
        import(&envoy_sources(&files).map_err(named)?, None).map_err(broken)?;
    let name = folder.display().to_string();
    let joined = Policy::read(&name, &text, &variable).and_then(|envoy| policy.joined(envoy, &name));
    let notes = notes.iter().map(|note| harmless(&format!("not carried over: {note}"))).collect();
    joined.map(|policy| (policy, notes)).map_err(PolicyFileError::Broken)
}

/// Everything that is wrong with the files, each with its own name.
fn broken(mistakes: Vec<Remark>) -> PolicyFileError {
    let file = mistakes.first().map_or(String::new(), |first| first.file.clone());
    let problem = |remark: Remark| Problem {
        line: remark.line,
        column: remark.column,
        // Of one file they are told by its name; others have to say theirs.
        field: if remark.file == file { String::new() } else { remark.file },
        what: remark.what,
        remedy: remark.remedy,
    };
    let problems = mistakes.into_iter().map(problem).collect();
    PolicyFileError::Broken(PolicyError { file, problems })
}
