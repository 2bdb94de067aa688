//! What the world watches of abuse: who was sanctioned and why, who was let in, and what the ledger swore to keep.

use std::collections::{HashMap, HashSet};

use threshold::engine::{Decision, Reason, Subjects};
use threshold_core::ledger::{Author, Query, Record, Sanction, SanctionKind};
use threshold_core::{Span, SubjectId, Timestamp};
use threshold_store::MemoryLedger;

use super::clients::{Client, Kind};

/// What the clients saw, by the subject that would be blamed.
#[derive(Default)]
pub(super) struct Watch {
    /// When each was refused or warned for going over.
    over: HashMap<SubjectId, Vec<Timestamp>>,
    /// The bans that were acknowledged to an operator and not lifted since.
    pub(super) sworn: HashMap<SubjectId, Timestamp>,
    /// Whose lift was not acknowledged: the engine may learn of it when it reads again.
    pub(super) unsure: HashSet<SubjectId>,
}

impl Watch {
    /// Notes what a client saw at `now` by the clock, which a store's time may be ahead of where clocks go back.
    ///
    /// # Errors
    ///
    /// If it was sanctioned without a sanction being in force.
    pub(super) fn saw(
        &mut self,
        client: &Client,
        (decision, now): (&Decision, Timestamp),
        (subjects, ledger): (&Subjects, &MemoryLedger),
    ) -> Result<(), String> {
        let (user, address) = ids(client, subjects);
        let refused = decision.refusal().map(|refusal| refusal.reason);
        if decision.warned() || matches!(refused, Some(Reason::Limit(_) | Reason::Banned { .. })) {
            for id in [user, Some(address)].into_iter().flatten() {
                self.over.entry(id).or_default().push(decision.at());
            }
        }
        let kind = match refused {
            Some(Reason::Banned { .. }) => SanctionKind::Ban,
            Some(Reason::Cooldown { .. }) => SanctionKind::Cooldown,
            _ if !decision.delay().is_zero() => SanctionKind::Shadow,
            _ => return Ok(()),
        };
        let in_force = sanctions(ledger).into_iter().any(|sanction| {
            let whose = Some(sanction.subject) == user || sanction.subject == address;
            let lasts = sanction.lifted.is_none() || self.unsure.contains(&sanction.subject);
            whose && sanction.kind == kind && lasts && now < sanction.until
        });
        if in_force { Ok(()) } else { Err(format!("{kind:?} of {client:?} without one in force")) }
    }

    /// Looks at all that is written down: nobody innocent, nobody without cause, nothing without an end.
    ///
    /// # Errors
    ///
    /// What is wrong.
    pub(super) fn judge(
        &self,
        clients: &[Client],
        subjects: &Subjects,
        ledger: &MemoryLedger,
    ) -> Result<(), String> {
        let innocent: Vec<SubjectId> = clients
            .iter()
            .filter(|client| client.kind == Kind::Honest)
            .flat_map(|client| {
                let (user, address) = ids(client, subjects);
                user.into_iter().chain([address])
            })
            .collect();
        for sanction in sanctions(ledger) {
            if innocent.contains(&sanction.subject) {
                return Err(format!("an innocent is sanctioned: {sanction:?}"));
            }
            if sanction.until <= sanction.from
                || sanction.until > sanction.from.plus(Span::from_secs(8 * 86_400))
            {
                return Err(format!("an end that is none: {sanction:?}"));
            }
            if let Author::Ladder { strikes, .. } = sanction.author {
                let causes = self.over.get(&sanction.subject).map_or(0, Vec::len);
                if causes < strikes as usize {
                    return Err(format!("{causes} causes for {strikes} strikes: {sanction:?}"));
                }
            }
        }
        Ok(())
    }
}

/// The ids of a client's user, if it has proven to be one, and of its network.
pub(super) fn ids(client: &Client, subjects: &Subjects) -> (Option<SubjectId>, SubjectId) {
    (client.user.map(|user| subjects.user(client.tenant, user)), subjects.address(client.peer))
}

pub(super) fn sanctions(ledger: &MemoryLedger) -> Vec<Sanction> {
    let query = Query::Sanctions { subject: None, active_at: None, after: 0 };
    let records = ledger.read_now(&query).records.into_iter();
    records
        .filter_map(|record| match record {
            Record::Sanction(sanction) => Some(sanction),
            _ => None,
        })
        .collect()
}
