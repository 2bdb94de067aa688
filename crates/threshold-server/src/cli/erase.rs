//! `threshold erase`.

use clap::Args;

use super::common::{Acting, Plain, Served, Whom, closing};

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Erase {
    /// Who: an address, a user as [TENANT/]NAME, or a subject as it is listed; `address:`, `user:`, `tenant:` and
    /// `account:` before a name say what it is.
    #[arg(value_name = "SUBJECT", value_parser = whom)]
    pub(crate) subject: Whom,
    /// Leave sanctions that are in force until they end.
    #[arg(long)]
    pub(crate) keep_sanctions: bool,
    /// Do it without asking.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) acting: Acting,
    #[command(flatten)]
    pub(crate) served: Served,
}

fn whom(text: &str) -> Result<Whom, String> {
    Whom::read(text, Plain::Client)
}

const HELP: &str = concat!(
    "\
Forgets standing, strikes, sanctions, violations, overrides, a tenant's tier, failed logins and known devices of somebody.
THIS LIFTS BANS: who is erased begins anew. With --keep-sanctions what is in force stays so until it ends. Who is a user,
has an account and comes from an address is three subjects; erase each of them.

On a ledger that is all. With --admin a running server also forgets its counters, what it holds in memory, and its rows in
the archive; that needs a token of scope admin. Running servers notice what is done on their ledger within a second.

The audit log keeps who erased which hash and how much that was. Names in what operators wrote there are replaced.

The JSON document is what DELETE /api/admin/subjects/{subject} answers:
  { \"subjects\": [], \"ledger\": { \"standings\", \"sanctions\", \"violations\", ... }, \"limits\": [],
    \"archive\": { \"usageRows\", \"eventRows\", \"files\" } or null, \"left\": [ what is not erased, and why ], \"audited\" }
",
    closing!(),
    "
Examples:
  threshold erase 203.0.113.7 --admin http://127.0.0.1:8083
  threshold erase acme/alice --keep-sanctions
  threshold erase account:alice@example.com --yes --json
  threshold erase user:0123456789abcdef0123456789abcdef --yes --by bob"
);
