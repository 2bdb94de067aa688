//! A server that was started for the run and ends with it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::places::Folder;
use super::{Request, tools};
use crate::Outcome;

const START: Duration = Duration::from_secs(20);

/// A command line that serves HTTP at an address.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) words: Vec<String>,
    pub(crate) core: usize,
    pub(crate) address: SocketAddr,
    /// What it is asked, and must answer with a 200 before anything is measured.
    pub(crate) request: Request,
}

/// Killed when it is dropped.
pub(crate) struct Service {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) request: Request,
    /// What wrk needs to ask it, besides arguments.
    pub(crate) script: Option<PathBuf>,
    child: Child,
    log: PathBuf,
}

impl Service {
    /// Starts it on its core and waits until it answers.
    pub(crate) fn start(line: &Line, folder: &Folder) -> Outcome<Self> {
        Self::start_when(line, folder, |service| {
            let answer = service.ask()?;
            match answer.starts_with("HTTP/1.1 200 ") {
                true => Ok(()),
                false => {
                    Err(format!("it answered with {:?}", answer.lines().next().unwrap_or("nothing")).into())
                }
            }
        })
    }

    /// Starts it on its core and waits until `answers` is content.
    pub(crate) fn start_when(
        line: &Line,
        folder: &Folder,
        answers: impl Fn(&Self) -> Outcome<()>,
    ) -> Outcome<Self> {
        let log = folder.path().join(format!("{}.log", line.name));
        let output = File::create(&log)?;
        let script = line.request.script();
        let script = script.map(|text| folder.file(&format!("{}.lua", line.name), &text)).transpose()?;
        let child = pinned(line.core)
            .args(&line.words)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let Line { name, address, request, .. } = *line;
        let mut service = Self { name, address, request, script, child, log };
        service.wait_until(answers)?;
        Ok(service)
    }

    fn wait_until(&mut self, answers: impl Fn(&Self) -> Outcome<()>) -> Outcome<()> {
        let begun = Instant::now();
        loop {
            if self.child.try_wait()?.is_some() {
                return Err(self.complaint("ended instead of serving"));
            }
            match answers(self) {
                Ok(()) => return Ok(()),
                Err(error) if begun.elapsed() > START => {
                    return Err(self.complaint(&format!("did not answer well: {error}")));
                }
                Err(_) => sleep(Duration::from_millis(20)),
            }
        }
    }

    /// The whole answer to the request that is measured.
    pub(crate) fn ask(&self) -> Outcome<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(self.request.text(self.address, "connection: close\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Processor time that it used so far, all threads together.
    pub(crate) fn busy(&self) -> Outcome<Duration> {
        let mut nanos = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            nanos += text.split_whitespace().next().ok_or("schedstat is empty")?.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// Bytes of memory that it has resident.
    pub(crate) fn resident(&self) -> Outcome<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
        let kibibytes: u64 = line.split_whitespace().nth(1).ok_or("VmRSS is empty")?.parse()?;
        Ok(kibibytes * 1_024)
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
pub(crate) fn pinned(core: usize) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "taskset", "--cpu-list", &core.to_string()]);
    command.env("PATH", tools::search_path());
    command
}
