//! Clients who mean no harm, and who must not notice that others do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::support::application::Application;
use crate::support::client::Client;

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(45);
/// What good clients ask for.
const PATH: &str = "/good";

/// Good clients at 127.0.0.1: some of them connect for each request, the others keep their connections.
pub(crate) struct Good {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Good {
    /// Starts asking `gateway`.
    pub(crate) fn start(gateway: SocketAddr) -> Self {
        let (stop, answered): (Arc<AtomicBool>, Arc<AtomicUsize>) = Default::default();
        let client = |kept: bool| {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            tokio::spawn(async move {
                let mut failures = Vec::new();
                let mut client = Client::new(gateway);
                while !stop.load(Ordering::Relaxed) {
                    if !kept {
                        client = Client::new(gateway);
                    }
                    match tokio::time::timeout(
                        PATIENCE,
                        client.try_send(client.request("GET", PATH, &[], "")),
                    )
                    .await
                    {
                        Ok(Ok(answer)) if answer.status == 200 && answer.text() == "ok" => {
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        other => failures.push(format!("kept {kept}: {other:?}")),
                    }
                    // Enough to be there all the time, and not an attack of its own.
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                failures
            })
        };
        let clients = [true, true, false, false].map(client).into();
        Self { stop, answered, clients }
    }

    /// Waits until `more` further requests were answered.
    pub(crate) async fn answered(&self, more: usize) {
        let goal = self.answered.load(Ordering::Relaxed) + more;
        eventually("good clients are answered", || self.answered.load(Ordering::Relaxed) >= goal).await;
    }

    /// Ends them. Not one request may have failed; gives how many were answered.
    pub(crate) async fn were_all_served(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let mut failures = Vec::new();
        for client in self.clients {
            failures.extend(client.await.unwrap());
        }
        let answered = self.answered.load(Ordering::Relaxed);
        let some = &failures[..failures.len().min(5)];
        assert!(failures.is_empty(), "{} of {answered} failed, such as {some:#?}", failures.len());
        assert!(answered > 0, "nobody asked");
        answered
    }
}

/// Waits until `holds`.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "this never came true: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// How many requests for `path` the application saw.
pub(crate) fn seen(application: &Application, path: &str) -> usize {
    application.asked.lock().unwrap().iter().filter(|parts| parts.uri.path() == path).count()
}
