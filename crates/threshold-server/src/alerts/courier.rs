//! Deliveries: one line of alarms for each webhook, in order, each tried several times.
//!
//! Nothing waits for them. A line that is full takes no more, which is counted and told.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use threshold::{Clock as _, SystemClock};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::sign::{self, Signer};
use super::watch::Alert;
use super::webhook::{Hook, Open};
use crate::log::Log;
use crate::outbound::{Asked, Failure, Guard, send};

/// How many alarms wait for one webhook.
const WAITING: usize = 64;
/// How many are delivered at the same time.
const AT_ONCE: usize = 4;
/// How long one attempt may take, and how much of an answer is read.
const TIMEOUT: Duration = Duration::from_secs(10);
const LONGEST: usize = 64 * 1024;
/// How long deliveries may take to end when the server stops.
const PARTING: Duration = Duration::from_secs(3);
/// The header by which a receiver knows an alarm that it has already.
const DELIVERY: HeaderName = HeaderName::from_static("threshold-delivery");

/// How often something is tried, and how long between the tries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    pub(super) attempts: u32,
    pub(super) first: Duration,
    pub(super) most: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 8, first: Duration::from_secs(1), most: Duration::from_secs(60) }
    }
}

impl Retry {
    /// How long to wait after attempt number `attempt`: twice as long each time, and some of it by chance, so that not
    /// everybody comes back at once.
    fn pause(&self, attempt: u32, random: u64) -> Duration {
        let whole = self.first.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(self.most);
        let half = whole / 2;
        half + Duration::from_micros(random % (u64::try_from(half.as_micros()).unwrap_or(u64::MAX).max(1)))
    }
}

/// What deliveries are made with.
pub(super) struct Tools {
    pub(super) guard: Guard,
    pub(super) log: Arc<Log>,
    pub(super) random: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub(super) retry: Retry,
    pub(super) busy: Arc<Semaphore>,
}

impl Tools {
    pub(super) fn new(guard: Guard, log: &Arc<Log>, random: Arc<dyn Fn() -> u64 + Send + Sync>) -> Self {
        let busy = Arc::new(Semaphore::new(AT_ONCE));
        Self { guard, log: Arc::clone(log), random, retry: Retry::default(), busy }
    }
}

/// Everybody who is told of alarms.
pub(super) struct Courier {
    lines: Vec<Line>,
    tasks: JoinSet<()>,
    log: Arc<Log>,
    /// Alarms that found a line full.
    pub(super) dropped: u64,
}

struct Line {
    hook: Hook,
    open: Open,
    queue: mpsc::Sender<Alert>,
}

impl Courier {
    pub(super) fn start(hooks: Vec<Hook>, tools: Tools) -> Self {
        let log = Arc::clone(&tools.log);
        let mut courier = Self { lines: Vec::new(), tasks: JoinSet::new(), log, dropped: 0 };
        courier.change(hooks, tools);
        courier
    }

    /// Goes on with other webhooks. What waits for the ones before is still delivered.
    pub(super) fn change(&mut self, hooks: Vec<Hook>, tools: Tools) {
        let before = std::mem::take(&mut self.lines);
        let tools = Arc::new(tools);
        for hook in hooks {
            let known = before.iter().find(|line| line.hook == hook);
            let open = known.map_or_else(Open::default, |line| line.open.clone());
            let (queue, waiting) = mpsc::channel(WAITING);
            self.tasks.spawn(deliver_all(hook.clone(), waiting, Arc::clone(&tools)));
            self.lines.push(Line { hook, open, queue });
        }
    }

    /// Has everybody told of `alert` whom it concerns.
    pub(super) fn tell(&mut self, alert: &Alert) {
        // Those that have ended are forgotten.
        while self.tasks.try_join_next().is_some() {}
        for line in &mut self.lines {
            let Some(alert) = line.open.filter(alert, line.hook.least) else { continue };
            if let Err(full) = line.queue.try_send(alert) {
                self.dropped += 1;
                let (id, url, dropped) = (&full.into_inner().id, &line.hook.url, self.dropped);
                self.log.warning(&format!(
                    "alert {id} was not sent to {url}, for which {WAITING} wait already; {dropped} were not sent so far"
                ));
            }
        }
    }

