//! What follows from an entry: the one transition of every ledger.

use super::entry::{Change, Entry, LoginFailed, LoginSucceeded, Strike, Struck, Worse, Written};
use super::erase::{RecordClass, erase};
use super::records::{
    Audit, Author, Device, Failures, Lifted, Override, Sanction, SanctionKind, Standing, Tenant,
    ViolationRecord,
};
use super::subject::SubjectId;
use crate::standing::{Habits, Rung, Score, Tally, Violation};
use crate::store::{StoreError, StoreErrorKind};
use crate::time::{Span, Timestamp};

/// The longest sanction: nothing lasts for ever.
pub const MAX_SANCTION: Span = Span::from_micros(366 * Span::DAY.as_micros());

/// The most devices that are known of one account; the one that was not used for longest makes room.
const MOST_DEVICES: usize = 20;

/// What a ledger keeps, as far as entries need it. All calls for one list of entries happen in one transaction.
pub trait Rows {
    /// The next number in the order of changes.
    fn next(&mut self) -> Result<u64, StoreError>;

    /// Claims the window of `subject` under `limit` from `at` to `until`, by one conditional write: false if one that
    /// was claimed before is not over yet.
    fn claim(
        &mut self,
        subject: SubjectId,
        limit: &str,
        at: Timestamp,
        until: Timestamp,
    ) -> Result<bool, StoreError>;

    /// What is held against `subject`.
    fn standing(&mut self, subject: SubjectId) -> Result<Option<Standing>, StoreError>;
    /// Writes a standing in the place of the one before.
    fn put_standing(&mut self, standing: &Standing) -> Result<(), StoreError>;

    /// Adds a violation.
    fn add_violation(&mut self, violation: &ViolationRecord) -> Result<(), StoreError>;
    /// Makes the last violation of `subject` and `limit` that is not older than `since` one of that kind and count, if
    /// it is a milder one; false if there is none.
    fn worsen(&mut self, worse: &Worse, since: Timestamp) -> Result<bool, StoreError>;

    /// The sanction of that kind that is in force.
    fn active(
        &mut self,
        subject: SubjectId,
        kind: SanctionKind,
        now: Timestamp,
    ) -> Result<Option<Sanction>, StoreError>;
    /// Writes a sanction in the place of the one of the same id.
    fn put_sanction(&mut self, sanction: &Sanction) -> Result<(), StoreError>;

    /// The override of that id that was not removed.
    fn find_override(&mut self, id: &str) -> Result<Option<Override>, StoreError>;
    /// Writes an override in the place of the one of the same id; removed ones are kept for others to notice.
    fn put_override(
        &mut self,
        change: &Override,
        version: u64,
        removed_at: Option<Timestamp>,
    ) -> Result<(), StoreError>;

    /// The tenant that was not removed.
    fn find_tenant(&mut self, subject: SubjectId) -> Result<Option<Tenant>, StoreError>;
    /// Writes a tenant in the place of the same one; removed ones are kept for others to notice.
    fn put_tenant(
        &mut self,
        tenant: &Tenant,
        version: u64,
        removed_at: Option<Timestamp>,
    ) -> Result<(), StoreError>;

    /// The failed logins of a source.
    fn failures(&mut self, source: SubjectId) -> Result<Option<Failures>, StoreError>;
    /// Writes the failed logins of a source.
    fn put_failures(&mut self, failures: &Failures) -> Result<(), StoreError>;

    /// The devices of an account, in the order in which they were last used.
    fn devices(&mut self, account: SubjectId) -> Result<Vec<Device>, StoreError>;
    /// Writes a device in the place of the same one.
    fn put_device(&mut self, device: &Device) -> Result<(), StoreError>;
    /// Forgets a device.
    fn forget_device(&mut self, device: &Device) -> Result<(), StoreError>;

    /// Forgets all rows of a class that are `subject`'s; says how many that were.
    fn erase(&mut self, class: RecordClass, subject: SubjectId) -> Result<usize, StoreError>;

    /// Writes an operator's change, in the place of the one of the same id.
    fn add_audit(&mut self, audit: &Audit) -> Result<(), StoreError>;
}

