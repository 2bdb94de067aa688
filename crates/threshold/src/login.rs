//! Logins: how often one may try, and how failures lock out.
//!
//! An attempt is begun before the password is looked at and ended when the result is known; [`Engine::attempt`] does both
//! for who knows it already. What is counted:
//!
//! - Attempts from one address, and attempts at one account from one source, where a source is an address or a device that
//!   the account was used on before.
//! - Failures at one account from one source: they lock that source out, for longer each time, and lapse.
//! - Failures at one account from everywhere: strangers together have a ceiling. It is reserved when an attempt begins and
//!   given back when it succeeds, so no crowd can guess past it at once.
//!
//! A known device shows an unguessable token that was issued for this account after a login. It is its own source and the
//! ceiling does not bind it, so nobody else's failures lock it out. Whether an account exists plays no part anywhere.

mod form;
mod rules;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use threshold_core::ledger::{
    Entry, Failures, LoginFailed, LoginSucceeded, Query, Record, SanctionKind, Written,
};
use threshold_core::standing::Lockout;
use threshold_core::{
    Action, Batch, Clock, Key, Ledger, Outcome, Retry, Span, Step, Store, StoreError, SubjectId, Timestamp,
};
use threshold_store::random_token;

use crate::engine::{Engine, Origin, Subjects};
use crate::event::{Event, shown_address};
use crate::identify::{fold_account, strip};

pub use form::{LoginForm, Named};
pub(crate) use rules::LoginRules;

/// What stands beside a limit's key: whether its refusal was told.
const TOLD: u64 = 3;

/// Who tries to log in to what.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The account, as it was typed; none where no password is tried, such as when a token is exchanged for another.
    pub account: Option<&'a str>,
    /// The client's address.
    pub client: IpAddr,
    /// The token of a known device, if the client shows one.
    pub device: Option<&'a str>,
}

/// What is told about an attempt: the same for every account, and for every reason to refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an attempt may be refused"]
pub struct LoginAnswer {
    /// False if this attempt counts for nothing, or if the next one would.
    pub allowed: bool,
    /// How long to wait; none if allowed.
    pub retry_after: Option<Duration>,
    /// The token by which the device is known from now on: to be given to who logged in, and to nobody else.
    pub device: Option<String>,
}

/// An attempt that was begun. Dropped, it counts as a failure as far as limits go.
#[must_use = "an attempt that is never ended counts as failed"]
pub struct Begun {
    /// All that was charged.
    charges: Charges,
    outcome: Outcome,
    account: Option<BegunAccount>,
    ip: String,
}

struct BegunAccount {
    account: SubjectId,
    source: SubjectId,
    /// The source under the secret before.
    before: Option<SubjectId>,
    /// The token that the device showed, if it is known.
    known: Option<String>,
    lockout: Arc<Lockout>,
}

/// What an attempt is charged, and what each step is for.
#[derive(Default)]
struct Charges {
    batch: Batch,
    counts: Vec<Counts>,
}

