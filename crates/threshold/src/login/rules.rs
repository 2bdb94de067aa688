//! The limits of logins, made ready.

use std::num::NonZeroU64;
use std::sync::Arc;

use threshold_core::standing::Lockout;
use threshold_core::{Algorithm, AlgorithmKind, Batch, LimitId, Mode, Rate, Span, Step, Subject, Unit};

use super::Counts;
use crate::engine::{BuildRulesError, Keys, Origin, Secrets, login_subject};
use crate::policy::{self, Policy};

/// The limits of logins.
pub(crate) struct LoginRules {
    address: LoginLimit,
    account: LoginLimit,
    ceiling: LoginLimit,
    pub(super) lockout: Arc<Lockout>,
}

struct LoginLimit {
    algorithm: Algorithm,
    keys: Keys,
}

/// The most that a log is kept of; beyond it counters fade.
const MOST_LOGGED: u64 = 1_000;

impl LoginRules {
    pub(crate) fn new(policy: &Policy, secrets: &Secrets) -> Result<Self, BuildRulesError> {
        let written = policy.login.as_ref();
        let limit = |id: &str, rate: Option<Rate>, ready_made: &str| {
            let rate = rate.unwrap_or_else(|| ready_made.parse().expect("ready-made rates are well formed"));
            LoginLimit::new(id, rate, secrets)
        };
        let lockout = written.map_or_else(|| Ok(Lockout::ready_made()), policy::Login::ready_lockout)?;
        Ok(Self {
            address: limit("login.address", written.and_then(|login| login.address), "20 per 5min")?,
            account: limit("login.account", written.and_then(|login| login.account), "5 per 15min")?,
            ceiling: limit("login.ceiling", written.and_then(|login| login.ceiling), "100/hour")?,
            lockout: Arc::new(lockout),
        })
    }

    /// What an attempt is charged, and what each step is for.
    pub(super) fn batch(
        &self,
        account: Option<&str>,
        origin: Origin<'_>,
        ipv6_prefix: u8,
    ) -> (Batch, Vec<Counts>) {
        let (mut batch, mut counts) = (Batch::default(), Vec::new());
        let mut add = |limit: &LoginLimit, subject: &Subject, what, mode| {
            for key in limit.keys.all() {
                let step = Step::consume(key.key_of(subject), limit.algorithm, NonZeroU64::MIN);
                // There are six at most.
                if batch.push(Step { mode, ..step }).is_ok() {
                    counts.push(what);
                }
            }
        };
        add(&self.address, &login_subject(None, Some(origin), ipv6_prefix), Counts::Address, Mode::Enforce);
        if let Some(account) = account {
            let both = login_subject(Some(account), Some(origin), ipv6_prefix);
            add(&self.account, &both, Counts::Account, Mode::Enforce);
            let mode = if matches!(origin, Origin::Device(_)) { Mode::Observe } else { Mode::Enforce };
            add(&self.ceiling, &login_subject(Some(account), None, ipv6_prefix), Counts::Ceiling, mode);
        }
        (batch, counts)
    }
}

impl LoginLimit {
    /// Exact in every interval: what guards passwords is worth the bytes.
    fn new(id: &str, rate: Rate, secrets: &Secrets) -> Result<Self, BuildRulesError> {
        let id = LimitId::new(id).expect("the names above are well formed");
        let kind = if rate.count() <= MOST_LOGGED {
            AlgorithmKind::SlidingLog
        } else {
            AlgorithmKind::SlidingWindow
        };
        let algorithm =
            Algorithm::new(kind, &rate).map_err(|error| BuildRulesError::Limit(id.clone(), error))?;
        Ok(Self { keys: secrets.keys(&id, &algorithm, Unit::Requests), algorithm })
    }
}

/// One in a window.
pub(super) fn once(period: Span) -> Option<Algorithm> {
    Algorithm::new(AlgorithmKind::FixedWindow, &Rate::new(1, period).ok()?).ok()
}
