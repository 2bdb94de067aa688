//! The engine as the policies' authors see it: a request's facts go in, one decision over four layers comes out.

#[path = "engine/agreement.rs"]
mod agreement;
#[path = "engine/charges.rs"]
mod charges;
#[path = "engine/common.rs"]
mod common;
#[path = "engine/corners.rs"]
mod corners;
#[path = "engine/descriptors.rs"]
mod descriptors;
#[path = "engine/enforcement.rs"]
mod enforcement;
#[path = "engine/erase.rs"]
mod erase;
#[path = "engine/explain.rs"]
mod explain;
#[path = "engine/failing_ledger.rs"]
mod failing_ledger;
#[path = "engine/gates.rs"]
mod gates;
#[path = "engine/ladder.rs"]
mod ladder;
#[path = "engine/layers.rs"]
mod layers;
#[path = "engine/leases.rs"]
mod leases;
#[path = "engine/lists.rs"]
mod lists;
#[path = "engine/login.rs"]
mod login;
#[path = "engine/messages.rs"]
mod messages;
#[path = "engine/overrides.rs"]
mod overrides;
#[path = "engine/properties.rs"]
mod properties;
#[path = "engine/reload.rs"]
mod reload;
#[path = "engine/reputation.rs"]
mod reputation;
#[path = "engine/rotation.rs"]
mod rotation;
#[path = "engine/sharing.rs"]
mod sharing;
#[path = "engine/subjects.rs"]
mod subjects;
#[path = "engine/usage.rs"]
mod usage;
