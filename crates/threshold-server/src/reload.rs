//! Policies that change while the server runs: read again, checked whole, and put in force or refused.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use threshold::engine::{Rules, Secrets};
use threshold::policy::Policy;
use tokio::sync::{Notify, mpsc};
use tokio::time::MissedTickBehavior;

use crate::admin::Reload;
use crate::app::App;
use crate::cli::Serve;
use crate::config::{self, PolicyFileError, ServerConfig, Surfaces};
use crate::gateway::{Prepared, Settings};
use crate::{api, resp, rls};

/// How often files are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What is read again, and when.
pub(crate) struct Reloader {
    source: Arc<Source>,
    watched: Watched,
    /// All files as they were seen last.
    seen: Seen,
    /// What only a new start takes over.
    fixed: Fixed,
}

/// Where a policy comes from, and what it is to be good for.
struct Source {
    file: Option<PathBuf>,
    /// The folder of Envoy's files.
    envoy: Option<PathBuf>,
    secrets: Secrets,
    serve: Serve,
    /// The application that there is if the policy names none.
    upstream: Option<String>,
    surfaces: Surfaces,
    data_dir: PathBuf,
}

/// A policy that was read and is good, and what comes of it.
struct Read {
    policy: Policy,
    rules: Rules,
    prepared: Prepared,
    alerts: crate::alerts::Settings,
    /// What could not be carried over.
    notes: Vec<String>,
}

/// Which files are looked at.
#[derive(Clone, Default)]
struct Watched {
    /// The policy's file, and those that it names.
    files: Vec<PathBuf>,
    /// The folder of Envoy's files.
    envoy: Option<PathBuf>,
}

/// Files with what is in them.
type Seen = Vec<(PathBuf, Option<Vec<u8>>)>;

/// Why the policy may have to be read again.
enum Told {
    HungUp,
    /// Somebody waits for it.
    Asked(Reload),
    Look,
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
    /// Watches the files of `config`, whose policy is in force in `app`; none if there are none.
    pub(crate) fn new(config: &ServerConfig, serve: &Serve, app: &App) -> Option<Self> {
        let (file, envoy) = (config.file.clone(), config.envoy.clone());
        if file.is_none() && envoy.is_none() {
            return None;
        }
        let source = Source {
            file,
            envoy: envoy.clone(),
            secrets: config.settings.secrets.clone(),
            serve: serve.clone(),
            upstream: app.upstream.clone(),
            surfaces: config.addresses(),
            data_dir: config.settings.data_dir.clone(),
        };
        let watched = Watched { files: source.files(&config.policy), envoy };
        let (seen, fixed) = (watched.look(), Fixed::of(&config.policy));
        Some(Self { source: Arc::new(source), watched, seen, fixed })
    }

