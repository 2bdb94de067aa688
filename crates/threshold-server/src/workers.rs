//! Threads that serve connections, each with a runtime of its own: they share nothing that a request waits for.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, watch};

/// The doors of workers: what arrives is handed to each in turn.
pub(crate) struct Doors<T> {
    doors: Vec<mpsc::UnboundedSender<T>>,
    turn: AtomicUsize,
}

/// The workers themselves.
pub(crate) struct Workers {
    /// Ends them and whatever they still serve.
    over: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

/// Starts `count` workers called `name`, each doing what `make` gives it until the last door is closed or they are ended.
pub(crate) fn start<T, W, F>(
    name: &str,
    count: usize,
    mut make: impl FnMut() -> W,
) -> std::io::Result<(Doors<T>, Workers)>
where
    T: Send + 'static,
    W: FnOnce(mpsc::UnboundedReceiver<T>) -> F + Send + 'static,
    F: Future<Output = ()>,
{
    let (over, _) = watch::channel(false);
    let (mut doors, mut threads) = (Vec::new(), Vec::new());
    for number in 0..count {
        let (door, arrivals) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (work, mut over) = (make(), over.subscribe());
        let thread = std::thread::Builder::new().name(format!("{name}-{number}"));
        threads.push(thread.spawn(move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = work(arrivals) => {}
                    () = told(&mut over) => {}
                }
            });
        })?);
        doors.push(door);
    }
    Ok((Doors { doors, turn: AtomicUsize::new(0) }, Workers { over, threads }))
}

/// Waits until somebody says so, or nobody is left to.
pub(crate) async fn told(word: &mut watch::Receiver<bool>) {
    let _ = word.wait_for(|said| *said).await;
}

/// A worker for each processor that we may use.
pub(crate) fn count() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl<T> Doors<T> {
    /// Hands `arrival` to the next worker.
    pub(crate) fn hand(&self, arrival: T) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.doors.len();
        let _ = self.doors[turn].send(arrival);
    }
}

impl Workers {
    /// Ends them, with whatever they still serve.
    pub(crate) async fn end(self) {
        let _ = self.over.send(true);
        for thread in self.threads {
            // A worker that panicked has nothing left to wait for.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}