/// Applies one entry.
///
/// # Errors
///
/// If the rows cannot be read or written, or if the entry makes no sense; the transaction must be taken back then.
pub fn apply(rows: &mut impl Rows, entry: &Entry) -> Result<Written, StoreError> {
    match entry {
        Entry::Strike(struck) => strike(rows, struck).map(Written::Struck),
        Entry::Worse(worse) => rows.worsen(worse, worse.at.minus(worse.window)).map(Written::Worse),
        Entry::Operator { by, at, change: Change::Erase(erasure) } => {
            erase(rows, (by, *at), erasure).map(Written::Erased)
        }
        Entry::Operator { by, at, change } => operate(rows, (by, *at), change).map(Written::Changed),
        Entry::LoginFailed(failed) => login_failed(rows, failed),
        Entry::LoginSucceeded(succeeded) => login_succeeded(rows, succeeded),
    }
}

fn strike(rows: &mut impl Rows, strike: &Strike) -> Result<Struck, StoreError> {
    let Strike { subject, at, .. } = *strike;
    sanctionable(subject)?;
    let (mut fresh, mut before) = (true, rows.standing(subject)?);
    for id in strike.before.into_iter().chain([subject]) {
        fresh = fresh && rows.claim(id, &strike.limit, at, at.plus(strike.window))?;
    }
    if let (None, Some(old)) = (before, strike.before) {
        before = rows.standing(old)?.map(|standing| Standing { subject, ..standing });
    }
    if !fresh {
        let standing = before.unwrap_or_else(|| clean(subject, at));
        return Ok(Struck { fresh, standing, kind: strike.evidence.kind, imposed: Vec::new() });
    }
    let version = rows.next()?;
    let (standing, kind, details) = struck(before, strike, version);
    rows.put_standing(&standing)?;
    rows.add_violation(&recorded(strike, (version, kind, details)))?;
    let rung = strike.ladder.as_ref().and_then(|ladder| ladder.rung(&standing.strikes, at));
    let strikes = standing.strikes.parts().0;
    let author = || Author::Ladder { limit: strike.limit.clone(), strikes };
    let reason = format!("strike {strikes}: over the limit {:?}", strike.limit);
    let mut imposed = Vec::new();
    for (kind, span) in rung.into_iter().flat_map(Rung::sanctions) {
        imposed.extend(impose(rows, (subject, kind), (at, at.plus(span)), (&reason, author()))?);
    }
    Ok(Struck { fresh, standing, kind, imposed })
}

/// Nothing held against it yet.
fn clean(subject: SubjectId, at: Timestamp) -> Standing {
    Standing {
        subject,
        version: 0,
        strikes: Tally::default(),
        score: Score::default(),
        violations: 0,
        first_seen: at,
        last_seen: at,
        habits: Habits::default(),
    }
}

/// The standing after a strike, its kind, and what else there is to say about it.
fn struck(before: Option<Standing>, strike: &Strike, version: u64) -> (Standing, Violation, String) {
    let Strike { subject, at, ref evidence, .. } = *strike;
    let last = before.map(|before| before.last_seen);
    let before = before.unwrap_or_else(|| clean(subject, at));
    let (habits, odd) = before.habits.seen(evidence.looks, last, at);
    let lapse = strike.ladder.as_ref().map_or(Span::DAY, |ladder| ladder.lapse());
    let score = strike.reputation.map_or(before.score, |reputation| before.score.violated(&reputation, at));
    let standing = Standing {
        subject,
        version,
        strikes: before.strikes.grown(lapse, at),
        score,
        violations: before.violations.saturating_add(1),
        first_seen: before.first_seen,
        last_seen: at.max(before.last_seen),
        habits,
    };
    let details = match (odd, evidence.details.as_str()) {
        (Some(odd), "") => odd.name().to_owned(),
        (Some(odd), details) => format!("{details}; {}", odd.name()),
        (None, details) => details.to_owned(),
    };
    (standing, evidence.kind.with(odd), details)
}

fn recorded(strike: &Strike, (id, kind, details): (u64, Violation, String)) -> ViolationRecord {
    let evidence = &strike.evidence;
    ViolationRecord {
        id,
        subject: strike.subject,
        kind,
        at: strike.at,
        limit: strike.limit.clone(),
        count: evidence.count,
        allowed: evidence.allowed,
        window: strike.window,
        fingerprint: evidence.fingerprint.clone(),
        user_agent: evidence.user_agent.clone(),
        country: evidence.looks.country,
        details,
    }
}

/// Only who proved who it is and networks: anybody else could be made to look guilty.
fn sanctionable(subject: SubjectId) -> Result<(), StoreError> {
    if subject.can_be_sanctioned() {
        return Ok(());
    }
    let detail = format!("{} cannot be sanctioned; only addresses and users can", subject.kind().name());
    Err(StoreError::new(StoreErrorKind::Misconfigured, "impose a sanction", detail))
}

