//! Random entries from a seed, and everything that can be asked about them.

use std::sync::Arc;

use threshold_core::ledger::{
    Change, Entry, Erasure, Evidence, LoginFailed, LoginSucceeded, Override, Query, SanctionKind, Strike,
    Tenant, Worse,
};
use threshold_core::standing::{Ladder, Lockout, Looks, Reputation, Violation};
use threshold_core::{Span, Subject, SubjectId, SubjectKey, SubjectKind, Timestamp};

use crate::simulate::Dice;

const KINDS: [Violation; 3] = [Violation::RateExceeded, Violation::SuspiciousPattern, Violation::BurstAttack];
const RATES: [&str; 5] = ["5 per 15min burst 7", "50MB/day", "1/s", "100/min burst 3", "7 per 90s"];

/// A few subjects, limits and accounts, and what happens to them: decided by one seed.
pub struct Story {
    dice: Dice,
    key: SubjectKey,
    /// The operator, and what the limits are called after.
    name: String,
    now: Timestamp,
}

impl Story {
    /// The story of `seed`, about subjects of `key` and limits called after `name`, from `start` on.
    #[must_use]
    pub fn new(seed: u64, key: SubjectKey, name: &str, start: Timestamp) -> Self {
        Self { dice: Dice::new(seed), key, name: name.to_owned(), now: start }
    }

    /// The time it has come to.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// The entries of the next write: few, and some of them make no sense.
    pub fn entries(&mut self) -> Vec<Entry> {
        let few = if self.dice.once_in(3) { 1 + self.dice.roll(4) } else { 1 };
        (0..few).map(|_| self.entry()).collect()
    }

    /// Everything that can be asked about this story's subjects.
    #[must_use]
    pub fn questions(&self) -> Vec<Query> {
        let mut questions = Vec::new();
        for subject in self.subjects() {
            let (only, active_at) = (Some(subject), Some(self.now));
            questions.extend([
                Query::Standing(subject),
                Query::Violations { subject: only, after: 0 },
                Query::LatestViolations { subject: only, before: 0 },
                Query::Sanctions { subject: only, active_at: None, after: 0 },
                Query::Sanctions { subject: only, active_at, after: 0 },
            ]);
        }
        for account in self.accounts() {
            let devices = (0..DEVICES).map(|index| self.id(SubjectKind::Device, index));
            questions.extend(devices.map(|device| Query::Device { account, device }));
            questions.push(Query::Lockouts { at: self.now, account: Some(account), after: 0 });
        }
        questions.extend((0..SOURCES).map(|index| Query::Failures(self.id(SubjectKind::Source, index))));
        questions.extend([
            Query::Changes { after: 0 },
            Query::Overrides { after: 0 },
            Query::Tenants { after: 0 },
            Query::Audit { after: 0 },
            Query::LatestAudit { before: 0 },
        ]);
        questions
    }

    fn id(&self, kind: SubjectKind, index: u64) -> SubjectId {
        self.key.id(kind, &Subject::new(format!("{} {index}", kind.name())))
    }

    /// Whom strikes and sanctions are for; the last cannot be sanctioned.
    #[must_use]
    pub fn subjects(&self) -> [SubjectId; 4] {
        use SubjectKind::{Address, NamedUser, User};
        [(User, 0), (User, 1), (Address, 0), (NamedUser, 0)].map(|(kind, index)| self.id(kind, index))
    }

    /// Who has a tier.
    #[must_use]
    pub fn tenants(&self) -> [SubjectId; 3] {
        [0, 1, 2].map(|index| self.id(SubjectKind::Tenant, index))
    }

    fn accounts(&self) -> [SubjectId; 2] {
        [0, 1].map(|index| self.id(SubjectKind::Account, index))
    }

    /// Mostly onwards, by anything from nothing to hours; now and then a clock goes back.
    fn tick(&mut self) -> Timestamp {
        let span = *self.dice.pick(&[Span::ZERO, Span::TICK, Span::SECOND, Span::MINUTE, Span::HOUR]);
        let span = Span::from_micros(span.as_micros() * (1 + self.dice.roll(20)));
        if self.dice.once_in(10) {
            return self.now.minus(span);
        }
        self.now = self.now.plus(span);
        self.now
    }

    fn subject(&mut self) -> SubjectId {
        let [one, other, address, nonsense] = self.subjects();
        if self.dice.once_in(15) { nonsense } else { *self.dice.pick(&[one, other, address]) }
    }

    fn limit(&mut self) -> String {
        format!("{}-{}", self.name, self.dice.roll(3))
    }

