//! A report as one JSON document.

use serde_json::{Value as Json, json};
use threshold::Timestamp;

use super::{Changed, LimitReport, Report, SHARE_NAMES, SubjectReport};
use crate::replay::Sanctions;
use crate::tally::{Counts, Slot};

/// The whole report.
#[must_use]
pub fn document(report: &Report) -> Json {
    let (from, to) = report.span.unzip();
    let [ordinary, unclear, abusive] = report.looks;
    let named = |(name, counts): &(String, Counts)| with("name", name, totals(counts));
    let layers = report.layers.iter().map(|(layer, denied)| (layer.to_string(), json!(denied)));
    json!({
        "policy": report.policy.0,
        "against": report.policy.1,
        "sources": report.sources,
        "requests": report.requests(),
        "from": time(from),
        "to": time(to),
        "totals": totals(&report.totals.0),
        "totalsAgainst": report.totals.1.as_ref().map(totals),
        "sanctions": sanctions(&report.sanctions.0),
        "sanctionsAgainst": report.sanctions.1.as_ref().map(sanctions),
        "limits": report.limits.iter().map(limit).collect::<Vec<_>>(),
        "deniedByLayer": layers.collect::<serde_json::Map<_, _>>(),
        "routes": report.routes.iter().map(named).collect::<Vec<_>>(),
        "tenants": report.tenants.iter().map(named).collect::<Vec<_>>(),
        "actors": report.actors.iter().map(named).collect::<Vec<_>>(),
        "subjects": { "seen": report.subjects.0, "denied": report.subjects.1, "exact": report.subjects.2,
            "ordinary": ordinary, "unclear": unclear, "abusive": abusive },
        "mostHit": report.hit.iter().map(subject).collect::<Vec<_>>(),
        "ordinaryHit": report.ordinary.iter().map(subject).collect::<Vec<_>>(),
        "newlyDenied": report.changed.as_ref().map(|[denied, _]| changed(denied)),
        "newlyFreed": report.changed.as_ref().map(|[_, freed]| changed(freed)),
        "series": { "from": report.series.from().to_string(),
            "seconds": report.series.width().as_micros() / 1_000_000,
            "slots": report.series.slots().iter().map(slot).collect::<Vec<_>>() },
        "peaksPerMinute": peaks(&report.peaks),
        "first": report.first.as_ref().map(|first| {
            json!({ "at": first.at.to_string(), "who": first.who, "what": first.what, "by": first.by })
        }),
        "busiestSecond": { "at": report.busiest.requests.0.to_string(), "requests": report.busiest.requests.1 },
        "worstMinute": { "at": report.busiest.denied.0.to_string(), "denied": report.busiest.denied.1 },
        "cost": { "storeOperations": report.cost.operations,
            "storeOperationsInBusiestSecond": report.cost.operations_at_peak,
            "stepsPerRequest": { "edge": report.cost.steps.0, "store": report.cost.steps.1 },
            "mostCounters": report.cost.memory.0, "mostBytes": report.cost.memory.1 },
        "notes": report.notes,
    })
}

fn time(at: Option<Timestamp>) -> Json {
    json!(at.map(|at| at.to_string()))
}

fn totals(counts: &Counts) -> Json {
    let mut all: serde_json::Map<String, Json> =
        counts.kinds().into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect();
    all.insert("denied".to_owned(), json!(counts.denied()));
    all.insert("requests".to_owned(), json!(counts.requests()));
    Json::Object(all)
}

fn with(name: &str, value: &str, mut object: Json) -> Json {
    object[name] = json!(value);
    object
}

fn sanctions(imposed: &Sanctions) -> Json {
    let Sanctions { strikes, cooldowns, shadows, bans } = imposed;
    json!({ "strikes": strikes, "cooldowns": cooldowns, "shadows": shadows, "bans": bans })
}

fn limit(limit: &LimitReport) -> Json {
    let shares =
        SHARE_NAMES.iter().zip(limit.shares).map(|(name, keys)| json!({ "share": name, "keys": keys }));
    json!({
        "id": limit.id, "layer": limit.layer.word(), "asked": limit.count.asked, "denied": limit.count.denied,
        "warned": limit.count.warned, "wouldDeny": limit.count.would_deny,
        "deniedAgainst": limit.count.denied_before, "first": time(limit.count.first),
        "subjects": limit.subjects.0, "ordinarySubjects": limit.subjects.1,
        "peakShares": shares.collect::<Vec<_>>(),
    })
}

fn subject(subject: &SubjectReport) -> Json {
    let record = &subject.record;
    let (looks, why) = &subject.looks;
    json!({
        "who": subject.who, "kind": record.kind.name(), "requests": record.requests, "warned": record.warned,
        "slowed": record.slowed, "denied": record.denied, "deniedAgainst": record.denied_before,
        "banned": record.banned, "first": record.seen.0.to_string(), "last": record.seen.1.to_string(),
        "firstDenied": time(record.first_denied), "blockedSeconds": record.blocked.as_micros() as f64 / 1e6,
        "blockedForGood": record.for_good, "peakPerMinute": record.peak, "limits": subject.limits,
        "agents": record.agents().map(|agent| agent.name()).collect::<Vec<_>>(),
        "looks": looks.name(), "why": why,
    })
}

fn changed(changed: &Changed) -> Json {
    json!({ "subjects": changed.subjects, "ordinarySubjects": changed.ordinary, "requests": changed.requests,
        "most": changed.most.iter().map(subject).collect::<Vec<_>>() })
}

fn slot(slot: &Slot) -> Json {
    json!([slot.allowed, slot.warned, slot.slowed, slot.denied])
}

fn peaks(peaks: &[u64]) -> Json {
    let each = peaks.iter().enumerate().map(|(power, subjects)| {
        let from = 1_u64 << power;
        json!({ "from": from, "to": 2 * from - 1, "subjects": subjects })
    });
    each.collect()
}
