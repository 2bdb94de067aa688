//! What changes decisions from outside: new rules, an operator's changes, and what other nodes wrote down.

use std::collections::HashMap;
use std::future::Future;
use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use threshold_core::ledger::{Author, Change, Entry, MAX_SANCTION, Page, Query, Record, Written};
use threshold_core::{
    Action, Algorithm, Clock, Key, Ledger, Retry, Store, StoreError, StoreErrorKind, SubjectId, SubjectKind,
    Swept, Timestamp,
};
use threshold_store::node::ComponentStats;

use super::overrides::{self, Override, OverrideError, Overrides};
use super::rules::{Frame, ReloadError, Rule, Rules};
use super::standings::{Counting, Held, SanctionsInForce};
use super::subject::Subjects;
use super::{Engine, State};
use threshold_store::MemoryStats;

use crate::event::Event;

/// Tells the paces of connections from all other keys.
const PACE: u64 = u64::from_le_bytes(*b"own pace");

/// What the ledger says of overrides and tenants.
#[derive(Clone, Default)]
pub(super) struct Settings {
    /// All overrides, also those that are switched off, in the order in which they were set.
    overrides: Vec<(u64, Override)>,
    tenants: HashMap<SubjectId, (u64, String)>,
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// Puts `rules` in force, between two decisions: what was consumed stays consumed, and limits that became other
    /// limits stay in force beside them for one of their windows.
    ///
    /// # Errors
    ///
    /// If too many limits would stay in force that way. Nothing has changed then.
    pub fn reload(&self, mut rules: Rules) -> Result<(), ReloadError> {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        rules.retire(&self.state.load().rules, self.edge.now())?;
        self.swap(Arc::new(rules), &settings);
        // What did not count by the rules before may count by these: all of it is read again.
        self.version.store(0, Ordering::Release);
        Ok(())
    }

    /// Sets an override, or changes the one of the same id. It acts at once.
    ///
    /// # Errors
    ///
    /// If it names no limit or does not suit it, or cannot be written down.
    pub async fn set_override(&self, by: &str, change: Override) -> Result<(), OverrideError> {
        overrides::check(&change, &self.state.load().rules, &self.secrets)?;
        self.operate(by, Change::SetOverride(change)).await?;
        Ok(())
    }

    /// Removes an override; false if there is none of that id.
    ///
    /// # Errors
    ///
    /// If that cannot be written down.
    pub async fn remove_override(&self, by: &str, id: &str) -> Result<bool, StoreError> {
        self.operate(by, Change::RemoveOverride(id.to_owned())).await
    }

    /// The overrides, in the order in which they were set.
    pub fn overrides(&self) -> Vec<Override> {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        settings.overrides.iter().map(|(_, one)| one.clone()).collect()
    }

    /// Makes a change in an operator's name: it is written down, acts here at once and on other nodes when they
    /// [refresh](Self::refresh). False if it changed nothing.
    ///
    /// # Errors
    ///
    /// If it could not be written down, or makes no sense.
    pub async fn operate(&self, by: &str, change: Change) -> Result<bool, StoreError> {
        let at = self.edge.now();
        let tried = self.tried(&change).await?;
        let entry = Entry::Operator { by: by.to_owned(), at, change: change.clone() };
        // An operator waits: it is asked whatever it did before.
        let written = self.observe(self.ledger.write(&[entry])).await?;
        let changed = matches!(written[..], [Written::Changed(true) | Written::Erased(_)]);
        if changed {
            self.tell(&event((at, by), change, &written));
        }
        // A store that has nothing to forget is not asked: it may be what an operator has just had left alone.
        if !tried.is_empty() {
            self.store.reset(&tried).await?;
        }
        self.refresh().await?;
        Ok(changed)
    }

    /// What the store counts of the attempts that `change` forgives.
    async fn tried(&self, change: &Change) -> Result<Vec<Key>, StoreError> {
        let rules = self.rules();
        let Change::Unlock(of) = change else { return Ok(Vec::new()) };
        let mut keys = rules.login.keys_of(*of);
        keys.extend(self.tried_at(*of).await?);
        Ok(keys)
    }

    /// What the store counts of attempts at an account, by where they came from.
    pub(super) async fn tried_at(&self, account: SubjectId) -> Result<Vec<Key>, StoreError> {
        let (rules, mut keys, mut after) = (self.rules(), Vec::new(), Some(0));
        while let (Some(from), SubjectKind::Account) = (after, account.kind()) {
            // Whoever was locked out at any time.
            let at = Timestamp::default();
            let page = self.ledger.read(&Query::Lockouts { at, account: Some(account), after: from }).await?;
            let sources = page.records.iter().filter_map(|record| match record {
                Record::Failures(failures) => Some(failures.source),
                _ => None,
            });
            keys.extend(sources.flat_map(|source| rules.login.keys_of(source)));
            after = page.next;
        }
        Ok(keys)
    }