    fn entry(&mut self) -> Entry {
        let at = self.tick();
        match self.dice.roll(10) {
            0..4 => Entry::Strike(self.strike(at)),
            4 => {
                let (subject, limit, kind) = (self.subject(), self.limit(), *self.dice.pick(&KINDS));
                let (window, count) = (Span::MINUTE, self.dice.roll(500));
                Entry::Worse(Worse { subject, limit, window, at, kind, count })
            }
            5..8 => Entry::Operator { by: self.name.clone(), at, change: self.change(at) },
            _ => self.login(at),
        }
    }

    /// Some were known under another secret before.
    fn before(&mut self) -> Option<SubjectId> {
        let index = self.dice.roll(3);
        let old = self.id(SubjectKind::User, index);
        Some(old).filter(|_| self.dice.once_in(3))
    }

    fn strike(&mut self, at: Timestamp) -> Strike {
        let looks = Looks {
            country: *self.dice.pick(&[None, Some(*b"DE"), Some(*b"US")]),
            agent: *self.dice.pick(&[None, Some(1), Some(u32::MAX)]),
        };
        let text = |dice: &mut Dice| dice.pick(&[None, Some("a text".to_owned())]).clone();
        let evidence = Evidence {
            kind: *self.dice.pick(&KINDS),
            count: *self.dice.pick(&[0, 101, u64::MAX]),
            allowed: 100,
            looks,
            fingerprint: text(&mut self.dice),
            user_agent: text(&mut self.dice),
            details: text(&mut self.dice).unwrap_or_default(),
        };
        let rate = "1/hour".parse().expect("a rate");
        let reputation = Reputation::new(10, rate, [75, 50, 25], [60, 30, 10]).expect("a reputation");
        let (subject, limit) = (self.subject(), self.limit());
        let ladder = (!self.dice.once_in(5)).then(|| Arc::new(Ladder::ready_made()));
        let reputation = (!self.dice.once_in(5)).then_some(reputation);
        Strike {
            subject,
            before: self.before(),
            limit,
            window: Span::MINUTE,
            at,
            evidence,
            ladder,
            reputation,
        }
    }

    fn change(&mut self, at: Timestamp) -> Change {
        let kind = *self.dice.pick(&SanctionKind::ALL);
        let tenant = *self.dice.pick(&self.tenants());
        match self.dice.roll(9) {
            0 | 1 => {
                let until = at.plus(Span::from_secs(self.dice.roll(20_000)));
                Change::Impose { subject: self.subject(), kind, until, reason: "a reason".to_owned() }
            }
            2 => Change::Lift { subject: self.subject(), kind: self.dice.once_in(2).then_some(kind) },
            3 => Change::SetOverride(self.set_override(at)),
            4 => Change::RemoveOverride(self.override_id()),
            5 => Change::SetTenant(Tenant { subject: tenant, tier: self.limit() }),
            6 => Change::RemoveTenant(tenant),
            7 => {
                let (somebody, account) = (self.subject(), self.accounts()[0]);
                let subject = *self.dice.pick(&[somebody, somebody, tenant, account]);
                let keep_sanctions = self.dice.once_in(2);
                Change::Erase(Erasure { subject, keep_sanctions, redacted: Vec::new() })
            }
            _ => {
                let source = self.id(SubjectKind::Source, self.dice.clone().roll(SOURCES));
                let accounts = self.accounts();
                Change::Unlock(*self.dice.pick(&[accounts[0], accounts[1], source]))
            }
        }
    }

    fn override_id(&mut self) -> String {
        format!("{} override {}", self.name, self.dice.roll(4))
    }

    fn set_override(&mut self, at: Timestamp) -> Override {
        let subject = self.subject();
        Override {
            id: self.override_id(),
            limit: self.limit(),
            subject: self.dice.once_in(2).then_some(subject),
            rate: self.dice.pick(&RATES).parse().expect("a rate"),
            burst_allowance: *self.dice.pick(&[0, 7, u64::MAX]),
            enabled: self.dice.once_in(2),
            priority: *self.dice.pick(&[i64::MIN, -1, 0, i64::MAX]),
            expires: self.dice.once_in(2).then_some(at.plus(Span::HOUR)),
        }
    }

    fn login(&mut self, at: Timestamp) -> Entry {
        let index = self.dice.roll(SOURCES);
        let source = self.id(SubjectKind::Source, index);
        let account = self.accounts()[usize::from(index % 2 == 1)];
        if self.dice.once_in(2) {
            let lockout = Arc::new(Lockout::ready_made());
            return Entry::LoginFailed(LoginFailed { source, before: None, account, at, lockout });
        }
        let device = self.dice.roll(DEVICES);
        let device = Some(self.id(SubjectKind::Device, device)).filter(|_| !self.dice.once_in(4));
        Entry::LoginSucceeded(LoginSucceeded { source, before: None, account, at, device })
    }
}

const SOURCES: u64 = 4;
const DEVICES: u64 = 26;
