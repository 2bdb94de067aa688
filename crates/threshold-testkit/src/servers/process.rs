//! A server's process, which cannot outlive the test that started it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

/// A shell between the test and the server, waiting at a pipe whose other end the test holds. The operating system
/// closes that end however the test dies, and the shell then stops the server and removes its folder. A line on the
/// pipe is the signal to stop the server with and to keep the folder.
const SHELL: &str = r#"
folder=$1 signal=$2
shift 2
"$@" </dev/null >>"$folder/log" 2>&1 &
server=$!
echo "$server"
read -r asked && signal=$asked
kill -"$signal" "$server" 2>/dev/null
wait "$server" 2>/dev/null
test "$asked" || rm -rf "$folder"
"#;

/// A user of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) user: u32,
    pub(super) group: u32,
}

/// How to run a server.
pub(super) struct Program<'a> {
    /// Removed when the server is dropped. Its output is there, in `log`.
    pub(super) folder: &'a Path,
    /// Whom the process belongs to, if not to us.
    pub(super) owner: Option<Owner>,
    /// How it is told to go when nobody needs what it holds any more.
    pub(super) signal: &'static str,
    pub(super) words: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Process {
    /// None once the server was stopped.
    shell: Option<Child>,
    id: u32,
    log: PathBuf,
}

impl Process {
    pub(super) fn start(program: &Program<'_>) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", SHELL, "sh"]).arg(program.folder).arg(program.signal).args(&program.words);
        // Away from the test's group, so that what is sent to all of that does not hit the shell.
        command.process_group(0).current_dir(program.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(owner) = program.owner {
            command.uid(owner.user).gid(owner.group);
        }
        let mut shell = command.spawn().expect("a shell runs on this machine");
        let mut id = String::new();
        let said = shell.stdout.take().expect("the pipe was asked for");
        BufReader::new(said).read_line(&mut id).expect("the shell says whom it started");
        let id = id.trim().parse().expect("the shell says a process's number");
        Self { shell: Some(shell), id, log: program.folder.join("log") }
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// False once the server has ended, by whatever hand.
    pub(super) fn is_running(&self) -> bool {
        // Its shell has not looked after it yet, so its number is not given to another.
        let state = std::fs::read_to_string(format!("/proc/{}/stat", self.id)).unwrap_or_default();
        let state = state.rsplit(") ").next().unwrap_or_default();
        self.shell.is_some() && !state.is_empty() && !state.starts_with('Z')
    }

    /// Ends the server with a signal and waits until it is gone. Its folder stays.
    pub(super) fn end(&mut self, signal: &str) {
        if let Some(mut shell) = self.shell.take() {
            let mut pipe = shell.stdin.take().expect("the pipe was asked for");
            pipe.write_all(format!("{signal}\n").as_bytes()).expect("the shell listens");
            shell.wait().expect("the shell ends");
        }
    }

    /// What the server had to say.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut shell) = self.shell.take() {
            drop(shell.stdin.take());
            // A shell that cannot be waited for is gone already.
            let _ = shell.wait();
        }
    }
}

/// A port that nobody has, and whose number plus 10,000 nobody has either: that one is for a cluster's own talk.
///
/// Both are below those that the operating system gives to outgoing connections: a server that was stopped finds its
/// port free when it comes back.
pub(super) fn free_port() -> u16 {
    const FIRST: u16 = 11_000;
    const COUNT: u16 = 10_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    // Each process begins elsewhere, so that two of them seldom try the same port at the same moment.
    let begin = std::process::id().wrapping_mul(7919);
    for _ in 0..COUNT {
        let next = begin.wrapping_add(u32::from(NEXT.fetch_add(1, Ordering::Relaxed))) % u32::from(COUNT);
        let port = FIRST + u16::try_from(next).expect("below the count");
        if is_free(port) && is_free(port + COUNT) {
            return port;
        }
    }
    panic!("no port between {FIRST} and {} is free", FIRST + COUNT);
}

/// Runs a program to its end and gives what it printed, or what it complained about.
pub(super) fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("`{program}` could not be started ({error}): {REMEDY}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(printed) } else { Err(format!("`{program}`: {printed}{complaint}")) }
}

/// What to do where a server is missing.
pub(super) const REMEDY: &str = "install the servers that tests need with `cargo xtask test setup`";

/// A server of `program`, tried some times: another process may take a port between the moment it was found free and the
/// moment it is used.
pub(super) fn started<T>(program: &str, attempt: impl Fn() -> Result<T, String>) -> T {
    let mut log = String::new();
    for _ in 0..5 {
        match attempt() {
            Ok(server) => return server,
            Err(said) => log = said,
        }
    }
    panic!("{program} does not start ({REMEDY}); its log:\n{log}")
}
