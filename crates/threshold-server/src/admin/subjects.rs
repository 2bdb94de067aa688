//! Somebody who is forgotten as a whole.

use std::net::{IpAddr, Ipv6Addr};

use serde_json::{Value as Json, json};
use threshold::SubjectId;
use threshold::engine::{Forgetting, Forgotten};
use threshold_http::Answer;

use super::Noted;
use super::ask;
use super::call::{Call, Plain, failed, unavailable, whom};
use crate::api::read::bad;
use crate::archive::{ErasedRows, Named};
use crate::cli::Whom;
use crate::{documents, source};

/// Forgets all that is kept about somebody, but for its sanctions if they are to stay.
pub(super) async fn erase(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&["keep"])?;
    let keep_sanctions = match call.params.get("keep") {
        None => false,
        Some("sanctions") => true,
        Some(_) => return Err(bad("bad_request", "`keep` may be `sanctions` and nothing else")),
    };
    let whom = whom(call.name(), Plain::Client)?;
    let (engine, names) = (&call.admin.engine, whom.names());
    let mut subjects: Vec<SubjectId> =
        engine.all_subjects().flat_map(|names| source::all_ids(&names, &whom)).collect();
    subjects.dedup();
    let forgetting = Forgetting { subjects: &subjects, client: whom.client(), keep_sanctions, names: &names };
    let forgotten = ask::erase(&**engine, call.by(), &forgetting).await.map_err(failed)?;
    let archived = archived(call, &whom, &subjects).await?;
    let audited = note(call, &subjects, (&forgotten, archived.as_ref())).await;
    Ok(json!({
        "subjects": subjects.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "ledger": documents::erased(&forgotten.records),
        "limits": forgotten.limits,
        "archive": archived.map(|rows| json!({
            "usageRows": rows.usage, "eventRows": rows.events, "files": rows.files,
        })),
        "left": left(&whom, keep_sanctions, &forgotten),
        "audited": audited,
    }))
}

/// Erases somebody from the archive, if there is one.
async fn archived(
    call: &Call,
    whom: &Whom,
    subjects: &[SubjectId],
) -> Result<Option<ErasedRows>, Box<Answer>> {
    let Some(archive) = &call.admin.archive else { return Ok(None) };
    let shown = if let Whom::Address(address) = whom { shown(call, *address) } else { Vec::new() };
    let named = Named { subjects: subjects.iter().map(ToString::to_string).collect(), shown };
    let unfinished = |why: String| {
        unavailable(&format!("the ledger and the counters are erased, and the archive is not: {why}"))
    };
    archive.erase(named).await.map_err(unfinished)
}

/// How an address is shown in events where that shows nobody else: all of it, or a network that is the client.
fn shown(call: &Call, address: IpAddr) -> Vec<String> {
    let address = address.to_canonical();
    let mut shown = vec![address.to_string()];
    if let IpAddr::V6(address) = address {
        let prefix = call.admin.engine.rules().ipv6_prefix();
        let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
        shown.push(format!("{}/{prefix}", Ipv6Addr::from_bits(address.to_bits() & mask)));
    }
    shown
}

/// Writes down what the ledger does not know: counters, and what the archive had.
async fn note(
    call: &Call,
    subjects: &[SubjectId],
    (forgotten, archived): (&Forgotten, Option<&ErasedRows>),
) -> bool {
    let target = subjects.first().map(ToString::to_string).unwrap_or_default();
    let mut before = format!("counters of {} limits", forgotten.limits.len());
    if let Some(ErasedRows { usage, events, files }) = archived {
        before += &format!(", {usage} rows and {events} events in {files} files of the archive");
    }
    let noted = Noted { action: "erase counters and archive", target: &target, before, after: String::new() };
    call.admin.note(call.by(), noted).await
}

/// What is left, and why.
fn left(whom: &Whom, keep_sanctions: bool, forgotten: &Forgotten) -> Vec<String> {
    let mut left = Vec::new();
    if matches!(whom, Whom::Subject(_)) {
        left.push(
            "counters: they are found by names, and a subject tells none; they go with their windows"
                .to_owned(),
        );
    }
    if !forgotten.shared.is_empty() {
        let limits = forgotten.shared.join(", ");
        left.push(format!(
            "counters of limits that count it only together with something else, until their windows are over: {limits}"
        ));
    }
    if keep_sanctions {
        left.push("sanctions that are in force, until they end".to_owned());
    }
    left
}
