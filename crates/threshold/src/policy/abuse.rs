//! What abuse is answered with, as it is written: lists, ladder, reputation, login.

use threshold_core::standing::{self, LadderError, LockoutError};
use threshold_core::{Rate, Span};

use super::decode::{Named, Placed, Several};
use super::table::table;
use super::values::Percent;
use crate::identify::Cidr;

table! {
    /// Who is always allowed, and who never is.
    pub struct Lists {
        /// Networks that no limit binds.
        allow: Vec<Cidr> = default(Vec::new()),
        /// Networks that are refused.
        deny: Vec<Cidr> = default(Vec::new()),
        /// Users that no limit binds.
        allow_users: Vec<String> = default(Vec::new()),
        /// Users that are refused.
        deny_users: Vec<String> = default(Vec::new()),
        /// Tenants that no limit binds.
        allow_tenants: Vec<String> = default(Vec::new()),
        /// Tenants that are refused.
        deny_tenants: Vec<String> = default(Vec::new()),
    }
}

table! {
    /// The graduated response: what follows each strike.
    pub struct Ladder {
        /// How much more than the limit the first rungs allow, in each window.
        grace: Percent = default(Percent(10)),
        /// How long after the last strike they are forgotten.
        lapse: Span = default(Span::DAY),
        /// The rungs, by number of strikes. Without any, those of the ready-made ladder.
        rungs: Placed<Vec<Rung>> = optional,
    }
}

table! {
    /// What follows so many strikes.
    pub struct Rung {
        /// How many strikes.
        strikes: Placed<u32> = required,
        /// Allows within the grace, with a warning.
        warn: bool = default(false),
        /// Reports it.
        log: bool = default(false),
        /// Refuses this long.
        cooldown: Placed<Span> = optional,
        /// Delays answers this long.
        shadow: Placed<Span> = optional,
        /// Refuses everything this long.
        ban: Placed<Span> = optional,
    }
}

table! {
    /// Reputation: how violations lower a client's limits, and how they recover.
    pub struct Reputation {
        /// What a violation costs, of 100.
        violation: u8 = default(10),
        /// How much comes back, such as `1 per hour`.
        recovery: Rate = optional,
        /// The header in which a trusted proxy names the client's country, such as `cf-ipcountry`.
        country: Placed<String> = optional,
        /// From this score on the risk is low.
        low: Placed<u8> = optional,
        /// From this score on it is medium.
        medium: Placed<u8> = optional,
        /// From this score on it is high; below it critical.
        high: Placed<u8> = optional,
        /// The share of its limits that a client of medium risk has.
        medium_share: Percent = default(Percent(60)),
        /// Of high risk.
        high_share: Percent = default(Percent(30)),
        /// Of critical risk.
        critical_share: Percent = default(Percent(10)),
    }
}

table! {
    /// Logins: how many attempts, and how failures lock out.
    pub struct Login {
        /// The routes that people log in by, for the gateway and the middleware.
        route: Placed<Several<Placed<String>>> = optional,
        /// The field of the form or the JSON object that names the account, or several to look for in turn.
        account_field: Placed<Several<String>> = optional,
        /// Fields and the values they must have for a password to be tried, such as `grant_type = \"password\"`.
        require: Named<String> = default(Named::default()),
        /// The statuses of an answer to a login that succeeded; all below 400 without it.
        success: Placed<Vec<u16>> = optional,
        /// Attempts from one address.
        address: Rate = optional,
        /// Password grants for one account from one source.
        account: Rate = optional,
        /// The lockout, by number of failures.
        lockout: Placed<Vec<Lockout>> = optional,
        /// The most failures of one account from everywhere.
        ceiling: Rate = optional,
        /// How long after the last failure they are forgotten.
        lapse: Span = default(Span::DAY),
    }
}

table! {
    /// What follows so many failures.
    pub struct Lockout {
        /// How many failures.
        failures: Placed<u32> = required,
        /// How long it locks out.
        lock: Span = required,
    }
}

impl Ladder {
    /// The ladder itself.
    pub(crate) fn ready(&self) -> Result<standing::Ladder, LadderError> {
        let Some(rungs) = &self.rungs else {
            return Ok(standing::Ladder::ready_made().with(self.grace.0, self.lapse));
        };
        let span = |span: &Option<Placed<Span>>| span.as_ref().map(|span| span.value);
        let rung = |rung: &Rung| standing::Rung {
            strikes: rung.strikes.value,
            warn: rung.warn,
            log: rung.log,
            cooldown: span(&rung.cooldown),
            shadow: span(&rung.shadow),
            ban: span(&rung.ban),
        };
        standing::Ladder::new(rungs.iter().map(rung).collect(), self.grace.0, self.lapse)
    }
}

impl Login {
    /// How failures lock out.
    pub(crate) fn ready_lockout(&self) -> Result<standing::Lockout, LockoutError> {
        let Some(steps) = &self.lockout else {
            return Ok(standing::Lockout::ready_made().with_lapse(self.lapse));
        };
        let steps = steps.iter().map(|step| (step.failures.value, step.lock)).collect();
        standing::Lockout::new(steps, self.lapse)
    }
}
