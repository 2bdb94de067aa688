//! What several commands are told.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use threshold::SubjectId;
use threshold::engine::Client;

use super::values::{self, User};

/// Where the ledger is.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The folder of the ledger and its secret [default: ./threshold-data, or THRESHOLD_DATA_DIR].
    #[arg(long, value_name = "DIR", help_heading = "Where the ledger is")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The ledger, instead of the one in the folder [default: THRESHOLD_LEDGER].
    #[arg(long, value_name = "URL", help_heading = "Where the ledger is")]
    pub(crate) ledger: Option<String>,
    /// The store, where its ledger is in the same database [default: THRESHOLD_STORE].
    #[arg(long, value_name = "URL", help_heading = "Where the ledger is")]
    pub(crate) store: Option<String>,
    /// A policy: for its folder, ledger, secret, IPv6 prefix and limits.
    #[arg(long, value_name = "FILE", help_heading = "Where the ledger is")]
    pub(crate) config: Option<PathBuf>,
}

/// How a list is asked for.
#[derive(Debug, Args)]
pub(crate) struct Listing {
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// How a change is asked for.
#[derive(Debug, Args)]
pub(crate) struct Acting {
    /// Who does this [default: THRESHOLD_OPERATOR, or who is logged in].
    #[arg(long, value_name = "NAME", value_parser = values::operator)]
    pub(crate) by: Option<String>,
    /// Print one JSON document instead of a line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// A server that is asked instead of its ledger.
#[derive(Debug, Args)]
pub(crate) struct Served {
    /// The admin listener of a running server, such as http://127.0.0.1:8083, to work on that instead of a ledger.
    #[arg(long, value_name = "URL", help_heading = "On a running server")]
    pub(crate) admin: Option<String>,
    /// A file with the token for it [default: the token in THRESHOLD_ADMIN_TOKEN].
    #[arg(long, value_name = "FILE", requires = "admin", help_heading = "On a running server")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Whom a ban is for.
#[derive(Debug, Args)]
#[group(id = "whom", multiple = false)]
pub(crate) struct Banned {
    /// The network of an address.
    #[arg(long, value_name = "IP", value_parser = values::address)]
    address: Option<IpAddr>,
    /// A user who proved who it is, within its tenant.
    #[arg(long, value_name = "[TENANT/]NAME", value_parser = values::user)]
    user: Option<User>,
    /// A subject as it is listed.
    #[arg(long, value_name = "ID", value_parser = sanctionable)]
    subject: Option<SubjectId>,
}

/// Somebody, as people name them.
#[derive(Clone, Debug)]
pub(crate) enum Whom {
    Address(IpAddr),
    User(User),
    Tenant(String),
    /// In its one spelling.
    Account(String),
    Subject(SubjectId),
}

/// What a name is that does not say so itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    /// An address, if it is one, or a user.
    Client,
    Tenant,
    Account,
}

impl Whom {
    /// Whom `text` means: a subject as it is listed, `address:`, `user:`, `tenant:` or `account:` and a name, or a name.
    pub(crate) fn read(text: &str, plain: Plain) -> Result<Self, String> {
        if let Ok(subject) = text.parse::<SubjectId>() {
            return Ok(Self::Subject(subject));
        }
        match text.split_once(':') {
            Some(("address", name)) => values::address(name).map(Self::Address),
            Some(("user", name)) => values::user(name).map(Self::User),
            Some(("tenant", name)) => values::name(name).map(Self::Tenant),
            Some(("account", name)) => values::account(name).map(Self::Account),
            _ => match (plain, text.trim().parse()) {
                (Plain::Client, Ok(address)) => Ok(Self::Address(address)),
                (Plain::Client, Err(_)) if values::is_nearly_an_address(text) => Err(format!(
                    "{text:?} is no address; write one such as 203.0.113.7 or 2001:db8::1, without port or prefix, or \
                     \"user:{text}\" if that is what a user is called"
                )),
                (Plain::Client, Err(_)) => values::user(text).map(Self::User),
                (Plain::Tenant, _) => values::name(text).map(Self::Tenant),
                (Plain::Account, _) => values::account(text).map(Self::Account),
            },
        }
    }

    /// Who that is as the engine counts it; none if only its hash is known.
    pub(crate) fn client(&self) -> Option<Client<'_>> {
        match self {
            Self::Address(address) => Some(Client::Address(*address)),
            Self::User(user) => Some(Client::User(user.tenant.as_deref(), &user.name)),
            Self::Tenant(tenant) => Some(Client::Tenant(tenant)),
            Self::Account(account) => Some(Client::Account(account)),
            Self::Subject(_) => None,
        }
    }

    /// What it may be called where people write what they like.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::Address(address) => vec![address.to_canonical().to_string()],
            Self::User(User { tenant: Some(tenant), name }) => vec![format!("{tenant}/{name}"), name.clone()],
            Self::User(User { tenant: None, name }) => vec![name.clone()],
            Self::Tenant(name) | Self::Account(name) => vec![name.clone()],
            Self::Subject(_) => Vec::new(),
        }
    }
}

impl Banned {
    pub(crate) fn whom(&self) -> Option<Whom> {
        let address = self.address.map(Whom::Address);
        address.or_else(|| self.user.clone().map(Whom::User)).or(self.subject.map(Whom::Subject))
    }
}

fn sanctionable(text: &str) -> Result<SubjectId, String> {
    let subject: SubjectId = text.parse().map_err(|error| format!("{error}"))?;
    match subject.can_be_sanctioned() {
        true => Ok(subject),
        false => Err("only addresses and users can be kept out; give one that begins with address: or user:"
            .to_owned()),
    }
}

/// What all commands on a ledger end with, as a literal so that their helps can be put together.
macro_rules! closing {
    () => {
        "
Where the ledger is: a flag beats the environment, which beats the policy. --ledger (or THRESHOLD_LEDGER, or
[store].ledger) names it: sqlite://PATH, postgres://..., redis://.... Without it, it is in the store's database if that is
Postgres (--store, or THRESHOLD_STORE, or [store].url), else ledger.sqlite in --data-dir (or THRESHOLD_DATA_DIR, or
[server].data_dir, or ./threshold-data). What it knows subjects by depends on its secret: [store].secret of the
policy, or THRESHOLD_SECRET, or the file `secret` in the folder.

With --admin a running server is asked instead, by a token for its admin API; changes are made in the token's name.

Exit codes:
  0  done
  1  nothing changed
  2  the command was not understood, or something could not be read or written
"
    };
}

pub(super) use closing;
