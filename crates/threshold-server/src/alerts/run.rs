//! The thread that looks at readings and tells of alarms. It has a runtime of its own: what it waits for is nobody else's
//! business.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use threshold::policy::AlertTerms;
use threshold::{Span, UniqueIds};
use tokio::sync::watch as changes;
use tokio::time::{Interval, MissedTickBehavior};

use super::courier::{Courier, Tools};
use super::readings::Readings;
use super::watch::{Alert, Watch};
use super::webhook::Hook;
use crate::log::Log;
use crate::outbound::{Blocked, Guard, system};

/// What raises alarms, and whom they are told to.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) rules: Vec<AlertTerms>,
    pub(crate) every: Span,
    pub(crate) remind: Span,
    pub(crate) hooks: Vec<Hook>,
    /// Private hosts and networks that hooks may be at.
    pub(crate) allow: Vec<String>,
}

/// Alarms at work.
pub(crate) struct Alerts {
    /// Dropped, it has the thread end.
    settings: changes::Sender<Arc<Settings>>,
    thread: JoinHandle<()>,
}

struct Bell {
    watch: Watch,
    courier: Courier,
    log: Arc<Log>,
    random: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Alerts {
    /// Starts the thread of the node of that name, which takes `readings` every now and then.
    pub(crate) fn start(
        node: &str,
        settings: Settings,
        readings: impl Fn() -> Readings + Send + 'static,
        log: &Arc<Log>,
    ) -> Result<Self, String> {
        let (settings, told) = changes::channel(Arc::new(settings));
        let failed =
            |error: std::io::Error| format!("alerts: no thread could be started: {error}; try again");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (log, node) = (Arc::clone(log), Arc::from(node));
        let run = move || {
            runtime.block_on(run(node, told, readings, log));
            // A name that is being resolved may take its time; nobody waits for it.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("alerts".to_owned()).spawn(run).map_err(failed)?;
        Ok(Self { settings, thread })
    }

    /// Goes on with other settings. Alarms that are raised by rules which stay go on.
    pub(crate) fn change(&self, settings: Settings) {
        self.settings.send_replace(Arc::new(settings));
    }

    /// Delivers what is on its way, and ends.
    pub(crate) fn stop(self) {
        drop(self.settings);
        // What it had to say is in the log.
        let _ = self.thread.join();
    }
}

async fn run(
    node: Arc<str>,
    mut told: changes::Receiver<Arc<Settings>>,
    readings: impl Fn() -> Readings,
    log: Arc<Log>,
) {
    let settings = Arc::clone(&told.borrow_and_update());
    let mut bell = Bell::new(node, &settings, Arc::clone(&log));
    tokio::spawn(look_ahead(Arc::clone(&settings), Arc::clone(&log)));
    let mut ticks = every(settings.every);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let alerts = bell.watch.take(&readings());
                bell.ring(&alerts);
            }
            changed = told.changed() => {
                if changed.is_err() {
                    break;
                }
                let settings = Arc::clone(&told.borrow_and_update());
                ticks = every(settings.every);
                bell.change(&settings);
                tokio::spawn(look_ahead(settings, Arc::clone(&log)));
            }
        }
    }
    bell.courier.stop().await;
}

/// Says now which webhooks may not be reached: the first alarm would be a bad time to learn of it. A name that cannot be
/// resolved just now is left for then.
async fn look_ahead(settings: Arc<Settings>, log: Arc<Log>) {
    let guard = guard(&settings);
    for Hook { url, .. } in &settings.hooks {
        if let Err(Blocked::Refused(why)) = guard.addresses(url).await {
            log.warning(&format!("alerts cannot be told to {url}: {why}"));
        }
    }
}

fn every(span: Span) -> Interval {
    let mut ticks = tokio::time::interval(Duration::from_micros(span.as_micros().max(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl Bell {
    fn new(node: Arc<str>, settings: &Settings, log: Arc<Log>) -> Self {
        let ids = UniqueIds::new();
        // The half that is stirred.
        let random: Arc<dyn Fn() -> u64 + Send + Sync> = Arc::new(move || ids.next() as u64);
        let watch = Watch::new(settings.rules.clone(), settings.remind).of(node);
        let courier = Courier::start(settings.hooks.clone(), tools(settings, &log, &random));
        Self { watch, courier, log, random }
    }

    fn change(&mut self, settings: &Settings) {
        let ended = self.watch.change(settings.rules.clone(), settings.remind);
        self.ring(&ended);
        self.courier.change(settings.hooks.clone(), tools(settings, &self.log, &self.random));
    }

    fn ring(&mut self, alerts: &[Alert]) {
        for alert in alerts {
            self.log.alert(alert);
            self.courier.tell(alert);
        }
    }
}

fn tools(settings: &Settings, log: &Arc<Log>, random: &Arc<dyn Fn() -> u64 + Send + Sync>) -> Tools {
    Tools::new(guard(settings), log, Arc::clone(random))
}

fn guard(settings: &Settings) -> Guard {
    Guard::new(settings.allow.iter().map(String::as_str), system())
}
