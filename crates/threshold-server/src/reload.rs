//! Policies that change while the server runs: read again, checked whole, and put in force or refused.

use std::path::{Path, PathBuf};
use std::time::Duration;

use threshold::engine::Secrets;
use threshold::policy::Policy;

use crate::app::App;
use crate::cli::Serve;
use crate::config::{self, PolicyFileError, ServerConfig};
use crate::gateway::{Prepared, Settings};
use crate::{api, resp, rls};

/// How often files are looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(500);

/// What is read again.
pub(crate) struct Reloader {
    file: Option<PathBuf>,
    /// The folder of Envoy's files.
    envoy: Option<PathBuf>,
    secrets: Secrets,
    /// The policy's file, and those that it names.
    files: Vec<PathBuf>,
    /// All files as they were seen last.
    seen: Vec<(PathBuf, Option<Vec<u8>>)>,
    /// What only a new start takes over.
    fixed: Fixed,
}

/// What only a new start takes over.
#[derive(PartialEq)]
struct Fixed {
    addresses: [Option<threshold::policy::Listen>; 5],
    data_dir: Option<String>,
    store: [Option<String>; 5],
    archive: Option<threshold::policy::Archive>,
    keep_archive: Option<threshold::Span>,
}

impl Reloader {
    /// Watches the files of `config`, whose policy is in force; none if there are none.
    pub(crate) fn new(config: &ServerConfig) -> Option<Self> {
        let (file, envoy) = (config.file.clone(), config.envoy.clone());
        if file.is_none() && envoy.is_none() {
            return None;
        }
        let (secrets, fixed) = (config.settings.secrets.clone(), Fixed::of(&config.policy));
        let mut reloader = Self { file, envoy, secrets, files: Vec::new(), seen: Vec::new(), fixed };
        reloader.watch(&config.policy);
        reloader.seen = reloader.look();
        Some(reloader)
    }

    /// Reads the policy again if a file is another than before.
    pub(crate) fn reload_if_changed(&mut self, app: &App, serve: &Serve) {
        if self.has_changed() {
            self.reload(app, serve);
        }
    }

    fn has_changed(&mut self) -> bool {
        let now = self.look();
        let changed = now != self.seen;
        self.seen = now;
        changed
    }

    /// Every file as it is now.
    fn look(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let envoy = self.envoy.as_deref().and_then(|folder| config::envoy_files(folder).ok());
        let files = self.files.iter().cloned().chain(envoy.into_iter().flatten());
        let read = |file: PathBuf| {
            let bytes = std::fs::read(&file).ok();
            (file, bytes)
        };
        let mut all: Vec<_> = files.map(read).collect();
        all.sort();
        all
    }

    /// Reads the policy again and puts it in force, or says why not.
    pub(crate) fn reload(&mut self, app: &App, serve: &Serve) {
        // Seen before they are read: what is changed after that is another change.
        self.has_changed();
        match self.try_reload(app, serve) {
            Ok(policy) => {
                app.health.policy();
                app.log.info(&format!("policy reloaded: {} limits", policy.limit.len()));
                let fixed = Fixed::of(&policy);
                if fixed != self.fixed {
                    let what = "addresses, stores, secrets, folders and the archive are taken over at the next start";
                    app.log.warning(what);
                    self.fixed = fixed;
                }
                self.watch(&policy);
            }
            Err(problems) => {
                app.health.refused();
                problems.iter().for_each(|problem| app.log.error(problem));
                app.log.error("policy refused: the last good one stays in force");
            }
        }
    }

    fn try_reload(&self, app: &App, serve: &Serve) -> Result<Policy, Vec<String>> {
        let (policy, rules) =
            config::reread((self.file.as_deref(), self.envoy.as_deref()), &self.secrets).map_err(told)?;
        let one = |problem: String| vec![problem];
        let upstream = config::upstream(serve, &policy).or_else(|| app.upstream.clone());
        // All that can fail comes before anything is changed.
        let prepared = Prepared::new(&policy, upstream.as_deref()).map_err(one)?;
        let alerts = config::alerts(&policy).map_err(one)?;
        app.engine.reload(rules).map_err(|error| vec![error.to_string()])?;
        if let Some(gateway) = &app.gateway {
            let before = gateway.settings();
            gateway.change(Settings::new(prepared, (&app.engine, &app.log), Some(&before)));
        }
        if let Some(api) = &app.api {
            api.change(api::Settings::new(&policy));
        }
        if let Some(resp) = &app.resp {
            resp.change(resp::Settings::new(&policy));
        }
        if let Some(rls) = &app.rls {
            rls.change(rls::Settings::new(&policy));
        }
        app.alerts.change(alerts);
        Ok(policy)
    }

    /// Watches the policy's file and those that it names.
    fn watch(&mut self, policy: &Policy) {
        let tls = policy.gateway.as_ref().and_then(|gateway| gateway.tls.as_ref());
        let named =
            tls.into_iter().flat_map(|tls| [&tls.certificate.value, &tls.key.value]).map(PathBuf::from);
        let hooks = policy.alerts.iter().flat_map(|alerts| &alerts.webhook);
        let secrets = hooks.filter_map(|hook| Some(PathBuf::from(&hook.secret_file.as_ref()?.value)));
        self.files = self.file.iter().cloned().chain(named).chain(secrets).collect();
        // Those that it did not name before have not changed since it was read.
        let known = |file: &Path| self.is_envoys(file) || self.seen.iter().any(|(known, _)| known == file);
        let new: Vec<_> = self.look().into_iter().filter(|(file, _)| !known(file)).collect();
        let seen = std::mem::take(&mut self.seen).into_iter();
        let still = |file: &PathBuf| self.files.contains(file) || self.is_envoys(file);
        let mut seen: Vec<_> = seen.filter(|(file, _)| still(file)).chain(new).collect();
        seen.sort();
        self.seen = seen;
    }

    fn is_envoys(&self, file: &Path) -> bool {
        self.envoy.as_deref().is_some_and(|folder| file.parent() == Some(folder))
    }
}

impl Fixed {
    fn of(policy: &Policy) -> Self {
        let server = policy.server.as_ref();
        let store = policy.store.as_ref();
        let text = |placed: Option<&threshold::policy::Placed<String>>| placed.map(|text| text.value.clone());
        Self {
            addresses: [
                server.and_then(|server| server.gateway),
                server.and_then(|server| server.api),
                server.and_then(|server| server.admin),
                server.and_then(|server| server.resp),
                server.and_then(|server| server.rls),
            ],
            data_dir: server.and_then(|server| server.data_dir.clone()),
            store: [
                text(store.and_then(|store| store.url.as_ref())),
                text(store.and_then(|store| store.ledger.as_ref())),
                text(store.and_then(|store| store.secret.as_ref())),
                text(store.and_then(|store| store.previous_secret.as_ref())),
                store.and_then(|store| store.max_bytes).map(|bytes| bytes.to_string()),
            ],
            archive: policy.archive.clone(),
            keep_archive: policy.privacy.as_ref().and_then(|privacy| privacy.keep_archive),
        }
    }
}

/// What is wrong with a policy, line by line.
fn told(error: PolicyFileError) -> Vec<String> {
    match error {
        PolicyFileError::Unreadable(what) => vec![what],
        PolicyFileError::Broken(error) => {
            error.problems.iter().map(|problem| format!("{}:{problem}", error.file)).collect()
        }
    }
}
