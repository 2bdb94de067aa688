//! `threshold bans`, `threshold lockouts` and `threshold overrides`, as they are typed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "ledger/bans.rs"]
mod bans;
#[path = "ledger/common.rs"]
mod common;
#[path = "ledger/lockouts.rs"]
mod lockouts;
#[path = "ledger/mistakes.rs"]
mod mistakes;
#[path = "ledger/overrides.rs"]
mod overrides;
#[path = "ledger/places.rs"]
mod places;
#[path = "ledger/sharing.rs"]
mod sharing;
