//! Where things run: a folder that goes away, ports that are free, one core for the proxy and one for the rest.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::Outcome;

/// A folder of this run's own, removed with everything in it.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("threshold-bench-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and returns its path.
    pub(super) fn file(&self, name: &str, text: &str) -> io::Result<PathBuf> {
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
pub(super) fn free<const N: usize>() -> io::Result<[SocketAddr; N]> {
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
pub(super) struct Cores {
    pub(super) proxy: usize,
    /// For the upstream and the client together, the same for every proxy.
    pub(super) rest: usize,
}

impl Cores {
    pub(super) fn pick() -> Outcome<Self> {
        let allowed = sched_getaffinity(None)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        match (cores.next(), cores.next()) {
            (Some(proxy), Some(rest)) => Ok(Self { proxy, rest }),
            _ => Err("two cores are needed: one for the proxy, one for the upstream and the client".into()),
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
