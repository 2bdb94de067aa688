//! Where records are read and changes go.
//!
//! Commands know nothing but this: who is meant, what is written down, and what is to be changed. Today that is a ledger
//! which is opened here; whatever else answers these questions can be put in its place.

use threshold::engine::{Secrets, Subjects, redacted};
use threshold::ledger::{Audit, Change, Entry, Erased, Erasure, Query, Record, Written};
use threshold::{Clock, Ledger, SharedLedger, StoreError, SubjectId, SystemClock, Timestamp, open_ledger};

use crate::cli::Whom;
use crate::config::Settings;

/// How many bits of an IPv6 address count where no policy says so.
const IPV6_PREFIX: u8 = 64;

/// An open ledger.
pub(crate) struct Source {
    ledger: SharedLedger,
    /// The names under the secret of now.
    current: Subjects,
    /// The names under the one before, which still count.
    previous: Option<Subjects>,
    clock: SystemClock,
}

impl Source {
    /// Opens the ledger that `settings` name.
    pub(crate) async fn open(settings: &Settings) -> Result<Self, StoreError> {
        let Secrets { current, previous } = &settings.secrets;
        let ledger = open_ledger(&settings.ledger, (current, previous.as_ref())).await?;
        let prefix = settings.rules.as_ref().map_or(IPV6_PREFIX, |rules| rules.ipv6_prefix());
        Ok(Self {
            ledger,
            current: Subjects::new(current, prefix),
            previous: previous.as_ref().map(|secret| Subjects::new(secret, prefix)),
            clock: SystemClock::new(),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The subject that changes are made for.
    pub(crate) fn id(&self, whom: &Whom) -> SubjectId {
        id(&self.current, whom)
    }

    /// Every subject that `whom` is known as.
    pub(crate) fn ids(&self, whom: &Whom) -> Vec<SubjectId> {
        let mut ids = vec![self.id(whom)];
        ids.extend(self.previous.as_ref().map(|names| id(names, whom)));
        // One that was copied from a list is the same under every secret.
        ids.dedup();
        ids
    }

    /// All records of `query`, which is asked anew for every page with the number that the last ended with.
    pub(crate) async fn read(&self, query: impl Fn(u64) -> Query) -> Result<Vec<Record>, StoreError> {
        let (mut records, mut after) = (Vec::new(), Some(0));
        while let Some(number) = after {
            let page = self.ledger.read(&query(number)).await?;
            records.extend(page.records);
            after = page.next;
        }
        Ok(records)
    }

    /// Gives all records of `query` to `take`, a page at a time: for lists that need not fit into memory. It ends with the
    /// first that `take` refuses.
    pub(crate) async fn each(
        &self,
        query: impl Fn(u64) -> Query,
        mut take: impl FnMut(Record) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut after = Some(0);
        while let Some(number) = after {
            let page = self.ledger.read(&query(number)).await.map_err(|error| error.to_string())?;
            page.records.into_iter().try_for_each(&mut take)?;
            after = page.next;
        }
        Ok(())
    }

    /// Makes all of `changes` or none, and says of each whether something is different now.
    pub(crate) async fn change(
        &self,
        (by, at): (&str, Timestamp),
        changes: Vec<Change>,
    ) -> Result<Vec<bool>, StoreError> {
        let entry = |change| Entry::Operator { by: by.to_owned(), at, change };
        let entries: Vec<Entry> = changes.into_iter().map(entry).collect();
        let written = self.ledger.write(&entries).await?;
        Ok(written.into_iter().map(|written| written == Written::Changed(true)).collect())
    }

    /// Forgets somebody; says whom, and how much that was.
    pub(crate) async fn erase(
        &self,
        (by, at): (&str, Timestamp),
        (whom, keep_sanctions): (&Whom, bool),
    ) -> Result<(Vec<SubjectId>, Erased), StoreError> {
        let names = std::iter::once(&self.current).chain(&self.previous);
        let mut subjects: Vec<SubjectId> = names.flat_map(|names| all_ids(names, whom)).collect();
        subjects.dedup();
        let (names, audit) = (whom.names(), self.read(|after| Query::Audit { after }).await?);
        let named = audit.iter().filter_map(|record| match record {
            Record::Audit(audit) => redacted(audit, &names),
            _ => None,
        });
        let mut named: Vec<Audit> = named.collect();
        let erasure = |subject: &SubjectId| {
            let (subject, redacted) = (*subject, std::mem::take(&mut named));
            let change = Change::Erase(Erasure { subject, keep_sanctions, redacted });
            Entry::Operator { by: by.to_owned(), at, change }
        };
        let entries: Vec<Entry> = subjects.iter().map(erasure).collect();
        let mut all = Erased::default();
        for written in self.ledger.write(&entries).await? {
            if let Written::Erased(erased) = written {
                all = all.and(&erased);
            }
        }
        Ok((subjects, all))
    }

    /// Lets go of the ledger. What was acknowledged survives, however this ends.
    pub(crate) async fn close(self) {
        let _ = self.ledger.close().await;
    }
}

/// Everybody that `names` makes of somebody who is to be erased: whether a user proved its name or not, it is forgotten.
pub(crate) fn all_ids(names: &Subjects, whom: &Whom) -> Vec<SubjectId> {
    let mut ids = vec![id(names, whom)];
    if let Whom::User(user) = whom {
        ids.push(names.named_user(user.tenant.as_deref(), &user.name));
    }
    ids
}

/// The subject that `names` makes of somebody.
pub(crate) fn id(names: &Subjects, whom: &Whom) -> SubjectId {
    match whom {
        Whom::Address(address) => names.address(*address),
        Whom::User(user) => names.user(user.tenant.as_deref(), &user.name),
        Whom::Tenant(tenant) => names.tenant(tenant),
        Whom::Account(account) => names.account(account),
        Whom::Subject(subject) => *subject,
    }
}