    /// Takes over what was written down since the last time, here or on other nodes.
    ///
    /// # Errors
    ///
    /// If the ledger could not be read. What was in force stays in force.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        loop {
            let after = self.version.load(Ordering::Acquire);
            let page = self.observe(self.ledger.read(&Query::Changes { after })).await?;
            let more = page.next.is_some();
            self.take_over(page);
            if !more {
                return Ok(());
            }
        }
    }

    /// Forgets what need not be kept any longer, here and in the ledger, and says how many records that were. To be
    /// called now and then, such as every ten minutes.
    ///
    /// # Errors
    ///
    /// If the ledger could not be swept.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let (state, now) = (self.state.load_full(), self.edge.now());
        self.standings.sweep(&self.counting(&state, now));
        if self.standings.take_incomplete() {
            // There may be room now for what had none: all of it is read again.
            self.version.store(0, Ordering::Release);
        }
        self.observe(self.ledger.sweep(now, &state.rules.retention)).await
    }

    /// Forgets counters that are over, of about `budget` in the store and as many at the edge. To be called now and then,
    /// such as twice a second.
    ///
    /// # Errors
    ///
    /// If the store could not be asked. The edge was swept then.
    pub async fn sweep_counters(&self, budget: usize) -> Result<Swept, StoreError> {
        let edge = self.edge.sweep_now(budget);
        let store = self.store.sweep(budget).await?;
        Ok(Swept { seen: edge.seen + store.seen, dropped: edge.dropped + store.dropped })
    }

    /// What is held against a subject, as decisions see it.
    pub fn held(&self, subject: &SubjectId) -> Option<Held> {
        self.standings.find(subject)
    }

    /// How many subjects something is held against, and how many could not be kept in memory for want of room.
    pub fn standing_figures(&self) -> (usize, usize) {
        self.standings.figures()
    }

    /// How many sanctions of each kind are in force.
    #[must_use]
    pub fn sanctions_in_force(&self) -> SanctionsInForce {
        self.standings.in_force(self.edge.now())
    }

    /// What the edge's limits take of memory.
    #[must_use]
    pub fn edge_stats(&self) -> MemoryStats {
        self.edge.stats()
    }

    /// How the ledger is and how it has been.
    pub fn ledger_stats(&self) -> ComponentStats {
        let (failures, latency) = self.ledger_breaker.figures();
        ComponentStats { state: self.ledger_breaker.state(), latency, failures }
    }

    /// Has decisions ask a ledger again at once that was given up; true if it was.
    pub fn recover_ledger(&self) -> bool {
        self.ledger_breaker.recover()
    }

    /// Names subjects as the ledger knows them, under the secret of now.
    pub fn subjects(&self) -> Subjects {
        self.subject_keys.current_subjects(self.state.load().rules.frame.ipv6_prefix)
    }

    /// The same under every secret that still counts.
    pub fn all_subjects(&self) -> impl Iterator<Item = Subjects> + use<'_, S, C, L> {
        self.subject_keys.subjects(self.state.load().rules.frame.ipv6_prefix)
    }

    /// The time here.
    pub fn now(&self) -> Timestamp {
        self.edge.now()
    }

    /// Whether one connection keeps the pace that `algorithm` sets with `count` more: in this process alone, and before anything that came is
    /// read.
    pub fn pace(&self, connection: u128, algorithm: &Algorithm, count: NonZeroU64) -> Retry {
        let key = Key::from_raw(connection, PACE);
        self.edge.act_now(&key, algorithm, Action::Consume(count)).1.retry
    }

    /// Charges something in this process alone; true if it was admitted.
    pub(crate) fn act_at_edge(&self, key: &Key, algorithm: &Algorithm, action: Action) -> bool {
        self.edge.act_now(key, algorithm, action).1.admitted()
    }

    fn take_over(&self, page: Page) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state.load();
        let counting = self.counting(&state, self.edge.now());
        let (mut last, mut changed) = (self.version.load(Ordering::Acquire), false);
        for record in page.records {
            let version = record.number(&Query::Changes { after: 0 });
            // Two may read at a time: what the other has taken over since is not undone.
            if version <= last {
                continue;
            }
            last = version;
            match record {
                Record::Standing(standing) => self.standings.stand(&standing, &counting),
                Record::Sanction(sanction) => self.standings.sanction(&sanction, &counting),
                Record::Audit(audit) => changed |= self.hear_of_erasure(&audit, &mut settings, &counting),
                record => changed |= settings.take_over(record),
            }
        }
        if changed {
            self.swap(Arc::clone(&state.rules), &settings);
        }
        self.version.store(last, Ordering::Release);
    }

    pub(super) fn swap(&self, rules: Arc<Rules>, settings: &Settings) {
        let all: Vec<Override> = settings.overrides.iter().map(|(_, one)| one.clone()).collect();
        let ready = |rule: &Rule, frame: &Frame| Overrides::new(&all, [rule], frame, &self.secrets);
        let retiring = rules.retiring.iter().map(|retiring| ready(&retiring.rule, &retiring.frame)).collect();
        let overrides = Overrides::new(&all, rules.limits(), &rules.frame, &self.secrets);
        let tenants = settings.tenants.iter().map(|(subject, (_, tier))| (*subject, tier.clone())).collect();
        let names_subjects = all.iter().any(|one| one.subject.is_some());
        self.state.store(Arc::new(State { rules, overrides, retiring, names_subjects, tenants }));
    }

    /// What still counts at `now`.
    pub(super) fn counting<'a>(&self, state: &'a State, now: Timestamp) -> Counting<'a> {
        let response = &state.rules.response;
        Counting { ladder: response.ladder.as_deref(), reputation: response.reputation.as_ref(), now }
    }

    /// Writes down what came of a request, unless the ledger has failed so often that it is left alone.
    pub(crate) async fn write(&self, entries: &[Entry]) -> Result<Vec<Written>, StoreError> {
        if !self.ledger_breaker.admits(self.edge.now()) {
            let detail = "it has failed several times and is left alone for a moment; see whether it is well";
            return Err(StoreError::new(StoreErrorKind::Unavailable, "write to the ledger", detail));
        }
        self.observe(self.ledger.write(entries)).await
    }

    /// Asks the ledger, and tells when it begins or ceases to fail.
    pub(super) async fn observe<T>(
        &self,
        asking: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let began = self.edge.now();
        let answer = asking.await;
        let at = self.edge.now();
        match &answer {
            // Misconfigured is what was asked, not the ledger.
            Err(error) if error.is_transient() => {
                self.ledger_breaker.failed(at);
                if !self.failing.swap(true, Ordering::AcqRel) {
                    self.tell(&Event::LedgerFailed { at, error: error.to_string() });
                }
            }
            Err(_) => {}
            Ok(_) => {
                self.ledger_breaker.succeeded(at.since(began));
                if self.failing.load(Ordering::Acquire) && self.failing.swap(false, Ordering::AcqRel) {
                    self.tell(&Event::LedgerRecovered { at });
                }
            }
        }
        answer
    }

    /// Tells whoever listens what happened, such as a change that the ledger knows nothing of.
    pub fn tell(&self, event: &Event) {
        if let Some(listener) = &self.listener {
            listener(event);
        }
    }
}

