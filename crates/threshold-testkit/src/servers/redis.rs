//! Redis servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::certificates::Certificates;
use super::process::{Process, Program, free_port, output, started};
use super::wait_until;
use crate::folder::Folder;

/// The testkit's own user on every Redis it starts, whatever the others may do.
const OPERATOR: &str = "testkit";

/// What is special about a Redis server.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    settings: Vec<(String, String)>,
    user: Option<(String, String)>,
    rules: String,
    tls: bool,
    sentinel: bool,
}

impl RedisOptions {
    /// A server that keeps nothing when it stops and lets everybody in.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One line of `redis.conf`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Every write is on disk before it is answered.
    #[must_use]
    pub fn durable(self) -> Self {
        self.set("appendonly", "yes").set("appendfsync", "always")
    }

    /// Only this user may come in, and do what the rules of an ACL say (`+@all ~* &*` is everything).
    #[must_use]
    pub fn user(mut self, name: &str, password: &str, rules: &str) -> Self {
        self.user = Some((name.to_owned(), password.to_owned()));
        rules.clone_into(&mut self.rules);
        self
    }

    /// Only TLS, with a certificate of [`Redis::certificates`].
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// A Sentinel, which watches others.
    pub(super) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// Starts the server.
    ///
    /// # Panics
    ///
    /// If it does not come up; with its log.
    #[must_use]
    pub fn start(self) -> Redis {
        started("redis-server", || Redis::attempt(&self))
    }
}

/// A Redis server of a test's own.
#[derive(Debug)]
pub struct Redis {
    // Before the folder: fields are dropped in order, and the server writes there.
    process: Process,
    folder: Folder,
    options: RedisOptions,
    certificates: Option<Certificates>,
    port: u16,
}

impl Redis {
    /// Starts one with [`RedisOptions::new`].
    ///
    /// # Panics
    ///
    /// If it does not come up.
    #[must_use]
    pub fn start() -> Self {
        RedisOptions::new().start()
    }

    /// Starts one that loses nothing it answered: [`RedisOptions::durable`].
    ///
    /// # Panics
    ///
    /// If it does not come up.
    #[must_use]
    pub fn durable() -> Self {
        RedisOptions::new().durable().start()
    }

    fn attempt(options: &RedisOptions) -> Result<Self, String> {
        let (folder, port) = (Folder::new(), free_port());
        let certificates = options.tls.then(|| Certificates::new(folder.path()));
        let configuration = configuration(options, folder.path(), port, certificates.as_ref());
        std::fs::write(folder.path().join("redis.conf"), configuration).expect("the folder is writable");
        let process = run(folder.path(), options.sentinel);
        let redis = Self { process, folder, options: options.clone(), certificates, port };
        redis.answers()?;
        Ok(redis)
    }

    fn answers(&self) -> Result<(), String> {
        // While it loads its file it answers, but with an error.
        let pong = || self.cli(&["ping"]).is_ok_and(|said| said.trim() == "PONG");
        let _ = wait_until(|| !self.process.is_running() || pong());
        if self.process.is_running() && pong() { Ok(()) } else { Err(self.process.log()) }
    }

    /// Where it is: `redis://127.0.0.1:PORT`, with `rediss` and a user as the options say.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.options.tls { "rediss" } else { "redis" };
        let user = self.options.user.as_ref();
        let user = user.map_or_else(String::new, |(name, password)| format!("{name}:{password}@"));
        format!("{scheme}://{user}127.0.0.1:{}", self.port)
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
    /// If it was not started with [`RedisOptions::tls`].
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().expect("a server with TLS")
    }

    /// Runs one command with `redis-cli`, as somebody who may do everything.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached. What it answers, an error too, is the text.
    pub fn cli(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new("redis-cli");
        command.arg("-s").arg(socket(self.folder.path()));
        if !self.options.sentinel {
            command.args(["--no-auth-warning", "--user", OPERATOR, "--pass", OPERATOR]);
        }
        output(command.args(words))
    }

    /// Kills it as `kill -9` does. [`Redis::start_again`] brings it back.
    pub fn kill(&mut self) {
        self.process.end("KILL");
    }

    /// Tells it to end, and waits until it has.
    pub fn stop(&mut self) {
        self.process.end("TERM");
    }

    /// Starts it again, after stopping it if nobody has, at the same address and with what it kept.
    ///
    /// # Panics
    ///
    /// If it does not come up; with its log.
    pub fn start_again(&mut self) {
        self.stop();
        self.process = run(self.folder.path(), self.options.sentinel);
        if let Err(log) = self.answers() {
            panic!("redis-server does not start again; its log:\n{log}");
        }
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("redis.sock")
}

fn run(folder: &Path, sentinel: bool) -> Process {
    let mut words = vec!["redis-server".to_owned(), "redis.conf".to_owned()];
    if sentinel {
        words.push("--sentinel".to_owned());
    }
    Process::start(&Program { folder, owner: None, signal: "KILL", words })
}

fn configuration(options: &RedisOptions, folder: &Path, port: u16, tls: Option<&Certificates>) -> String {
    let mut lines = vec![
        "bind 127.0.0.1".to_owned(),
        format!("dir {}", folder.display()),
        format!("unixsocket {}", socket(folder).display()),
    ];
    match tls {
        None => lines.push(format!("port {port}")),
        Some(tls) => {
            lines.push(format!("port 0\ntls-port {port}\ntls-auth-clients no"));
            lines.push(format!("tls-ca-cert-file {}", tls.authority().display()));
            lines.push(format!("tls-cert-file {}", tls.certificate().display()));
            lines.push(format!("tls-key-file {}", tls.key().display()));
        }
    }
    if !options.sentinel {
        // A replica need not wait for others that may want the same.
        lines.push("repl-diskless-sync-delay 0".to_owned());
        lines.push(format!("save \"\"\nuser {OPERATOR} on >{OPERATOR} ~* &* +@all"));
    }
    if let Some((name, password)) = &options.user {
        lines.push(format!("user default off\nuser {name} on >{password} {}", options.rules));
    }
    lines.extend(options.settings.iter().map(|(name, value)| format!("{name} {value}")));
    lines.join("\n") + "\n"
}