/// Imposes a sanction, or extends the one in force; none if that one ends later anyway: no end ever comes nearer.
fn impose(
    rows: &mut impl Rows,
    (subject, kind): (SubjectId, SanctionKind),
    (from, until): (Timestamp, Timestamp),
    (reason, author): (&str, Author),
) -> Result<Option<Sanction>, StoreError> {
    sanctionable(subject)?;
    let until = until.min(from.plus(MAX_SANCTION));
    let active = rows.active(subject, kind, from)?;
    if until <= from || active.as_ref().is_some_and(|active| until <= active.until) {
        return Ok(None);
    }
    let version = rows.next()?;
    let (id, from) = active.map_or((version, from), |active| (active.id, active.from));
    let reason = reason.to_owned();
    let sanction = Sanction { id, version, subject, kind, from, until, reason, author, lifted: None };
    rows.put_sanction(&sanction)?;
    Ok(Some(sanction))
}

/// Makes an operator's change and writes down who made it.
fn operate(rows: &mut impl Rows, (by, at): (&str, Timestamp), change: &Change) -> Result<bool, StoreError> {
    let (action, target, before, after) = match change {
        Change::Impose { subject, kind, until, reason } => {
            let shown = |sanction: &Sanction| shown_sanction(sanction, at);
            let before = rows.active(*subject, *kind, at)?.as_ref().map(shown);
            let author = Author::Operator(by.to_owned());
            let imposed = impose(rows, (*subject, *kind), (at, *until), (reason, author))?;
            (format!("impose {}", kind.name()), subject.to_string(), before, imposed.as_ref().map(shown))
        }
        Change::Lift { subject, kind } => {
            let before = lift(rows, (*subject, *kind), by, at)?;
            let after = before.as_ref().map(|_| String::new());
            ("lift".to_owned(), subject.to_string(), before, after)
        }
        Change::SetOverride(new) => {
            let before = rows.find_override(&new.id)?;
            let version = rows.next()?;
            rows.put_override(new, version, None)?;
            let target = format!("override {}", new.id);
            ("set".to_owned(), target, before.as_ref().map(shown_override), Some(shown_override(new)))
        }
        Change::RemoveOverride(id) => {
            let before = rows.find_override(id)?;
            if let Some(before) = &before {
                let version = rows.next()?;
                rows.put_override(before, version, Some(at))?;
            }
            let after = before.as_ref().map(|_| String::new());
            ("remove".to_owned(), format!("override {id}"), before.as_ref().map(shown_override), after)
        }
        Change::SetTenant(tenant) => {
            let before = rows.find_tenant(tenant.subject)?.map(|before| before.tier);
            let version = rows.next()?;
            rows.put_tenant(tenant, version, None)?;
            ("set".to_owned(), tenant.subject.to_string(), before, Some(tenant.tier.clone()))
        }
        Change::RemoveTenant(subject) => {
            let before = rows.find_tenant(*subject)?;
            if let Some(before) = &before {
                let version = rows.next()?;
                rows.put_tenant(before, version, Some(at))?;
            }
            let after = before.as_ref().map(|_| String::new());
            ("remove".to_owned(), subject.to_string(), before.map(|before| before.tier), after)
        }
        Change::Unlock(of) => {
            let forgotten = rows.erase(RecordClass::Failures, *of)?;
            let before = (forgotten > 0).then(|| format!("{forgotten} with failed logins"));
            let after = before.as_ref().map(|_| String::new());
            ("unlock".to_owned(), of.to_string(), before, after)
        }
        // Answered with how much that was, by itself.
        Change::Erase(_) => return Ok(false),
        Change::Note { action, target, before, after } => {
            (action.clone(), target.clone(), Some(before.clone()), Some(after.clone()))
        }
    };
    let Some(after) = after else { return Ok(false) };
    let id = rows.next()?;
    let (by, before) = (by.to_owned(), before.unwrap_or_default());
    rows.add_audit(&Audit { id, at, by, action, target, before, after })?;
    Ok(true)
}

