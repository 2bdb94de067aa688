//! What events there were, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use threshold::event::Event;
use threshold::ledger::SanctionKind;
use threshold::standing::Violation;

/// Events since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    violations: [AtomicU64; Violation::ALL.len()],
    sanctions: [AtomicU64; SanctionKind::ALL.len()],
    others: [AtomicU64; Other::ALL.len()],
}

/// Events that are told apart by their name alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Other {
    SanctionLifted = 0,
    AddressLimited = 1,
    AccountLocked = 2,
    AccountCeiling = 3,
    LockoutLifted = 4,
    SettingChanged = 5,
    LedgerFailed = 6,
    SubjectErased = 7,
    AdminChanged = 8,
}

impl Other {
    pub(crate) const ALL: [Self; 9] = [
        Self::SanctionLifted,
        Self::AddressLimited,
        Self::AccountLocked,
        Self::AccountCeiling,
        Self::LockoutLifted,
        Self::SettingChanged,
        Self::LedgerFailed,
        Self::SubjectErased,
        Self::AdminChanged,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SanctionLifted => "sanction_lifted",
            Self::AddressLimited => "auth_ip_rate_limit",
            Self::AccountLocked => "auth_user_lockout",
            Self::AccountCeiling => "auth_account_ceiling",
            Self::LockoutLifted => "lockout_lifted",
            Self::SettingChanged => "setting_changed",
            Self::LedgerFailed => "ledger_failed",
            Self::SubjectErased => "subject_erased",
            Self::AdminChanged => "admin_changed",
        }
    }
}

impl Counts {
    /// Counts `event`.
    pub(crate) fn count(&self, event: &Event) {
        let counter = match event {
            Event::AbuseEscalation(escalation) => &self.violations[escalation.violation as usize],
            Event::SanctionImposed { kind, .. } => &self.sanctions[*kind as usize],
            Event::SanctionLifted { .. } => self.other(Other::SanctionLifted),
            Event::AuthIpRateLimit { .. } => self.other(Other::AddressLimited),
            Event::AuthUserLockout { .. } => self.other(Other::AccountLocked),
            Event::AuthAccountCeiling { .. } => self.other(Other::AccountCeiling),
            Event::LockoutLifted { .. } => self.other(Other::LockoutLifted),
            Event::SettingChanged { .. } => self.other(Other::SettingChanged),
            Event::LedgerFailed { .. } => self.other(Other::LedgerFailed),
            Event::SubjectErased { .. } => self.other(Other::SubjectErased),
            Event::AdminChanged { .. } => self.other(Other::AdminChanged),
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    const fn other(&self, other: Other) -> &AtomicU64 {
        &self.others[other as usize]
    }

    /// How many there were of one kind.
    pub(crate) fn of(&self, other: Other) -> u64 {
        self.other(other).load(Ordering::Relaxed)
    }

    /// Strikes by what they were for.
    pub(crate) fn violations(&self) -> impl Iterator<Item = (Violation, u64)> {
        Violation::ALL.into_iter().zip(read(&self.violations))
    }

    /// Sanctions that were imposed or extended.
    pub(crate) fn sanctions(&self) -> impl Iterator<Item = (SanctionKind, u64)> {
        SanctionKind::ALL.into_iter().zip(read(&self.sanctions))
    }

    /// All others.
    pub(crate) fn others(&self) -> impl Iterator<Item = (Other, u64)> {
        Other::ALL.into_iter().zip(read(&self.others))
    }
}

fn read<const N: usize>(counters: &[AtomicU64; N]) -> [u64; N] {
    counters.each_ref().map(|counter| counter.load(Ordering::Relaxed))
}
