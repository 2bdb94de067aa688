//! Where things run: a folder that goes away, ports that are free, one core for the server and one for the rest.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::Outcome;

/// A folder of this run's own, removed with everything in it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("threshold-bench-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left in the system's own folder for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Addresses that nobody listens on: all are held until the last is found, so that they differ.
pub(crate) fn free<const N: usize>() -> io::Result<[SocketAddr; N]> {
    let mut held = Vec::with_capacity(N);
    let mut addresses = [SocketAddr::from(([127, 0, 0, 1], 0)); N];
    for address in &mut addresses {
        let listener = TcpListener::bind(*address)?;
        *address = listener.local_addr()?;
        held.push(listener);
    }
    Ok(addresses)
}

/// The first two cores that this process may use.
#[derive(Clone, Copy)]
pub(crate) struct Cores {
    pub(crate) server: usize,
    /// For the client, and for an upstream if there is one: the same for every server.
    pub(crate) rest: usize,
}

impl Cores {
    pub(crate) fn pick() -> Outcome<Self> {
        let allowed = sched_getaffinity(None)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        match (cores.next(), cores.next()) {
            (Some(server), Some(rest)) => Ok(Self { server, rest }),
            _ => Err("two cores are needed: one for the server that is measured, one for the load".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_addresses_differ() {
        let [one, other] = free::<2>().unwrap();
        assert_ne!(one, other);
        assert!(TcpListener::bind(one).is_ok());
    }
}