    /// Delivers what waits, as far as it does not take long.
    pub(super) async fn stop(mut self) {
        self.lines.clear();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(PARTING, all).await.is_err() {
            self.log.warning("alerts that could not be delivered in time are left");
        }
    }
}

async fn deliver_all(hook: Hook, mut waiting: mpsc::Receiver<Alert>, tools: Arc<Tools>) {
    let signer = hook.secret.as_deref().map(Signer::new);
    while let Some(alert) = waiting.recv().await {
        let (id, url) = (&alert.id, &hook.url);
        match deliver(&hook, signer.as_ref(), &alert, &tools).await {
            Ok(()) => tools.log.debug(&format!("alert {id} was delivered to {url}")),
            Err(why) => tools.log.error(&format!("alert {id} could not be delivered to {url}: {why}")),
        }
    }
}

/// Delivers one alarm, in as many attempts as it takes.
async fn deliver(hook: &Hook, signer: Option<&Signer>, alert: &Alert, tools: &Tools) -> Result<(), String> {
    let body = Bytes::from(alert.body(hook.format));
    let number = format!("{:016x}", (tools.random)());
    let mut attempt = 1;
    loop {
        let tried = match tools.busy.acquire().await {
            Ok(_turn) => attempt_once(hook, signer, (&body, &number), &tools.guard).await,
            Err(_) => return Err("the server stops".to_owned()),
        };
        match tried {
            Ok(()) => return Ok(()),
            Err(Trouble::Final(why)) => return Err(why),
            Err(Trouble::Passing(why)) if attempt >= tools.retry.attempts => {
                return Err(format!("{why}; given up after {attempt} attempts"));
            }
            Err(Trouble::Passing(why)) => {
                tools.log.debug(&format!("alert {}: attempt {attempt} at {}: {why}", alert.id, hook.url));
                tokio::time::sleep(tools.retry.pause(attempt, (tools.random)())).await;
                attempt += 1;
            }
        }
    }
}

/// Why an attempt failed.
enum Trouble {
    /// It may be better the next time.
    Passing(String),
    Final(String),
}

async fn attempt_once(
    hook: &Hook,
    signer: Option<&Signer>,
    (body, number): (&Bytes, &str),
    guard: &Guard,
) -> Result<(), Trouble> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let value = |text: &str| HeaderValue::from_str(text).map_err(|error| Trouble::Final(error.to_string()));
    headers.insert(DELIVERY, value(number)?);
    if let Some(signer) = signer {
        // The time of this attempt: receivers refuse what is old.
        let signature = signer.sign(SystemClock::new().now(), body);
        headers.insert(HeaderName::from_static(sign::HEADER), value(&signature)?);
    }
    let asked =
        Asked { method: Method::POST, headers, body: body.clone(), timeout: TIMEOUT, longest: LONGEST };
    match send(&hook.url, guard, asked).await {
        Ok(answer) => judge(answer.status),
        Err(Failure::Lost(why)) => Err(Trouble::Passing(why)),
        Err(Failure::Refused(why)) => Err(Trouble::Final(why)),
    }
}

fn judge(status: StatusCode) -> Result<(), Trouble> {
    let said = format!("it answered {}", status.as_u16());
    match status.as_u16() {
        200..300 => Ok(()),
        300..400 => {
            Err(Trouble::Final(format!("{said}, and redirects are not followed; name the address itself")))
        }
        408 | 425 | 429 | 500.. => Err(Trouble::Passing(said)),
        _ => Err(Trouble::Final(format!("{said}; see whether the address is right, and the secret"))),
    }
}

#[cfg(test)]
mod tests;