impl Settings {
    /// Forgets what was set for `subject`; true if something was.
    pub(super) fn forget(&mut self, subject: SubjectId) -> bool {
        let before = self.overrides.len();
        self.overrides.retain(|(_, one)| one.subject != Some(subject));
        self.tenants.remove(&subject).is_some() || self.overrides.len() < before
    }

    /// Takes over an override or a tenant, unless it is older than what is known; true if something is different.
    fn take_over(&mut self, record: Record) -> bool {
        match record {
            Record::Override { version, change, removed } => {
                if self.overrides.iter().any(|(known, one)| one.id == change.id && *known >= version) {
                    return false;
                }
                self.overrides.retain(|(_, one)| one.id != change.id);
                if !removed {
                    self.overrides.push((version, change));
                }
                true
            }
            Record::Tenant { version, tenant, removed } => {
                if self.tenants.get(&tenant.subject).is_some_and(|(known, _)| *known >= version) {
                    return false;
                }
                self.tenants.remove(&tenant.subject);
                if !removed {
                    self.tenants.insert(tenant.subject, (version, tenant.tier));
                }
                true
            }
            _ => false,
        }
    }
}

/// What is told of an operator's change.
pub(super) fn event((at, by): (Timestamp, &str), change: Change, written: &[Written]) -> Event {
    let by = by.to_owned();
    match change {
        Change::Impose { subject, kind, until, reason } => {
            let until = until.min(at.plus(MAX_SANCTION));
            Event::SanctionImposed { at, subject, kind, until, reason, author: Author::Operator(by) }
        }
        Change::Lift { subject, kind } => Event::SanctionLifted { at, subject, kind, by },
        Change::Unlock(subject) => Event::LockoutLifted { at, subject, by },
        Change::SetOverride(one) => {
            Event::SettingChanged { at, what: format!("override {} set to {}", one.id, one.rate), by }
        }
        Change::RemoveOverride(id) => {
            Event::SettingChanged { at, what: format!("override {id} removed"), by }
        }
        Change::SetTenant(tenant) => {
            Event::SettingChanged { at, what: format!("{} set to {}", tenant.subject, tenant.tier), by }
        }
        Change::RemoveTenant(subject) => Event::SettingChanged { at, what: format!("{subject} removed"), by },
        Change::Erase(erasure) => {
            let erased =
                |written: &Written| if let Written::Erased(erased) = written { erased.total() } else { 0 };
            let records = written.iter().map(erased).sum();
            Event::SubjectErased { at, subject: erasure.subject, records, by }
        }
        Change::Note { action, target, before, after } => {
            Event::AdminChanged { at, action, target, before, after, by }
        }
    }
}

/// Runs a future that waits for nothing, as those over stores and ledgers in memory do, which never fail either.
pub(super) fn at_once<T>(future: impl Future<Output = Result<T, StoreError>>) {
    let _: Poll<_> = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}
