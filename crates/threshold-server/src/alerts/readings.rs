//! What is looked at: numbers that only grow, and levels, at one moment.

use threshold::Timestamp;
use threshold::policy::AlertMetric;

/// Everything that rules may look at, at one moment. Counters count from the start of the process and never fall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readings {
    pub(crate) at: Timestamp,
    /// Refusals by layer: counters.
    pub(crate) edge_blocks: u64,
    pub(crate) tenant_blocks: u64,
    pub(crate) user_blocks: u64,
    pub(crate) endpoint_blocks: u64,
    /// The most refusals of one address in the last minute: a level.
    pub(crate) single_ip_blocks: u64,
    pub(crate) bans: u64,
    pub(crate) shadow_bans: u64,
    pub(crate) lockouts: u64,
    pub(crate) violations: u64,
    pub(crate) warnings: u64,
    pub(crate) decisions: u64,
    pub(crate) refused: u64,
    /// 0 or 1: a level.
    pub(crate) store_down: u64,
    /// 0 or 1: a level.
    pub(crate) ledger_failing: u64,
    pub(crate) archive_dropped: u64,
    /// A counter.
    pub(crate) overshoot: u64,
}

impl Readings {
    pub(super) const fn of(&self, metric: AlertMetric) -> u64 {
        match metric {
            AlertMetric::EdgeBlocks => self.edge_blocks,
            AlertMetric::TenantBlocks => self.tenant_blocks,
            AlertMetric::UserBlocks => self.user_blocks,
            AlertMetric::EndpointBlocks => self.endpoint_blocks,
            AlertMetric::SingleIpBlocks => self.single_ip_blocks,
            AlertMetric::Bans => self.bans,
            AlertMetric::ShadowBans => self.shadow_bans,
            AlertMetric::Lockouts => self.lockouts,
            AlertMetric::Violations => self.violations,
            AlertMetric::Warnings => self.warnings,
            AlertMetric::Decisions => self.decisions,
            AlertMetric::Refused => self.refused,
            AlertMetric::StoreDown => self.store_down,
            AlertMetric::LedgerFailing => self.ledger_failing,
            AlertMetric::ArchiveDropped => self.archive_dropped,
            AlertMetric::Overshoot => self.overshoot,
        }
    }
}
