//! The limits: contributions by address and metric, and money.

use std::error::Error;
use std::num::NonZeroU64;
use std::sync::Arc;

use threshold::node::Transition;
use threshold::{
    AlgorithmKind, Batch, Consistency, ConsumeError, Decision, MAX_STEPS, MemoryStore, NodeSettings,
    NodeStats, NodeStore, OnFailure, RateLimiter, RateLimiterBuilder, Retry, Secret, SharedStore, Source,
    Span, Step, Store, StoreError, Swept, Verdict, open_store, random_secret,
};

use crate::settings::{Implementation, Settings};

/// What is counted, and how often an address may contribute to it in a day.
pub const METRICS: [(&str, u64); 4] =
    [("template_view", 100), ("template_share", 100), ("page_view", 100), ("delivery_attempt", 10)];

/// What may be spent in a day, by everyone together.
pub const DAILY_CENTS: u64 = 500;

/// The most checks at once.
pub const MOST_CHECKS: usize = MAX_STEPS;

/// Who wants to contribute, and to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contribution<'a> {
    /// From where.
    pub address: &'a str,
    /// To what.
    pub metric: &'a str,
}

/// Whether one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// True if it may, and is counted.
    pub allowed: bool,
    /// How many more.
    pub remaining: u64,
    /// In how many seconds it may again, if it may not now; rounded up.
    pub retry_after: Option<u64>,
    /// Where the answer came from.
    pub source: Source,
}

/// What the store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Entries that are kept.
    pub active: usize,
    /// Those of them that still count.
    pub today: usize,
    /// Where they live.
    pub implementation: Implementation,
}

/// A metric that there is none of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoMetric(pub String);

/// Whoever is told when a store goes down or comes up.
pub type Listener = Arc<dyn Fn(&Transition) + Send + Sync>;

/// All limits over one store.
pub struct Limits {
    node: Arc<NodeStore<SharedStore>>,
    /// One for each metric.
    contributions: Vec<RateLimiter<SharedStore>>,
    spend: RateLimiter<SharedStore>,
    implementation: Implementation,
}

