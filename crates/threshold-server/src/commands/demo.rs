//! `threshold demo`: a server with visitors of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use threshold::policy::Listen;

use super::serve::{failed, serving};
use crate::Ended;
use crate::app::Surfaces;
use crate::cli::{Demo, Serve};
use crate::config::{self, ServerConfig};
use crate::demo::{Driver, Tally};
use crate::output::{Output, Style};

/// Runs a demonstration until it is told to stop, or has lasted long enough.
pub(crate) fn demo(demo: &Demo, output: &mut Output) -> Ended {
    let folder = Folder::of(demo);
    let file = match config::prepare_demo(&folder.path) {
        Ok(file) => file,
        Err(what) => return failed(&what, output),
    };
    let tally = Arc::default();
    let ended = serving(&serve(demo, &folder.path, file), output, async |config, surfaces, output| {
        // Both were asked for, so both are there.
        let Some((gateway, _)) = surfaces.gateway else { return };
        greet((demo, &folder), (config, surfaces), output);
        let driver = Driver::new(gateway, (demo.seed, demo.pace), &tally);
        match demo.lasting {
            // Who is under way then is not waited for.
            Some(lasting) => drop(tokio::time::timeout(lasting.into(), driver.run()).await),
            None => driver.run().await,
        }
    });
    if ended == Ended::Well {
        tell(&tally, output);
    }
    ended
}

/// Where a demonstration has its files.
struct Folder {
    path: PathBuf,
    /// Gone when it is dropped.
    temporary: bool,
}

impl Folder {
    fn of(demo: &Demo) -> Self {
        let named = demo.data_dir.clone();
        Self { temporary: named.is_none(), path: named.unwrap_or_else(config::scratch) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.temporary {
            // What stays is in a temporary folder.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// What a server is told that is to touch nothing but `folder`.
fn serve(demo: &Demo, folder: &Path, policy: PathBuf) -> Serve {
    Serve {
        config: Some(policy),
        store: Some("memory://".to_owned()),
        ledger: Some(format!("sqlite://{}", folder.join("ledger.sqlite").display())),
        archive: Some(folder.join("archive")),
        data_dir: Some(folder.to_owned()),
        gateway: Some(Listen::At(demo.gateway)),
        admin: Some(Listen::At(demo.admin)),
        api: Some(Listen::Off),
        rls: Some(Listen::Off),
        resp: Some(Listen::Off),
        demonstration: true,
        ..Serve::default()
    }
}

/// Says what runs, and what to look at first.
fn greet(
    (demo, folder): (&Demo, &Folder),
    (config, surfaces): (&ServerConfig, &Surfaces),
    output: &mut Output,
) {
    let (Some((gateway, _)), Some(admin)) = (surfaces.gateway, surfaces.admin) else { return };
    let heading =
        concat!("threshold ", env!("CARGO_PKG_VERSION"), ": a demonstration with visitors of its own");
    let heading = output.styled(Style::Heading, heading);
    output.line(&heading);
    output.line(&format!("  dashboard  http://{admin}/"));
    let token = surfaces.new_token.as_deref();
    match token {
        Some(token) => output.line(&format!("  token      {token} (to sign in with; shown this once)")),
        None => output.line("  token      the one that there was before, or THRESHOLD_ADMIN_TOKEN"),
    }
    output.line(&format!("  gateway    http://{gateway}, in front of a small built-in application"));
    if let Some(file) = &config.file {
        output.line(&format!("  policy     {}, read again when it changes", file.display()));
    }
    let how_long = if folder.temporary { "gone when it ends" } else { "which stays" };
    output.line(&format!("  files      {}, {how_long}", folder.path.display()));
    output.line("\nOpen the dashboard and sign in with the token. In another terminal:");
    output.line(&format!(
        "  THRESHOLD_ADMIN_TOKEN={} threshold top --admin http://{admin}",
        token.unwrap_or("...")
    ));
    output.line(&format!("  curl -i http://{gateway}/"));
    output.line(&format!(
        "  curl -i http://{gateway}/api/report      # within ten seconds: the second is warned, the third 429"
    ));
    output.line(&format!(
        "  curl -i -H X-Forwarded-For:198.51.100.23 http://{gateway}/posts/1      # as the crawler, who goes too far"
    ));
    match demo.lasting {
        Some(lasting) => output.line(&format!("\nIt ends after {lasting}; Ctrl-C stops it before.")),
        None => output.line("\nCtrl-C stops it."),
    }
}

/// What became of the visitors.
fn tell(tally: &Tally, output: &mut Output) {
    let (passed, refused, lost) = tally.counts();
    output
        .line(&format!("\nvisitors: {passed} requests passed, {refused} were refused, {lost} had no answer"));
}