/// What a step of an attempt is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    Address,
    Account,
    Ceiling,
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// Begins an attempt: to be called before the password is looked at.
    ///
    /// # Errors
    ///
    /// If the store or the ledger does not answer. The attempt must not go on then.
    pub async fn begin_attempt(
        &self,
        attempt: &Attempt<'_>,
    ) -> Result<Result<Begun, LoginAnswer>, StoreError> {
        let rules = self.rules();
        let (account, token) = self.known(attempt).await?;
        let origin = token.map_or(Origin::Address(attempt.client), Origin::Device);
        let names: Vec<Subjects> = self.all_subjects().collect();
        let charges = rules.login.charges(account.as_deref(), origin, &names);
        if let Some(until) = self.shut_until(account.as_deref(), origin).await? {
            let wait = self.store().peek(&charges.batch).await?.retry;
            return Ok(Err(LoginAnswer::refused(longer(until.since(self.now()), wait))));
        }
        let outcome = self.store().apply(&charges.batch).await?;
        let subjects = self.subjects();
        let ip = shown_address(attempt.client, rules.ipv6_prefix(), &subjects, rules.shown_addresses());
        if !outcome.admitted() {
            self.tell_refusal((&charges, &outcome), account.as_deref().zip(Some(origin)), &ip);
            return Ok(Err(LoginAnswer::refused(longer(Span::ZERO, outcome.retry))));
        }
        let account = account.map(|account| BegunAccount {
            account: subjects.account(&account),
            source: subjects.source(&account, origin),
            before: names.get(1).map(|names| names.source(&account, origin)),
            known: token.map(str::to_owned),
            lockout: Arc::clone(&rules.login.lockout),
        });
        Ok(Ok(Begun { charges, outcome, account, ip }))
    }

    /// Ends an attempt: to be called when the result is known.
    ///
    /// # Errors
    ///
    /// If the store or the ledger does not answer. A login that succeeded must not go on then.
    pub async fn end_attempt(&self, begun: Begun, success: bool) -> Result<LoginAnswer, StoreError> {
        let Begun { charges, outcome, account, ip } = begun;
        let Some(account) = account else { return Ok(LoginAnswer::allowed(None)) };
        if success {
            return self.succeeded(account, &charges, &outcome).await;
        }
        let BegunAccount { account, source, before, lockout, .. } = account;
        let at = self.now();
        let entry = Entry::LoginFailed(LoginFailed { source, before, account, at, lockout });
        let mut lock = Span::ZERO;
        if let [Written::Login { failures, locked_until: Some(until), locked_now }] =
            *self.write(&[entry]).await?.as_slice()
        {
            lock = until.since(at);
            if locked_now {
                self.tell(&Event::AuthUserLockout { at, account, source, ip, failures, until });
            }
        }
        // Who waits as long as told must not be refused again.
        let wait = longer(lock, self.store().peek(&charges.batch).await?.retry);
        Ok(if wait.is_zero() { LoginAnswer::allowed(None) } else { LoginAnswer::refused(wait) })
    }

    /// Ends an attempt whose result nobody knows, because the application failed: it was tried, and did not fail.
    ///
    /// # Errors
    ///
    /// If the store does not answer.
    pub async fn abandon_attempt(&self, begun: Begun) -> Result<(), StoreError> {
        let (ceiling, charged) = begun.charges.only(Counts::Ceiling, &begun.outcome);
        match ceiling.steps().is_empty() {
            true => Ok(()),
            false => self.store().refund(&ceiling, &charged).await,
        }
    }

    /// Begins an attempt and ends it, for who knows the result already.
    ///
    /// # Errors
    ///
    /// If the store or the ledger does not answer. The login must not go on then.
    pub async fn attempt(&self, attempt: &Attempt<'_>, success: bool) -> Result<LoginAnswer, StoreError> {
        match self.begin_attempt(attempt).await? {
            Ok(begun) => self.end_attempt(begun, success).await,
            Err(refused) => Ok(refused),
        }
    }

    /// Whether an attempt may be made now; counts nothing.
    ///
    /// # Errors
    ///
    /// If the store or the ledger does not answer. The attempt must not be made then.
    pub async fn look_at_attempt(&self, attempt: &Attempt<'_>) -> Result<LoginAnswer, StoreError> {
        let (account, token) = self.known(attempt).await?;
        let origin = token.map_or(Origin::Address(attempt.client), Origin::Device);
        let names: Vec<Subjects> = self.all_subjects().collect();
        let charges = self.rules().login.charges(account.as_deref(), origin, &names);
        let until = self.shut_until(account.as_deref(), origin).await?;
        let lock = until.map_or(Span::ZERO, |until| until.since(self.now()));
        let wait = longer(lock, self.store().peek(&charges.batch).await?.retry);
        Ok(if wait.is_zero() { LoginAnswer::allowed(None) } else { LoginAnswer::refused(wait) })
    }

    async fn succeeded(
        &self,
        account: BegunAccount,
        charges: &Charges,
        outcome: &Outcome,
    ) -> Result<LoginAnswer, StoreError> {
        let BegunAccount { account, source, before, known, .. } = account;
        let at = self.now();
        let token = known.unwrap_or_else(random_token);
        let device = Some(self.subjects().device(&token));
        let entry = Entry::LoginSucceeded(LoginSucceeded { source, before, account, at, device });
        if let [Written::Login { locked_until: Some(until), .. }] = self.write(&[entry]).await?.as_slice() {
            return Ok(LoginAnswer::refused(until.since(at).into()));
        }
        let (ceiling, charged) = charges.only(Counts::Ceiling, outcome);
        self.store().refund(&ceiling, &charged).await?;
        self.store().reset(&charges.keys(Counts::Account)).await?;
        Ok(LoginAnswer::allowed(Some(token)))
    }

    /// The one spelling of the account, and the token of the device if it is known.
    async fn known<'a>(
        &self,
        attempt: &Attempt<'a>,
    ) -> Result<(Option<String>, Option<&'a str>), StoreError> {
        let account = attempt.account.map(spelled);
        let known = match (&account, attempt.device) {
            (Some(account), Some(token)) => self.knows(account, token).await?,
            _ => false,
        };
        Ok((account, attempt.device.filter(|_| known)))
    }

    /// Whether `token` was issued for the account.
    async fn knows(&self, account: &str, token: &str) -> Result<bool, StoreError> {
        for subjects in self.all_subjects() {
            let query = Query::Device { account: subjects.account(account), device: subjects.device(token) };
            if !self.ledger().read(&query).await?.records.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Until when the source is kept from trying: by its own failures at the account, or as a stranger by what is held
    /// against its network.
    async fn shut_until(
        &self,
        account: Option<&str>,
        origin: Origin<'_>,
    ) -> Result<Option<Timestamp>, StoreError> {
        let mut latest = None;
        for subjects in self.all_subjects() {
            if let Origin::Address(client) = origin
                && let Some(held) = self.held(&subjects.address(client))
            {
                let ends = [SanctionKind::Ban, SanctionKind::Cooldown].map(|kind| held.until(kind));
                latest = ends.into_iter().max().max(latest);
            }
            let Some(account) = account else { continue };
            let page = self.ledger().read(&Query::Failures(subjects.source(account, origin))).await?;
            for record in page.records {
                if let Record::Failures(Failures { locked_until, .. }) = record {
                    latest = latest.max(Some(locked_until));
                }
            }
        }
        Ok(latest.filter(|until| self.now() < *until))
    }

    /// Tells which limit refused, once per window.
    fn tell_refusal(
        &self,
        (charges, outcome): (&Charges, &Outcome),
        account: Option<(&str, Origin<'_>)>,
        ip: &str,
    ) {
        let (at, subjects) = (outcome.at, self.subjects());
        for what in [Counts::Address, Counts::Account, Counts::Ceiling] {
            // The first of a kind is that under the secret of now, and stands for both.
            let steps = || charges.steps().zip(&outcome.verdicts).filter(|((_, counts), _)| *counts == what);
            let refuses = steps().any(|(_, verdict)| !verdict.admitted());
            let Some(((step, _), _)) = steps().next().filter(|_| refuses) else { continue };
            if !self.is_first(step) {
                continue;
            }
            let ip = ip.to_owned();
            match (what, account) {
                (Counts::Address, _) => self.tell(&Event::AuthIpRateLimit { at, ip }),
                (Counts::Account, Some((account, origin))) => self.tell(&Event::AuthUserLockout {
                    at,
                    account: subjects.account(account),
                    source: subjects.source(account, origin),
                    ip,
                    failures: 0,
                    until: at.plus(longer(Span::ZERO, outcome.retry).into()),
                }),
                (Counts::Ceiling, Some((account, _))) => {
                    self.tell(&Event::AuthAccountCeiling { at, account: subjects.account(account) });
                }
                (_, None) => {}
            }
        }
    }

    /// True once per window of the step's limit.
    fn is_first(&self, step: &Step) -> bool {
        let key = step.key.beside(TOLD);
        rules::once(step.algorithm.period())
            .is_some_and(|once| self.act_at_edge(&key, &once, Action::Consume(std::num::NonZeroU64::MIN)))
    }
}

impl Begun {
    /// The store's time at which it was begun.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.outcome.at
    }
}

impl LoginAnswer {
    fn allowed(device: Option<String>) -> Self {
        Self { allowed: true, retry_after: None, device }
    }

    fn refused(retry_after: Duration) -> Self {
        Self { allowed: false, retry_after: Some(retry_after), device: None }
    }
}

/// The longer of two waits.
fn longer(span: Span, retry: Retry) -> Duration {
    match retry {
        Retry::After(other) => span.max(other).into(),
        Retry::Now | Retry::Never => span.into(),
    }
}

/// The one spelling of an account's name. One that is too long to be folded is still one account, not none.
fn spelled(name: &str) -> String {
    fold_account(name).unwrap_or_else(|| strip(name))
}

impl Charges {
    /// Adds a step that counts for `what`. There are six at most.
    fn push(&mut self, step: Step, what: Counts) {
        if self.batch.push(step).is_ok() {
            self.counts.push(what);
        }
    }

    fn steps(&self) -> impl Iterator<Item = (&Step, Counts)> {
        self.batch.steps().iter().zip(self.counts.iter().copied())
    }

    fn keys(&self, wanted: Counts) -> Vec<Key> {
        self.steps().filter(|(_, counts)| *counts == wanted).map(|(step, _)| step.key).collect()
    }

    /// The steps that count for `wanted`, and what came of them.
    fn only(&self, wanted: Counts, outcome: &Outcome) -> (Batch, Outcome) {
        let (mut some, mut charged) = (Batch::default(), outcome.clone());
        charged.verdicts.clear();
        for ((step, counts), verdict) in self.steps().zip(&outcome.verdicts) {
            if counts == wanted && some.push(*step).is_ok() {
                charged.verdicts.push(*verdict);
            }
        }
        (some, charged)
    }
}