/// Lifts what is in force, and forgets the strikes behind it if everything is lifted; says what was lifted.
fn lift(
    rows: &mut impl Rows,
    (subject, only): (SubjectId, Option<SanctionKind>),
    by: &str,
    at: Timestamp,
) -> Result<Option<String>, StoreError> {
    let mut before = Vec::new();
    for kind in SanctionKind::ALL.into_iter().filter(|kind| only.is_none_or(|only| only == *kind)) {
        if let Some(mut sanction) = rows.active(subject, kind, at)? {
            before.push(shown_sanction(&sanction, at));
            sanction.version = rows.next()?;
            sanction.lifted = Some(Lifted { at, by: by.to_owned() });
            rows.put_sanction(&sanction)?;
        }
    }
    if let (Some(mut standing), None) = (rows.standing(subject)?, only)
        && standing.strikes != Tally::default()
    {
        before.push(format!("strikes {}", standing.strikes.parts().0));
        (standing.version, standing.strikes) = (rows.next()?, Tally::default());
        rows.put_standing(&standing)?;
    }
    Ok((!before.is_empty()).then(|| before.join(", ")))
}

fn shown_sanction(sanction: &Sanction, at: Timestamp) -> String {
    // For people: whoever imposes it for a day writes it down some microseconds later.
    let left = Span::from_secs(sanction.until.since(at).as_secs_ceil());
    format!("{} for {left} more: {}", sanction.kind.name(), sanction.reason)
}

fn shown_override(change: &Override) -> String {
    let whom = change.subject.map_or_else(|| "everyone".to_owned(), |subject| subject.to_string());
    let off = if change.enabled { "" } else { ", switched off" };
    let until = change.expires.map_or_else(String::new, |expires| format!(", until {expires}"));
    format!(
        "{} {} for {whom}, allowance {}, priority {}{until}{off}",
        change.limit, change.rate, change.burst_allowance, change.priority
    )
}

fn login_failed(rows: &mut impl Rows, failed: &LoginFailed) -> Result<Written, StoreError> {
    let LoginFailed { source, account, at, ref lockout, .. } = *failed;
    let before = failures(rows, source, failed.before)?;
    let tally = before.map_or_else(Tally::default, |before| before.tally);
    if let Some(locked) = before.filter(|before| at < before.locked_until) {
        // Guesses while it is locked are no guesses: they were not tried.
        let failures = tally.count(lockout.lapse(), at);
        return Ok(Written::Login { failures, locked_until: Some(locked.locked_until), locked_now: false });
    }
    let tally = tally.grown(lockout.lapse(), at);
    let locked_until = lockout.locked(&tally, at).map(|span| at.plus(span));
    let version = rows.next()?;
    let until = locked_until.unwrap_or_default();
    rows.put_failures(&Failures { source, account, version, tally, locked_until: until })?;
    let failures = tally.count(lockout.lapse(), at);
    Ok(Written::Login { failures, locked_until, locked_now: locked_until.is_some() })
}

/// The failures of a source, or else those it had under the secret before.
fn failures(
    rows: &mut impl Rows,
    source: SubjectId,
    before: Option<SubjectId>,
) -> Result<Option<Failures>, StoreError> {
    match (rows.failures(source)?, before) {
        (None, Some(before)) => rows.failures(before),
        (found, _) => Ok(found),
    }
}

fn login_succeeded(rows: &mut impl Rows, succeeded: &LoginSucceeded) -> Result<Written, StoreError> {
    let LoginSucceeded { source, account, at, device, .. } = *succeeded;
    let before = failures(rows, source, succeeded.before)?;
    if let Some(locked) = before.filter(|before| at < before.locked_until) {
        let (failures, _) = locked.tally.parts();
        return Ok(Written::Login { failures, locked_until: Some(locked.locked_until), locked_now: false });
    }
    if before.is_some() {
        for id in succeeded.before.into_iter().chain([source]) {
            rows.erase(RecordClass::Failures, id)?;
        }
    }
    if let Some(device) = device {
        remember(rows, account, device, at)?;
    }
    Ok(Written::Login { failures: 0, locked_until: None, locked_now: false })
}

fn remember(
    rows: &mut impl Rows,
    account: SubjectId,
    device: SubjectId,
    at: Timestamp,
) -> Result<(), StoreError> {
    let known = rows.devices(account)?;
    let same = known.iter().find(|one| one.device == device);
    let issued = same.map_or(at, |one| one.issued);
    if same.is_none() && known.len() >= MOST_DEVICES {
        for oldest in known.iter().take(known.len() + 1 - MOST_DEVICES) {
            rows.forget_device(oldest)?;
        }
    }
    rows.put_device(&Device { account, device, issued, used: at })
}
