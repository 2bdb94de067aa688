//! The tiers of tenants that the ledger knows.

use serde::Deserialize;
use serde_json::{Value as Json, json};
use threshold::SubjectKind;
use threshold::ledger::{Change, Query, Record, Tenant};
use threshold_http::Answer;

use super::ask;
use super::call::{Call, Plain, failed, whom};
use crate::api::read::unprocessable;

/// Those that were not removed.
pub(super) async fn list(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&["limit", "after"])?;
    let told = |record: &Record| match record {
        Record::Tenant { tenant, .. } => Some(document(tenant)),
        _ => None,
    };
    call.page(&[None], |_, after| Query::Tenants { after }, told).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    tier: String,
}

/// Sets a tenant's tier.
pub(super) async fn set(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let Set { tier } = call.question()?;
    let subject = call.id(&whom(call.name(), Plain::Tenant)?);
    if subject.kind() != SubjectKind::Tenant {
        return Err(unprocessable("no_tenant", "only tenants have tiers; name one"));
    }
    let rules = call.admin.engine.rules();
    if !rules.tiers().any(|known| known == tier) {
        let known: Vec<&str> = rules.tiers().collect();
        let detail = format!("the policy has no tier {tier:?}; it has: {}", known.join(", "));
        return Err(unprocessable("no_tier", &detail));
    }
    let tenant = Tenant { subject, tier };
    let change = Change::SetTenant(tenant.clone());
    let changed = ask::operate(&*call.admin.engine, call.by(), change).await.map_err(failed)?;
    Ok(json!({ "changed": changed, "tenant": document(&tenant) }))
}

/// Removes what the ledger says of a tenant.
pub(super) async fn remove(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let mut changed = false;
    for subject in call.ids(&whom(call.name(), Plain::Tenant)?) {
        let change = Change::RemoveTenant(subject);
        changed |= ask::operate(&*call.admin.engine, call.by(), change).await.map_err(failed)?;
    }
    Ok(json!({ "changed": changed }))
}

fn document(tenant: &Tenant) -> Json {
    json!({ "subject": tenant.subject.to_string(), "tier": tenant.tier })
}
