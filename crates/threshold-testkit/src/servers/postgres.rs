//! Postgres servers.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use super::certificates::Certificates;
use super::process::{Owner, Process, Program, REMEDY, free_port, output, started};
use super::wait_until;
use crate::folder::Folder;

/// The name of the superuser, and of the user of the operating system that the server runs as where we are root.
const USER: &str = "postgres";
const PASSWORD: &str = "of-tests";

/// What is special about a Postgres server.
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions {
    settings: Vec<(String, String)>,
    tls: bool,
}

impl PostgresOptions {
    /// A server whose writes survive its own death but not the machine's: `fsync` is off, for speed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One setting of `postgresql.conf`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// TLS is offered, with a certificate of [`Postgres::certificates`].
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Starts the server.
    ///
    /// # Panics
    ///
    /// If it does not come up; with its log.
    #[must_use]
    pub fn start(self) -> Postgres {
        started("postgres", || Postgres::attempt(&self))
    }
}

/// A Postgres server of a test's own.
#[derive(Debug)]
pub struct Postgres {
    // Before the folder: fields are dropped in order, and the server writes there.
    process: Process,
    folder: Folder,
    certificates: Option<Certificates>,
    port: u16,
}

impl Postgres {
    /// Starts one with [`PostgresOptions::new`].
    ///
    /// # Panics
    ///
    /// If it does not come up.
    #[must_use]
    pub fn start() -> Self {
        PostgresOptions::new().start()
    }

    fn attempt(options: &PostgresOptions) -> Result<Self, String> {
        let (folder, port, owner) = (Folder::new(), free_port(), owner());
        prepare(folder.path(), owner)?;
        let certificates = options.tls.then(|| Certificates::new(folder.path()));
        if let Some(certificates) = &certificates {
            keep_to(certificates.key(), owner);
        }
        let settings = configuration(options, folder.path(), port, certificates.as_ref());
        std::fs::write(data(folder.path()).join("postgresql.auto.conf"), settings).expect("it is ours");
        let process = run(folder.path(), owner);
        let postgres = Self { process, folder, certificates, port };
        postgres.answers()?;
        Ok(postgres)
    }

    /// Waits for what the server writes beside its data once it takes connections.
    fn answers(&self) -> Result<(), String> {
        let status = data(self.folder.path()).join("postmaster.pid");
        let own = format!("{}\n", self.process.id());
        let is_ready = || {
            let said = std::fs::read_to_string(&status).unwrap_or_default();
            said.starts_with(&own) && said.trim_end().ends_with("ready")
        };
        let _ = wait_until(|| !self.process.is_running() || is_ready());
        if self.process.is_running() && is_ready() { Ok(()) } else { Err(self.process.log()) }
    }

    /// Where it is, as its superuser: `postgres://USER:PASSWORD@127.0.0.1:PORT/postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/postgres", self.port)
    }

    /// Its port on the loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Its certificates.
    ///
    /// # Panics
    ///
    /// If it was not started with [`PostgresOptions::tls`].
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().expect("a server with TLS")
    }

    /// Runs SQL with `psql`, as the superuser. Gives the rows, one in each line, with `|` between their fields.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn sql(&self, sql: &str) -> String {
        psql(&self.url(), sql).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Kills it as `kill -9` does. [`Postgres::start_again`] brings it back.
    pub fn kill(&mut self) {
        self.process.end("KILL");
    }

    /// Tells it to end, and waits until it has. Clients are cut off.
    pub fn stop(&mut self) {
        self.process.end("INT");
    }

    /// Starts it again, after stopping it if nobody has, at the same address and with what it kept.
    ///
    /// # Panics
    ///
    /// If it does not come up; with its log.
    pub fn start_again(&mut self) {
        // Those processes of a killed server that served its clients notice that it is gone, and go too. Until they
        // have, the memory that they shared is in use, and no other server starts on the same data.
        let is_back = wait_until(|| {
            self.stop();
            self.process = run(self.folder.path(), owner());
            self.answers().is_ok()
        });
        assert!(is_back, "postgres does not start again; its log:\n{}", self.process.log());
    }
}

