//! `threshold lockouts`.

use clap::{ArgGroup, Args, Subcommand};
use threshold::{SubjectId, SubjectKind};

use super::common::{Acting, Listing, Served, Whom, closing};
use super::values;

#[derive(Debug, Subcommand)]
pub(crate) enum Lockouts {
    /// Say who is locked out of which account, and until when.
    List(LockoutsList),
    /// Forget failed logins, and with them the lockout.
    Lift(LockoutsLift),
}

#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub(crate) struct LockoutsList {
    /// Only of this account, in any spelling.
    #[arg(long, value_name = "NAME", value_parser = values::account)]
    pub(crate) account: Option<String>,
    #[command(flatten)]
    pub(crate) listing: Listing,
    #[command(flatten)]
    pub(crate) served: Served,
}

#[derive(Debug, Args)]
#[command(after_help = LIFT_HELP, group(ArgGroup::new("needed").required(true).args(["account", "subject"])))]
pub(crate) struct LockoutsLift {
    /// An account, in any spelling: it is unlocked for everybody.
    #[arg(long, value_name = "NAME", value_parser = values::account)]
    account: Option<String>,
    /// An account or a source as it is listed; a source is where logins to one account come from.
    #[arg(long, value_name = "ID", value_parser = lockable)]
    subject: Option<SubjectId>,
    #[command(flatten)]
    pub(crate) acting: Acting,
    #[command(flatten)]
    pub(crate) served: Served,
}

impl LockoutsList {
    pub(crate) fn whom(&self) -> Option<Whom> {
        self.account.clone().map(Whom::Account)
    }
}

impl LockoutsLift {
    pub(crate) fn whom(&self) -> Option<Whom> {
        self.account.clone().map(Whom::Account).or(self.subject.map(Whom::Subject))
    }
}

fn lockable(text: &str) -> Result<SubjectId, String> {
    let subject: SubjectId = text.parse().map_err(|error| format!("{error}"))?;
    match subject.kind() {
        SubjectKind::Account | SubjectKind::Source => Ok(subject),
        _ => {
            Err("only accounts and sources are locked; give one that begins with account: or source:"
                .to_owned())
        }
    }
}

const LIST_HELP: &str = concat!(
    "\
An account is locked for the source that failed, an address or a device, and for nobody else. Both are listed as keyed
hashes: the ledger knows no names. To find an account, give its name.

The JSON document is a list, in the order in which they were locked:
  [{ \"account\", \"source\", \"failures\", \"lockedUntil\" }]
",
    closing!(),
    "
Examples:
  threshold lockouts list
  threshold lockouts list --account alice@example.com
  threshold lockouts list --json | jq length"
);

const LIFT_HELP: &str = concat!(
    "\
Failed logins that do not lock anybody yet are forgotten as well.

The JSON document says whose were forgotten:
  { \"changed\": true, \"subjects\": [ \"account:...\" ] }
",
    closing!(),
    "
Examples:
  threshold lockouts lift --account alice@example.com
  threshold lockouts lift --subject source:0123456789abcdef0123456789abcdef --by bob"
);