    /// Reads the policy again whenever a file is another than before, when it `hung_up`, and when it is `asked` to; never ends.
    ///
    /// Files are read, and what is in them is worked out, on a thread of its own: whoever else is here is not held up by a
    /// large policy or a slow disk.
    pub(crate) async fn keep(mut self, app: &App, hung_up: &Notify, asked: &mut mpsc::Receiver<Reload>) {
        let mut looking = tokio::time::interval(LOOK);
        looking.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let told = tokio::select! {
                () = hung_up.notified() => Told::HungUp,
                Some(reply) = asked.recv() => Told::Asked(reply),
                _ = looking.tick() => Told::Look,
            };
            let watched = self.watched.clone();
            let Ok(now) = tokio::task::spawn_blocking(move || watched.look()).await else { continue };
            // Seen before they are read: what is changed after that is another change.
            let changed = now != self.seen;
            self.seen = now;
            match told {
                // Who asked may have gone.
                Told::Asked(reply) => drop(reply.send(self.reload(app).await)),
                Told::Look if !changed => {}
                Told::Look | Told::HungUp => {
                    let before = app.desk.policy.current();
                    // What is wrong with it is in the log.
                    if self.reload(app).await.is_ok() {
                        app.desk.took_over(&before).await;
                    }
                }
            }
        }
    }

    /// Reads the policy again and puts it in force, or says why not.
    async fn reload(&mut self, app: &App) -> Result<(), Vec<String>> {
        let source = Arc::clone(&self.source);
        let read = tokio::task::spawn_blocking(move || source.read()).await;
        let read = read.unwrap_or_else(|_| Err(vec!["the policy could not be read; see above".to_owned()]));
        match read.and_then(|read| put_in_force(app, read)) {
            Ok(policy) => {
                app.health.policy();
                app.desk.policy.changed(&policy, self.text());
                app.log.info(&format!("policy reloaded: {} limits", policy.limit.len()));
                let fixed = Fixed::of(&policy);
                if fixed != self.fixed {
                    let what = "addresses, stores, secrets, folders and the archive are taken over at the next start";
                    app.log.warning(what);
                    self.fixed = fixed;
                }
                self.watch(&policy).await;
                Ok(())
            }
            Err(problems) => {
                app.health.refused();
                app.desk.policy.refused(self.text());
                problems.iter().for_each(|problem| app.log.error(problem));
                app.log.error("policy refused: the last good one stays in force");
                Err(problems)
            }
        }
    }

    /// What the policy's file says, as it was seen last.
    fn text(&self) -> Option<String> {
        let (_, bytes) = self.seen.iter().find(|(file, _)| Some(file) == self.source.file.as_ref())?;
        String::from_utf8(bytes.clone()?).ok()
    }

    /// Watches the files that `policy` names from now on. Those that it did not name before have not changed since it was
    /// read.
    async fn watch(&mut self, policy: &Policy) {
        let files = self.source.files(policy);
        let new: Vec<_> = files.iter().filter(|file| !self.watched.files.contains(file)).cloned().collect();
        let watched = Watched { files: new, envoy: None };
        let new = tokio::task::spawn_blocking(move || watched.look()).await.unwrap_or_default();
        let gone = |file: &PathBuf| self.watched.files.contains(file) && !files.contains(file);
        self.seen.retain(|(file, _)| !gone(file));
        self.seen.extend(new);
        self.seen.sort();
        self.watched.files = files;
    }
}

impl Source {
    /// The policy's file, and those that `policy` names.
    fn files(&self, policy: &Policy) -> Vec<PathBuf> {
        let tls = policy.gateway.as_ref().and_then(|gateway| gateway.tls.as_ref());
        let named =
            tls.into_iter().flat_map(|tls| [&tls.certificate.value, &tls.key.value]).map(PathBuf::from);
        let hooks = policy.alerts.iter().flat_map(|alerts| &alerts.webhook);
        let secrets = hooks.filter_map(|hook| Some(PathBuf::from(&hook.secret_file.as_ref()?.value)));
        self.file.iter().cloned().chain(named).chain(secrets).collect()
    }

    /// Reads the policy, and works out all that can fail about it.
    fn read(&self) -> Result<Read, Vec<String>> {
        let files = (self.file.as_deref(), self.envoy.as_deref());
        let (policy, rules, notes) = config::reread(files, &self.secrets).map_err(told)?;
        let one = |problem: String| vec![problem];
        // A surface that others reach stays shut to them, whatever becomes of the policy.
        config::guard(&policy, self.surfaces, &self.data_dir).map_err(one)?;
        let upstream = config::upstream(&self.serve, &policy).or_else(|| self.upstream.clone());
        let prepared = Prepared::new(&policy, upstream.as_deref()).map_err(one)?;
        let alerts = config::alerts(&policy).map_err(one)?;
        Ok(Read { policy, rules, prepared, alerts, notes })
    }
}

/// Says that there is nothing to be read again, whoever asks for it; never ends.
pub(crate) async fn refuse(app: &App, hung_up: &Notify, asked: &mut mpsc::Receiver<Reload>) {
    let what = "there is no policy to read again; start the server with --config";
    loop {
        tokio::select! {
            () = hung_up.notified() => app.log.warning(what),
            Some(reply) = asked.recv() => drop(reply.send(Err(vec![what.to_owned()]))),
        }
    }
}

/// Puts what was read in force, on every surface.
fn put_in_force(
    app: &App,
    Read { policy, rules, prepared, alerts, notes }: Read,
) -> Result<Policy, Vec<String>> {
    // All that can fail comes before anything is changed.
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
    let nothing = config::warns_of_nothing(&policy);
    notes.iter().chain(&nothing).for_each(|note| app.log.warning(note));
    Ok(policy)
}

impl Watched {
    /// Every file as it is now.
    fn look(&self) -> Seen {
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
