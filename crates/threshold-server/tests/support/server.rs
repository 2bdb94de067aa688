//! The real server, as a process of its own on free ports.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use threshold_testkit::folder::Folder;

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server; killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) folder: Folder,
    pub(crate) gateway: SocketAddr,
    pub(crate) api: SocketAddr,
    pub(crate) rls: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) resp: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
    listening: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts a server with the policy `policy` before the application `upstream`.
    pub(crate) fn start(policy: &str, upstream: SocketAddr) -> Self {
        Self::with(policy, &["--upstream", &format!("http://{upstream}")], &[])
    }

    /// Starts a server with further `arguments` and variables of the `environment`.
    pub(crate) fn with(policy: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        // Anywhere on this machine, but for what is told otherwise.
        let surfaces = ["--gateway", "--api", "--admin", "--resp", "--rls"];
        let anywhere = surfaces.into_iter().filter(|surface| !arguments.contains(surface));
        let anywhere = anywhere.flat_map(|surface| [surface, "127.0.0.1:0"]);
        let folder = Folder::new();
        std::fs::write(folder.path().join("policy.toml"), policy).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_threshold"))
            .current_dir(folder.path())
            .args(["serve", "--config", "policy.toml"])
            .args(anywhere)
            .args(arguments)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let listening = vec![
            listen(child.stdout.take().unwrap(), Arc::clone(&said)),
            listen(child.stderr.take().unwrap(), Arc::clone(&said)),
        ];
        let mut server = Self {
            child,
            folder,
            gateway: SocketAddr::from(([127, 0, 0, 1], 0)),
            api: SocketAddr::from(([127, 0, 0, 1], 0)),
            rls: SocketAddr::from(([127, 0, 0, 1], 0)),
            admin: SocketAddr::from(([127, 0, 0, 1], 0)),
            resp: SocketAddr::from(([127, 0, 0, 1], 0)),
            said,
            listening,
        };
        server.hears("Ctrl-C stops it", 1);
        server.gateway = server.address("gateway");
        server.api = server.address("api");
        server.admin = server.address("admin");
        server.resp = server.address("resp");
        server.rls = server.address("rls");
        server
    }

    /// Writes another policy; the server reads it by itself, or at once when it is [told to](Self::hang_up).
    pub(crate) fn write_policy(&self, policy: &str) {
        // Put in place whole: a reader never sees half of it.
        let new = self.folder.path().join("policy.new");
        std::fs::write(&new, policy).unwrap();
        std::fs::rename(&new, self.folder.path().join("policy.toml")).unwrap();
    }

    /// Runs another command on the same ledger, whose words are divided by spaces.
    pub(crate) fn command(&self, line: &str) {
        let ran = Command::new(env!("CARGO_BIN_EXE_threshold"))
            .current_dir(self.folder.path())
            .args(line.split(' '))
            .args(["--data-dir", "threshold-data"])
            .output()
            .unwrap();
        assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    /// Sends SIGHUP.
    pub(crate) fn hang_up(&self) {
        self.signal("HUP");
    }

    /// Sends the signal called `name`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How many lines with `text` it has said.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.said.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }

    /// Everything it has said.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }

    /// Waits until it has said `text` in `times` lines.
    pub(crate) fn hears(&mut self, text: &str, times: usize) {
        let begun = Instant::now();
        while self.count(text) < times {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the server ended ({status}) without saying {text:?}:\n{}", self.said());
            }
            assert!(begun.elapsed() < PATIENCE, "it never said {text:?} {times} times:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// It says `text` in `times` lines, and in no more; what it says may come a moment after what it does.
    pub(crate) fn tells(&mut self, text: &str, times: usize) {
        self.hears(text, times);
        assert_eq!(self.count(text), times, "{text:?}: {}", self.said());
    }

    /// Waits until it has ended by itself, and has been heard to the end.
    pub(crate) fn ends(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.listening.drain(..).for_each(|thread| thread.join().unwrap());
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it never ended:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The bytes of memory that it has resident.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    fn address(&self, surface: &str) -> SocketAddr {
        let said = self.said.lock().unwrap();
        let line = said.iter().find(|line| line.trim_start().starts_with(surface)).unwrap();
        let rest = line.split("://").nth(1).unwrap();
        rest.split([',', ' ']).next().unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(source: impl std::io::Read + Send + 'static, said: Arc<Mutex<Vec<String>>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(source).lines().map_while(Result::ok) {
            said.lock().unwrap().push(line);
        }
    })
}
