//! What happens just now, in numbers; and who asks.

use serde_json::{Map, Value as Json, json};
use threshold::figures::Most;
use threshold::ledger::SanctionKind;
use threshold_http::Answer;

use super::call::Call;
use crate::api::read::bad;

/// How many of those who were refused most are told.
const TOP: usize = 10;

/// The latest seconds, who was refused most, and what is in force and in flight.
pub(super) fn traffic(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&["after"])?;
    let after = call
        .params
        .get("after")
        .map(|after| after.parse::<f64>().ok().filter(|after| after.is_finite() && *after >= 0.0));
    let Some(after) = after.map_or(Some(None), |after| after.map(Some)) else {
        let detail = "`after` is the `at` of the last sample that you have, a number; leave it out for all";
        return Err(bad("bad_request", detail));
    };
    let (metrics, mut told) = (&call.admin.metrics, call.admin.traffic.to_json(after));
    let figures = &metrics.figures;
    let text = |most: &Most<String>| json!({ "name": most.key, "blocks": most.at_least() });
    let tenants: Vec<_> = figures.top_tenants(TOP).iter().map(text).collect();
    let endpoints: Vec<_> = figures.top_endpoints(TOP).iter().map(text).collect();
    let addresses = figures.top_addresses(TOP);
    let addresses: Vec<_> = addresses
        .iter()
        .map(|most| json!({ "name": most.key.to_string(), "blocks": most.at_least() }))
        .collect();
    told["top"] = json!({ "tenants": tenants, "endpoints": endpoints, "addresses": addresses });
    let in_force = SanctionKind::ALL.iter().zip(metrics.engine.sanctions_in_force());
    let in_force: Map<_, _> = in_force.map(|(kind, count)| (kind.name().to_owned(), json!(count))).collect();
    told["sanctions"] = in_force.into();
    told["gateway"] = metrics.gateway.as_ref().map_or(Json::Null, |gateway| {
        let ((connections, requests), delays) = (gateway.load(), gateway.delays());
        json!({
            "connections": connections,
            "requestsInFlight": requests,
            "delayed": delays.taken(),
            "delayedMax": delays.most(),
        })
    });
    told["dropped"] = metrics.readings().archive_dropped.into();
    Ok(told)
}

/// Whose token it is, and what it allows.
pub(super) fn caller(call: &Call) -> Json {
    json!({ "name": call.caller.name, "scope": call.caller.scope.name() })
}
