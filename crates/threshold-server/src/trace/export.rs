//! The thread that sends traces. It has a runtime of its own: what it waits for is nobody else's business.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use tokio::sync::{mpsc, watch};

use super::{Finished, Settings, Tracer, encode};
use crate::log::Log;
use crate::outbound::{Asked, Failure, Guard, send};
use crate::workers::told;

/// How many traces wait to be sent; those that find no room are dropped.
const QUEUE: usize = 4_096;
/// How many are sent at once, and how long they are gathered.
const BATCH: usize = 512;
const GATHER: Duration = Duration::from_secs(1);
/// How long the collector may take, and how much it may have to say.
const TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER: usize = 64 * 1024;
/// How often a batch is sent that the collector does not take, and how long is waited before it is sent again.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// How long the last ones may take when the server stops.
const LAST: Duration = Duration::from_secs(2);

/// Sends traces until it is stopped.
pub(crate) struct Exporter {
    tracer: Arc<Tracer>,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Exporter {
    /// Starts the thread.
    pub(crate) fn start(settings: Settings, log: &Arc<Log>) -> io::Result<Self> {
        let (queue, arrivals) = mpsc::channel(QUEUE);
        let tracer = Arc::new(Tracer::new(queue, settings.ratio));
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (log, counts) = (Arc::clone(log), Arc::clone(&tracer));
        let sender = Sender { settings, tracer: counts, log, failing: false };
        let run = move || {
            runtime.block_on(run(sender, arrivals, stopped));
            // A name that is being resolved may take its time; nobody waits for it.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("traces".to_owned()).spawn(run)?;
        Ok(Self { tracer, stop, thread })
    }

    /// Who begins traces.
    pub(crate) fn tracer(&self) -> Arc<Tracer> {
        Arc::clone(&self.tracer)
    }

    /// Sends what is there, as far as it is taken soon, and ends.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(true);
        // What it had to say is in the log.
        let _ = tokio::task::spawn_blocking(move || self.thread.join()).await;
    }
}

struct Sender {
    settings: Settings,
    tracer: Arc<Tracer>,
    log: Arc<Log>,
    /// True since a batch was not taken.
    failing: bool,
}

async fn run(
    mut sender: Sender,
    mut arrivals: mpsc::Receiver<Box<Finished>>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let work = async {
            gather(&mut arrivals, &mut batch).await;
            sender.deliver(&batch).await;
        };
        tokio::select! {
            () = work => batch.clear(),
            () = told(&mut stopped) => break,
        }
    }
    // What was under way is sent once more with the rest: a collector knows a span by its id.
    let _ = tokio::time::timeout(LAST, async {
        loop {
            while batch.len() < BATCH
                && let Ok(finished) = arrivals.try_recv()
            {
                batch.push(*finished);
            }
            if batch.is_empty() || sender.send(&batch).await.is_err() {
                return;
            }
            add(&sender.tracer.counts.exported, batch.len());
            batch.clear();
        }
    })
    .await;
}

/// Waits for the first, and for those that come soon after it.
async fn gather(arrivals: &mut mpsc::Receiver<Box<Finished>>, batch: &mut Vec<Finished>) {
    if batch.is_empty() {
        match arrivals.recv().await {
            Some(first) => batch.push(*first),
            // Nobody is left to tell of anything.
            None => std::future::pending().await,
        }
    }
    let rest = async {
        while batch.len() < BATCH
            && let Some(next) = arrivals.recv().await
        {
            batch.push(*next);
        }
    };
    let _ = tokio::time::timeout(GATHER, rest).await;
}

/// Why a batch was not taken.
enum Refused {
    /// It may be taken later.
    Later(String),
    /// It never will.
    Never(String),
}

impl Sender {
    /// Sends `batch`, several times if need be, and counts what became of it.
    async fn deliver(&mut self, batch: &[Finished]) {
        let mut pause = PAUSE;
        for attempt in 1..=TRIES {
            let why = match self.send(batch).await {
                Ok(()) => {
                    add(&self.tracer.counts.exported, batch.len());
                    if std::mem::take(&mut self.failing) {
                        self.log.info("traces are taken again");
                    }
                    return;
                }
                Err(Refused::Later(_)) if attempt < TRIES => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                    continue;
                }
                Err(Refused::Later(why) | Refused::Never(why)) => why,
            };
            add(&self.tracer.counts.refused, batch.len());
            if !std::mem::replace(&mut self.failing, true) {
                let url = &self.settings.url;
                self.log.warning(&format!("traces are dropped: {url}: {why}; see that the collector runs"));
            }
            return;
        }
    }

    async fn send(&self, batch: &[Finished]) -> Result<(), Refused> {
        let Settings { url, headers, resource, .. } = &self.settings;
        let mut all: HeaderMap = headers.iter().cloned().collect();
        all.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let body = Bytes::from(encode::request(resource, batch));
        let asked = Asked { method: Method::POST, headers: all, body, timeout: TIMEOUT, longest: ANSWER };
        // Where it is was set up by whoever runs the server.
        match send(url, &Guard::open(), asked).await {
            Ok(answer) if answer.status.is_success() => Ok(()),
            Ok(answer) => {
                let why = format!("it answered {}", answer.status);
                Err(if may_pass(answer.status) { Refused::Later(why) } else { Refused::Never(why) })
            }
            Err(Failure::Refused(why)) => Err(Refused::Never(why)),
            Err(Failure::Lost(why)) => Err(Refused::Later(why)),
        }
    }
}

/// Those answers after which OTLP has a batch sent again.
fn may_pass(status: StatusCode) -> bool {
    [429, 502, 503, 504].contains(&status.as_u16())
}

fn add(count: &AtomicU64, more: usize) {
    count.fetch_add(more as u64, Ordering::Relaxed);
}