impl Limits {
    /// Opens what `settings` ask for.
    ///
    /// # Errors
    ///
    /// If a store cannot be opened, with what to do.
    pub async fn open(settings: &Settings, listener: Listener) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let secret = settings.secret.clone().unwrap_or_else(random_secret);
        let at = |url: String| {
            let secret = secret.clone();
            async move { open_store(&url, (&secret, None)).await }
        };
        let store = match settings.postgres.clone() {
            Some(url) => at(url).await?,
            None => Arc::new(MemoryStore::new()),
        };
        let cache = match settings.redis.clone() {
            Some(url) => Some(at(url).await?),
            None => None,
        };
        Self::over((store, cache), secret, settings, listener)
    }

    /// The limits over a store, and perhaps a second one before it.
    ///
    /// # Errors
    ///
    /// If a limit cannot be made.
    pub fn over(
        (store, cache): (SharedStore, Option<SharedStore>),
        secret: Secret,
        settings: &Settings,
        listener: Listener,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let Settings { implementation, window, nodes, .. } = *settings;
        let denials = match implementation {
            Implementation::Hybrid | Implementation::Redis => Span::SECOND,
            Implementation::Memory | Implementation::Postgres | Implementation::Approximate => Span::ZERO,
        };
        let node = NodeStore::new(store, NodeSettings { nodes, denials, ..NodeSettings::default() });
        let node = node.telling(move |transition| listener(transition));
        let node = Arc::new(match cache {
            Some(cache) => node.caching(cache),
            None => node,
        });
        let shared: SharedStore = Arc::clone(&node) as _;
        let limiter = |id: &str, rate: String| -> RateLimiterBuilder<SharedStore> {
            RateLimiter::builder(id).rate(rate).secret(secret.clone()).store(Arc::clone(&shared))
        };
        let consistency = match implementation {
            Implementation::Approximate => Consistency::Local,
            _ => Consistency::Exact,
        };
        // Noise protects privacy here, and the limit only bounds what one address can do: rather some too many than an
        // honest one refused. With Redis at hand, counting goes on there.
        let on_failure = match implementation {
            Implementation::Redis => OnFailure::Share,
            _ => OnFailure::Open,
        };
        let contribution = |(metric, count): &(&str, u64)| {
            limiter(metric, format!("{count}/day"))
                .algorithm(window.algorithm())
                .consistency(consistency)
                .on_store_failure(on_failure)
                .build()
        };
        let contributions = METRICS.iter().map(contribution).collect::<Result<_, _>>()?;
        // Money is never approximate: while nobody knows what was spent, nothing more is.
        let spend = limiter("spend", format!("{DAILY_CENTS}/day"))
            .algorithm(AlgorithmKind::CalendarWindow)
            .on_store_failure(OnFailure::Closed)
            .build()?;
        Ok(Self { node, contributions, spend, implementation })
    }

    /// Counts each contribution that is still allowed: one operation of the store for all of them. Each is judged by itself.
    ///
    /// # Errors
    ///
    /// If there is no such metric, or if the store is gone and nothing says what to do then.
    pub async fn check(&self, wanted: &[Contribution<'_>]) -> Result<Vec<Checked>, CheckError> {
        let mut batch = Batch::default();
        for contribution in wanted {
            let step = self.step(contribution)?;
            // What is only observed keeps nobody else from being counted.
            let step = if wanted.len() > 1 { step.observed() } else { step };
            batch.push(step).map_err(|_| CheckError::TooMany)?;
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let outcome = self.node.apply(&batch).await?;
        let checked = |verdict: &Verdict| Checked::new(verdict, outcome.source);
        Ok(outcome.verdicts.iter().map(checked).collect())
    }

    fn step(&self, contribution: &Contribution<'_>) -> Result<Step, NoMetric> {
        let Contribution { address, metric } = *contribution;
        let mut limiters = self.contributions.iter();
        let limiter = limiters.find(|limiter| limiter.id().as_str() == metric);
        let limiter = limiter.ok_or_else(|| NoMetric(metric.to_owned()))?;
        Ok(limiter.step(address, NonZeroU64::MIN))
    }

    /// Spends so many cents of today's, all or none.
    ///
    /// # Errors
    ///
    /// If nothing is to be spent, or nobody knows what was spent already.
    pub async fn spend(&self, cents: u64) -> Result<Decision, ConsumeError> {
        self.spend.consume("everyone", cents).await
    }

    /// Drops entries that no longer count.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached.
    pub async fn sweep(&self) -> Result<Swept, StoreError> {
        self.node.sweep(usize::MAX).await
    }

    /// What is kept. Looking at all of it also drops what no longer counts.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached.
    pub async fn stats(&self) -> Result<Stats, StoreError> {
        let Swept { seen, dropped } = self.sweep().await?;
        Ok(Stats { active: seen, today: seen - dropped, implementation: self.implementation })
    }

    /// How the stores are.
    #[must_use]
    pub fn node(&self) -> NodeStats {
        self.node.stats()
    }
}

impl Checked {
    fn new(verdict: &Verdict, source: Source) -> Self {
        let retry_after = match verdict.retry {
            Retry::After(span) => Some(span.as_micros().div_ceil(1_000_000)),
            _ => None,
        };
        Self { allowed: verdict.admitted(), remaining: verdict.remaining, retry_after, source }
    }
}

/// Nothing could be checked.
#[derive(Debug)]
pub enum CheckError {
    /// There is no such metric.
    NoMetric(NoMetric),
    /// More than [`MOST_CHECKS`] at once.
    TooMany,
    /// The store failed.
    Store(StoreError),
}

impl From<NoMetric> for CheckError {
    fn from(error: NoMetric) -> Self {
        Self::NoMetric(error)
    }
}

impl From<StoreError> for CheckError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
