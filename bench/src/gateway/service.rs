//! A server that was started for the run and ends with it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::places::Folder;
use super::{REQUEST_HEADERS, REQUEST_PATH, tools};
use crate::Outcome;

const START: Duration = Duration::from_secs(20);

/// A command line that serves HTTP at an address.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) words: Vec<String>,
    pub(super) core: usize,
    pub(super) address: SocketAddr,
}

/// Killed when it is dropped.
pub(super) struct Service {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    child: Child,
    log: PathBuf,
}

impl Service {
    /// Starts it on its core and waits until it answers.
    pub(super) fn start(line: &Line, folder: &Folder) -> Outcome<Self> {
        let log = folder.path().join(format!("{}.log", line.name));
        let output = File::create(&log)?;
        let child = pinned(line.core)
            .args(&line.words)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let mut service = Self { name: line.name, address: line.address, child, log };
        service.wait_until_it_answers()?;
        Ok(service)
    }

    fn wait_until_it_answers(&mut self) -> Outcome<()> {
        let begun = Instant::now();
        loop {
            if self.child.try_wait()?.is_some() {
                return Err(self.complaint("ended instead of serving"));
            }
            match self.ask() {
                Ok(answer) if answer.starts_with("HTTP/1.1 200 ") => return Ok(()),
                Ok(answer) if begun.elapsed() > START => {
                    let line = answer.lines().next().unwrap_or("nothing");
                    return Err(self.complaint(&format!("answered with {line:?}")));
                }
                Err(error) if begun.elapsed() > START => {
                    return Err(self.complaint(&format!("did not answer: {error}")));
                }
                _ => sleep(Duration::from_millis(20)),
            }
        }
    }

    /// The whole answer to the request that is measured.
    pub(super) fn ask(&self) -> Outcome<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(request(self.address, "connection: close\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Processor time that it used so far, all threads together.
    pub(super) fn busy(&self) -> Outcome<Duration> {
        let mut nanos = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            nanos += text.split_whitespace().next().ok_or("schedstat is empty")?.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// With what the server itself said, which is gone with the folder.
    fn complaint(&self, what: &str) -> Box<dyn std::error::Error> {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(10)..].join("\n  ");
        format!("{} {what}\n  {last}", self.name).into()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command on one core that ends when this process does, however that comes about.
pub(super) fn pinned(core: usize) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "taskset", "--cpu-list", &core.to_string()]);
    command.env("PATH", tools::search_path());
    command
}

/// The request that everyone is asked, with further header lines.
pub(super) fn request(address: SocketAddr, more: &str) -> String {
    let headers: String = REQUEST_HEADERS.iter().map(|header| format!("{header}\r\n")).collect();
    format!("GET {REQUEST_PATH} HTTP/1.1\r\nhost: {address}\r\n{headers}{more}\r\n")
}