/// A database of one test's own, dropped afterwards.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
}

impl Database {
    /// Makes one on a server, given the URL of another of its databases.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[must_use]
    pub fn on(server: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let name = format!("test_{process}_{next}");
        psql(server, &format!("create database {name}")).unwrap_or_else(|why| panic!("{why}"));
        Self { server: server.to_owned(), name }
    }

    /// Where it is, as the user of the server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        let (server, _) = self.server.rsplit_once('/').expect("a URL with a database");
        format!("{server}/{}", self.name)
    }

    /// Runs SQL with `psql`. Gives the rows, one in each line, with `|` between their fields.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn sql(&self, sql: &str) -> String {
        psql(&self.url(), sql).unwrap_or_else(|why| panic!("{why}"))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The server may have been killed; then the database goes with it.
        let _ = psql(&self.server, &format!("drop database if exists {} with (force)", self.name));
    }
}

fn psql(url: &str, sql: &str) -> Result<String, String> {
    let mut command = Command::new(program("psql"));
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
    output(command.args(["--set", "ON_ERROR_STOP=1", "--command", sql, url]))
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// The newest version that is installed where distributions keep several of them, else what is on the path.
fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|version| version.path()).collect();
    versions.sort_by_key(|path| path.file_name()?.to_str()?.parse::<u32>().ok());
    let mut programs = versions.into_iter().rev().map(|version| version.join("bin").join(name));
    programs.find(|path| path.is_file()).unwrap_or_else(|| name.into())
}

/// Postgres refuses to run as root. Where we are root it runs as the user that its package made.
fn owner() -> Option<Owner> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|ourselves| ourselves.uid() == 0);
    is_root.then(|| {
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let owner = users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let (name, _) = (fields.next()?, fields.next()?);
            let owner = Owner { user: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? };
            (name == USER).then_some(owner)
        });
        owner.unwrap_or_else(|| panic!("root may not run Postgres, and no user is called `{USER}`: {REMEDY}"))
    })
}

fn keep_to(path: &Path, owner: Option<Owner>) {
    let mode = if path.is_dir() { 0o700 } else { 0o600 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    if let Some(owner) = owner {
        chown(path, Some(owner.user), Some(owner.group)).expect("root may give away");
    }
}

/// Makes an empty cluster of databases.
fn prepare(folder: &Path, owner: Option<Owner>) -> Result<(), String> {
    let password = folder.join("password");
    std::fs::write(&password, PASSWORD).expect("the folder is ours");
    keep_to(&password, owner);
    keep_to(folder, owner);
    let mut command = Command::new(program("initdb"));
    command.arg("--pgdata").arg(data(folder)).arg("--pwfile").arg(&password).current_dir(folder);
    command.args(["--username", USER, "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"]);
    command.arg("--no-sync");
    if let Some(owner) = owner {
        command.uid(owner.user).gid(owner.group);
    }
    output(&mut command).map(drop)
}

fn run(folder: &Path, owner: Option<Owner>) -> Process {
    let words =
        [program("postgres").display().to_string(), "-D".to_owned(), data(folder).display().to_string()];
    // At once, with no thought for its data, but without leaving shared memory behind.
    Process::start(&Program { folder, owner, signal: "QUIT", words: words.into() })
}

fn configuration(options: &PostgresOptions, folder: &Path, port: u16, tls: Option<&Certificates>) -> String {
    let mut settings = vec![
        ("listen_addresses".to_owned(), "127.0.0.1".to_owned()),
        ("port".to_owned(), port.to_string()),
        ("unix_socket_directories".to_owned(), folder.display().to_string()),
        ("max_connections".to_owned(), "200".to_owned()),
        ("fsync".to_owned(), "off".to_owned()),
    ];
    if let Some(tls) = tls {
        settings.push(("ssl".to_owned(), "on".to_owned()));
        settings.push(("ssl_cert_file".to_owned(), tls.certificate().display().to_string()));
        settings.push(("ssl_key_file".to_owned(), tls.key().display().to_string()));
    }
    let settings = settings.iter().chain(&options.settings);
    settings.map(|(name, value)| format!("{name} = '{value}'\n")).collect()
}
