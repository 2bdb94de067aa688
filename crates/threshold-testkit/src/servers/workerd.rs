//! Our Worker in workerd, the runtime that Cloudflare itself uses, with its objects on disk.

use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};

use super::process::{Process, Program, REMEDY, free_port, started};
use super::wait_until;
use crate::folder::Folder;

/// Which of the configurations beside the Worker's tests runs.
#[derive(Clone, Copy, Debug)]
enum Config {
    /// As it is deployed.
    Deployed,
    /// It takes the time from who asks.
    Timed,
    /// As it is deployed, and with what the Worker's own tests ask.
    Tested,
    /// A Worker whose objects answer the same to everybody.
    Constant,
}

/// A workerd of a test's own.
#[derive(Debug)]
pub struct Workerd {
    // Before the folder: fields are dropped in order, and the server writes there.
    process: Process,
    folder: Folder,
    config: Config,
    port: u16,
}

impl Workerd {
    /// Starts the Worker as it is deployed.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    #[must_use]
    pub fn start() -> Self {
        started("workerd", || Self::attempt(Config::Deployed))
    }

    /// Starts the Worker so that it takes the time from who asks.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    #[must_use]
    pub fn timed() -> Self {
        started("workerd", || Self::attempt(Config::Timed))
    }

    /// Starts the Worker with the one that tests it from inside.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    #[must_use]
    pub fn tested() -> Self {
        started("workerd", || Self::attempt(Config::Tested))
    }

    /// Starts a Worker whose objects answer the same to everybody: what decisions are measured against.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    #[must_use]
    pub fn constant() -> Self {
        started("workerd", || Self::attempt(Config::Constant))
    }

    fn attempt(config: Config) -> Result<Self, String> {
        let (folder, port) = (Folder::new(), free_port());
        std::fs::create_dir(folder.path().join("storage")).expect("the folder is writable");
        let process = run(folder.path(), config, port);
        let server = Self { process, folder, config, port };
        server.answers().map(|()| server)
    }

    fn answers(&self) -> Result<(), String> {
        let answers = || TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok();
        let came = wait_until(|| !self.process.is_running() || answers());
        if came && self.process.is_running() { Ok(()) } else { Err(self.process.log()) }
    }

    /// Where it is, with the token.
    #[must_use]
    pub fn url(&self) -> String {
        format!("durable-object+http://secret@127.0.0.1:{}", self.port)
    }

    /// The port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The number of its process.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// What it had to say.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Kills it as `kill -9` does. [`Workerd::start_again`] brings it back.
    pub fn kill(&mut self) {
        self.process.end("KILL");
    }

    /// Starts it again, after killing it if nobody has, at the same address and with what it kept.
    ///
    /// # Panics
    ///
    /// If it does not come up; with its log.
    pub fn start_again(&mut self) {
        self.kill();
        self.process = run(self.folder.path(), self.config, self.port);
        if let Err(log) = self.answers() {
            panic!("workerd does not start again; its log:\n{log}");
        }
    }
}

fn run(folder: &Path, config: Config, port: u16) -> Process {
    let constant = match config {
        Config::Deployed => "deployed",
        Config::Timed => "timed",
        Config::Tested => "tested",
        Config::Constant => "constant",
    };
    let words = [
        program().display().to_string(),
        "serve".to_owned(),
        root().join("workers/durable-object/test/config.capnp").display().to_string(),
        constant.to_owned(),
        "--socket-addr".to_owned(),
        format!("http=127.0.0.1:{port}"),
        "--directory-path".to_owned(),
        format!("storage={}", folder.join("storage").display()),
    ];
    Process::start(&Program { folder, owner: None, signal: "KILL", words: words.to_vec() })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// The program itself: what npm puts on the path is a script that starts it, which a signal would hit instead.
fn program() -> PathBuf {
    let packages = root().join("target/tools/workerd/node_modules/@cloudflare");
    let found = std::fs::read_dir(&packages).into_iter().flatten().filter_map(Result::ok);
    let mut programs = found.map(|package| package.path().join("bin/workerd")).filter(|path| path.is_file());
    programs.next().unwrap_or_else(|| panic!("workerd is not below {}: {REMEDY}", packages.display()))
}
