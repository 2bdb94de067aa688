//! The limits of logins, made ready.

use std::num::NonZeroU64;
use std::sync::Arc;

use threshold_core::standing::Lockout;
use threshold_core::{
    Algorithm, AlgorithmKind, Key, LimitId, Mode, Rate, Span, Step, Subject, SubjectId, Unit,
};

use super::{Charges, Counts};
use crate::engine::{BuildRulesError, Keys, Origin, Secrets, Subjects};
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

/// Keeps these subjects apart from those of any limit of the policy.
const LOGIN: u8 = 0xFF;

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

    /// What an attempt is charged; `names` are those of the secret of now and of the one before.
    pub(super) fn charges(&self, account: Option<&str>, origin: Origin<'_>, names: &[Subjects]) -> Charges {
        let mut charges = Charges::default();
        let known = matches!(origin, Origin::Device(_));
        for (place, names) in names.iter().enumerate() {
            let mut add = |limit: &LoginLimit, subject: SubjectId, what, mode| {
                if let Some(step) = limit.step(subject, place) {
                    charges.push(Step { mode, ..step }, what);
                }
            };
            let from = match origin {
                Origin::Address(client) => names.address(client),
                Origin::Device(token) => names.device(token),
            };
            add(&self.address, from, Counts::Address, Mode::Enforce);
            if let Some(account) = account {
                add(&self.account, names.source(account, origin), Counts::Account, Mode::Enforce);
                let mode = if known { Mode::Observe } else { Mode::Enforce };
                add(&self.ceiling, names.account(account), Counts::Ceiling, mode);
            }
        }
        charges
    }

    /// The keys of all that is counted of logins by somebody: an address, an account, or an account and a source.
    pub(crate) fn all_keys_of(&self, subject: SubjectId) -> Vec<Key> {
        let limits = [&self.address, &self.account, &self.ceiling];
        let keys =
            |limit: &LoginLimit| (0..2).filter_map(|place| Some(limit.step(subject, place)?.key)).collect();
        limits.into_iter().flat_map(|limit| -> Vec<Key> { keys(limit) }).collect()
    }

    /// The keys of what was tried at an account from one source.
    pub(crate) fn keys_of(&self, source: SubjectId) -> Vec<Key> {
        (0..2).filter_map(|place| Some(self.account.step(source, place)?.key)).collect()
    }
}

impl LoginLimit {
    /// One attempt of a subject under the secret of that place.
    fn step(&self, subject: SubjectId, place: usize) -> Option<Step> {
        let [low, high] = subject.halves().map(u64::to_le_bytes);
        let mut name = Subject::default();
        name.push_marked(LOGIN, &low);
        name.push_marked(0, &high);
        let key = self.keys.all().nth(place)?.key_of(&name);
        Some(Step::consume(key, self.algorithm, NonZeroU64::MIN))
    }

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
