//! `threshold bans`: who is kept out, until when and why.

use serde_json::{Value, json};
use threshold::ledger::{Author, Change, Lifted, Query, Record, Sanction, SanctionKind};
use threshold::{StoreError, SubjectId, Timestamp};

use super::ledger::{Desk, Failed, ended, on_ledger};
use super::served;
use crate::Ended;
use crate::cli::{Bans, BansAdd, BansLift, BansList, Whom};
use crate::config::{self, Access};
use crate::documents;
use crate::output::{Output, left, table};
use crate::source::Source;

/// Does what is asked about bans.
pub(crate) fn bans(bans: &Bans, output: &mut Output) -> Ended {
    if let Some(ended) = served::bans(bans, output) {
        return ended;
    }
    match bans {
        Bans::List(asked) => {
            on_ledger(&asked.listing.place, Access::Existing, output, async |desk| list(asked, desk).await)
        }
        Bans::Add(asked) => {
            on_ledger(&asked.acting.place, Access::Make, output, async |desk| add(asked, desk).await)
        }
        Bans::Lift(asked) => {
            on_ledger(&asked.acting.place, Access::Existing, output, async |desk| lift(asked, desk).await)
        }
    }
}

async fn list(asked: &BansList, mut desk: Desk<'_>) -> Result<Ended, Failed> {
    let now = desk.source.now();
    let active_at = (!asked.all).then_some(now);
    let mut sanctions = match asked.banned.whom() {
        Some(whom) => of_all(desk.source, &desk.source.ids(&whom), active_at).await?,
        None => sanctions(desk.source, None, active_at).await?,
    };
    sanctions.retain(|sanction| asked.kind.is_none_or(|kind| kind == sanction.kind));
    if asked.listing.json {
        desk.json(&sanctions.iter().map(|sanction| documents::sanction(sanction, now)).collect());
    } else if sanctions.is_empty() {
        desk.line(if asked.all { "Nobody is or was kept out." } else { "Nobody is kept out." });
    } else {
        let rows: Vec<_> = sanctions.iter().map(|sanction| row(sanction, now)).collect();
        table(["SUBJECT", "KIND", "UNTIL", "BY", "REASON"], &rows, desk.output);
    }
    Ok(Ended::Well)
}

async fn add(asked: &BansAdd, mut desk: Desk<'_>) -> Result<Ended, Failed> {
    let (by, at, kind) = (config::operator(asked.acting.by.as_deref())?, desk.source.now(), asked.kind);
    let subject = desk.source.id(&whom(asked.banned.whom())?);
    let (until, reason) = (at.plus(asked.span), asked.reason.clone());
    let change = Change::Impose { subject, kind, until, reason };
    let changed = desk.source.change((&by, at), vec![change]).await? == [true];
    let mut in_force = sanctions(desk.source, Some(subject), Some(at)).await?;
    in_force.retain(|sanction| sanction.kind == kind);
    if asked.acting.json {
        let documents: Vec<Value> =
            in_force.iter().map(|sanction| documents::sanction(sanction, at)).collect();
        desk.json(&json!({ "changed": changed, "sanctions": documents }));
        return Ok(ended(changed));
    }
    let Some(sanction) = in_force.first() else {
        return Err(format!("the {} of {subject} was lifted again at once", kind.name()).into());
    };
    let until = format!("{} ({})", sanction.until, left(sanction.until, at));
    desk.line(&match (changed, sanction.from < at) {
        (true, false) => format!("{} {subject} until {until}", verb(kind)),
        (true, true) => format!("extended the {} of {subject} until {until}", kind.name()),
        (false, _) => {
            format!(
                "nothing changed: {subject} is {} until {until} already; to shorten it, lift it first",
                verb(kind)
            )
        }
    });
    Ok(ended(changed))
}

async fn lift(asked: &BansLift, mut desk: Desk<'_>) -> Result<Ended, Failed> {
    let (by, at) = (config::operator(asked.acting.by.as_deref())?, desk.source.now());
    let subjects = desk.source.ids(&whom(asked.banned.whom())?);
    let changes =
        subjects.iter().map(|subject| Change::Lift { subject: *subject, kind: asked.kind }).collect();
    let changed = desk.source.change((&by, at), changes).await?;
    let lifting = Some(Lifted { at, by });
    let mut lifted = of_all(desk.source, &subjects, None).await?;
    lifted.retain(|sanction| sanction.lifted == lifting);
    let any = changed.contains(&true);
    if asked.acting.json {
        let documents: Vec<Value> = lifted.iter().map(|sanction| documents::sanction(sanction, at)).collect();
        desk.json(&json!({ "changed": any, "sanctions": documents }));
    } else if any {
        let different = subjects.into_iter().zip(changed).filter(|(_, changed)| *changed);
        different.for_each(|(subject, _)| desk.line(&lifted_line(subject, &lifted)));
    } else if let Some(subject) = subjects.first() {
        desk.line(&format!("nothing to lift for {subject}"));
    }
    Ok(ended(any))
}

/// The parser has asked for one of the options already.
fn whom(given: Option<Whom>) -> Result<Whom, Failed> {
    given.ok_or_else(|| Failed::from("nobody is named; give --address, --user or --subject".to_owned()))
}

async fn sanctions(
    source: &Source,
    subject: Option<SubjectId>,
    active_at: Option<Timestamp>,
) -> Result<Vec<Sanction>, StoreError> {
    let records = source.read(|after| Query::Sanctions { subject, active_at, after }).await?;
    let sanction = |record| if let Record::Sanction(sanction) = record { Some(sanction) } else { None };
    Ok(records.into_iter().filter_map(sanction).collect())
}

async fn of_all(
    source: &Source,
    subjects: &[SubjectId],
    active_at: Option<Timestamp>,
) -> Result<Vec<Sanction>, StoreError> {
    let mut all = Vec::new();
    for subject in subjects {
        all.extend(sanctions(source, Some(*subject), active_at).await?);
    }
    all.sort_by_key(|sanction| sanction.id);
    Ok(all)
}

fn lifted_line(subject: SubjectId, lifted: &[Sanction]) -> String {
    let own = lifted.iter().filter(|sanction| sanction.subject == subject);
    match own.map(|sanction| sanction.kind.name()).collect::<Vec<_>>()[..] {
        [] => format!("forgot the strikes of {subject}"),
        ref kinds => format!("lifted the {} of {subject}", kinds.join(" and the ")),
    }
}

const fn verb(kind: SanctionKind) -> &'static str {
    match kind {
        SanctionKind::Cooldown => "cooled down",
        SanctionKind::Shadow => "shadowed",
        SanctionKind::Ban => "banned",
    }
}

fn row(sanction: &Sanction, now: Timestamp) -> [String; 5] {
    let state = match &sanction.lifted {
        Some(lifted) => format!("lifted by {}", lifted.by),
        None => left(sanction.until, now),
    };
    let by = match &sanction.author {
        Author::Ladder { .. } => "the ladder".to_owned(),
        Author::Operator(name) => name.clone(),
    };
    let until = format!("{} ({state})", sanction.until);
    [sanction.subject.to_string(), sanction.kind.name().to_owned(), until, by, sanction.reason.clone()]
}
