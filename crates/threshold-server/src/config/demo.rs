//! The folder of a demonstration.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::secret;
use crate::demo;

const POLICY: &str = "demo-policy.toml";

/// Makes what a demonstration in `folder` begins with, unless it is there: the folder, a secret and the policy, whose file it
/// returns.
pub(crate) fn prepare_demo(folder: &Path) -> Result<PathBuf, String> {
    let failed = |what: &Path, error: &std::io::Error| {
        format!("{}: it cannot be made ({error}); name another folder with --data-dir", what.display())
    };
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder).map_err(|error| failed(folder, &error))?;
    if secret::find(None, folder)?.is_none() {
        secret::make(folder)?;
    }
    let file = folder.join(POLICY);
    let written = std::fs::File::create_new(&file)
        .and_then(|mut file| std::io::Write::write_all(&mut file, demo::SHOW.as_bytes()));
    match written {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(failed(&file, &error)),
        _ => Ok(file),
    }
}
