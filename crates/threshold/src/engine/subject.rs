//! Whom a limit counts by: the parts that name a subject in a key.

use std::net::IpAddr;

use smallvec::SmallVec;
use threshold_core::ledger::Naming;
use threshold_core::{Secret, Step, Subject, SubjectId, SubjectKey, SubjectKind};

use super::rules::{DescriptorRule, Frame, Secrets};
use super::{Extras, Message};
use crate::identify::{AddressKey, Identity, address_key};
use crate::policy::{EntryValue, Per};

/// Who is asking, as far as it is believed.
pub(crate) struct Asker<'a> {
    client: IpAddr,
    address: AddressKey,
    tenant: Option<&'a str>,
    /// The tenant's tier, by its index.
    pub(crate) tier: Option<usize>,
    user: Option<&'a str>,
    /// False if anybody could have written the user's name: then it never meets a user who proved it.
    proven: bool,
    account: Option<&'a str>,
    /// The message that is asked about, its type only if it is known.
    message: Option<Message<'a>>,
    /// What the caller names instead of all that.
    key: Option<&'a str>,
    /// The descriptor that is asked about instead of all that.
    descriptor: Option<Described<'a>>,
}

/// A descriptor: its domain and entries, and the limit that is for it.
#[derive(Clone, Copy)]
struct Described<'a> {
    domain: &'a str,
    entries: &'a [(&'a str, &'a str)],
    rule: Option<&'a DescriptorRule>,
}

/// What a part is. It is inside every key: a number, once given, stays.
#[derive(Clone, Copy)]
enum Mark {
    /// It goes on with what the one before began.
    None = 0,
    Ip = 1,
    Tenant = 2,
    UnknownTenant = 3,
    User = 4,
    NamedUser = 5,
    Anonymous = 6,
    Account = 7,
    Everyone = 8,
    Gate = 9,
    Device = 10,
    Login = 11,
    Type = 12,
    OtherType = 13,
    Connection = 14,
    Room = 15,
    NoRoom = 16,
    Key = 17,
    Adhoc = 18,
    Receipt = 19,
    Domain = 20,
    Entry = 21,
    Pattern = 22,
}

/// Names subjects as ledgers know them: by a kind and a keyed hash.
#[derive(Clone)]
pub struct Subjects {
    key: SubjectKey,
    ipv6_prefix: u8,
}

impl Subjects {
    /// Names subjects under `secret`, where `ipv6_prefix` bits of an IPv6 address count.
    #[must_use]
    pub fn new(secret: &Secret, ipv6_prefix: u8) -> Self {
        Self { key: secret.subject_key(), ipv6_prefix }
    }

    /// The network of an address.
    #[must_use]
    pub fn address(&self, address: IpAddr) -> SubjectId {
        let address = address_key(address, self.ipv6_prefix);
        self.id(SubjectKind::Address, &[(Mark::Ip, address.as_bytes())])
    }

    /// A user who proved who it is, within its tenant where there is one.
    #[must_use]
    pub fn user(&self, tenant: Option<&str>, user: &str) -> SubjectId {
        let tenant = tenant.unwrap_or_default().as_bytes();
        self.id(SubjectKind::User, &[(Mark::User, tenant), (Mark::None, user.as_bytes())])
    }

    /// A user whose name anybody could have written.
    #[must_use]
    pub fn named_user(&self, tenant: Option<&str>, user: &str) -> SubjectId {
        let tenant = tenant.unwrap_or_default().as_bytes();
        self.id(SubjectKind::NamedUser, &[(Mark::NamedUser, tenant), (Mark::None, user.as_bytes())])
    }

    /// A tenant.
    #[must_use]
    pub fn tenant(&self, tenant: &str) -> SubjectId {
        self.id(SubjectKind::Tenant, &[(Mark::Tenant, tenant.as_bytes())])
    }

    /// A key that a caller names, whatever limit it is charged by.
    #[must_use]
    pub fn key(&self, key: &str) -> SubjectId {
        key_id(&self.key, key)
    }

    /// An account, in its [one spelling](crate::identify::fold_account).
    #[must_use]
    pub fn account(&self, folded: &str) -> SubjectId {
        self.id(SubjectKind::Account, &[(Mark::Account, folded.as_bytes())])
    }

    /// A device, by the token it was given.
    #[must_use]
    pub fn device(&self, token: &str) -> SubjectId {
        self.id(SubjectKind::Device, &[(Mark::Device, token.as_bytes())])
    }

    /// An account together with where a login to it comes from.
    #[must_use]
    pub fn source(&self, folded: &str, from: Origin<'_>) -> SubjectId {
        self.key.id(SubjectKind::Source, &login_subject(Some(folded), Some(from), self.ipv6_prefix))
    }

    fn id(&self, kind: SubjectKind, parts: &[(Mark, &[u8])]) -> SubjectId {
        self.key.id(kind, &named(parts))
    }
}

fn named(parts: &[(Mark, &[u8])]) -> Subject {
    let mut name = Subject::default();
    parts.iter().for_each(|(mark, part)| name.push_marked(*mark as u8, part));
    name
}

/// An account, a source of logins, or both together.
fn login_subject(account: Option<&str>, from: Option<Origin<'_>>, ipv6_prefix: u8) -> Subject {
    let mut name = named(&[(Mark::Login, &[])]);
    if let Some(account) = account {
        name.push_marked(Mark::Account as u8, account.as_bytes());
    }
    match from {
        Some(Origin::Address(client)) => {
            name.push_marked(Mark::Ip as u8, address_key(client, ipv6_prefix).as_bytes());
        }
        Some(Origin::Device(token)) => name.push_marked(Mark::Device as u8, token.as_bytes()),
        None => {}
    }
    name
}

/// Where a login comes from.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// An address.
    Address(IpAddr),
    /// A known device, by its token.
    Device(&'a str),
}

/// The makers of ids under the secret of now and under the one before.
#[derive(Clone)]
pub(crate) struct SubjectKeys {
    current: SubjectKey,
    previous: Option<SubjectKey>,
}

impl SubjectKeys {
    pub(crate) fn new(secrets: &Secrets) -> Self {
        let previous = secrets.previous.as_ref().map(Secret::subject_key);
        Self { current: secrets.current.subject_key(), previous }
    }

    #[inline]
    pub(crate) fn all(&self) -> impl Iterator<Item = &SubjectKey> {
        std::iter::once(&self.current).chain(&self.previous)
    }

    /// The maker under the secret before.
    pub(crate) const fn previous(&self) -> Option<&SubjectKey> {
        self.previous.as_ref()
    }

    /// The maker under the secret of now.
    #[inline]
    pub(crate) const fn current(&self) -> &SubjectKey {
        &self.current
    }

    pub(crate) fn current_subjects(&self, ipv6_prefix: u8) -> Subjects {
        Subjects { key: self.current.clone(), ipv6_prefix }
    }

    /// A number that nobody can foretell, from what goes in.
    pub(crate) fn draw(&self, subject: &SubjectId, salt: u64) -> u64 {
        let [low, high] = subject.halves();
        let parts = [low, high, salt].map(u64::to_le_bytes);
        let name = Subject::new(&[&parts[0][..], &parts[1][..], &parts[2][..]][..]);
        self.current.id(subject.kind(), &name).halves()[0]
    }

    pub(crate) fn subjects(&self, ipv6_prefix: u8) -> impl Iterator<Item = Subjects> {
        self.all().cloned().map(move |key| Subjects { key, ipv6_prefix })
    }
}

impl<'a> Asker<'a> {
    /// Keeps of `identity` what is believed: a tenant that only the request itself names must be one that the policy
    /// knows, or everybody could choose a fresh one.
    pub(crate) fn new(frame: &Frame, identity: &'a Identity<'_>, extras: &Extras<'a>) -> Self {
        let known = identity.tenant.as_deref().and_then(|tenant| frame.tenants.get(tenant)).copied();
        let believed = known.is_some() || identity.tenant_verified;
        Self {
            client: identity.client.to_canonical(),
            address: address_key(identity.client, frame.ipv6_prefix),
            tenant: identity.tenant.as_deref().filter(|_| believed),
            tier: known.or_else(|| frame.tier(identity.tier.as_deref()?)).or(frame.unknown_tier),
            user: identity.user.as_deref(),
            proven: identity.user_kind.is_none_or(|kind| kind.verified()),
            account: extras.account,
            message: extras.message.map(|message| Message {
                kind: message.kind.filter(|kind| frame.message_types.contains(kind)),
                ..message
            }),
            key: None,
            descriptor: None,
        }
    }

    /// Somebody whom the caller names by `key`, whatever a limit counts by, with the numbers of a tier.
    pub(crate) fn named(&mut self, key: &'a str, tier: Option<usize>) {
        (self.key, self.tier) = (Some(key), tier);
    }

    /// A descriptor, whatever a limit counts by; `rule` says which of its values count together.
    pub(crate) fn described(
        &mut self,
        domain: &'a str,
        entries: &'a [(&'a str, &'a str)],
        rule: Option<&'a DescriptorRule>,
    ) {
        self.descriptor = Some(Described { domain, entries, rule });
    }

    /// The message that is asked about.
    pub(crate) const fn message(&self) -> Option<&Message<'a>> {
        self.message.as_ref()
    }

    /// The subject that `per` describes; none if the request has no such subject.
    pub(crate) fn subject(&self, per: &[Per]) -> Option<Subject> {
        let mut subject = Subject::default();
        self.write(per, &self.address, &mut subject).then_some(subject)
    }

    /// The same with the larger network of `address`, which is a subject of its own.
    pub(crate) fn subject_at(&self, per: &[Per], address: &AddressKey) -> Option<Subject> {
        let mut subject = Subject::default();
        self.write(per, address, &mut subject).then_some(subject)
    }

    /// [`subject`](Self::subject) in the place of another; false if there is none.
    #[inline]
    pub(crate) fn replace(&self, per: &[Per], subject: &mut Subject) -> bool {
        subject.clear();
        self.write(per, &self.address, subject)
    }

    /// Each kind has a mark of its own, so that no two kinds ever read the same.
    fn write(&self, per: &[Per], address: &AddressKey, subject: &mut Subject) -> bool {
        if let Some(Described { domain, entries, rule }) = self.descriptor {
            descriptor(domain, entries, rule, subject);
            return true;
        }
        if let Some(key) = self.key {
            subject.push_marked(Mark::Key as u8, key.as_bytes());
            return true;
        }
        for per in per {
            let (mark, part) = match (per, self.tenant, self.user) {
                (Per::Ip, ..) => (Mark::Ip, address.as_bytes()),
                (Per::Tenant, Some(tenant), _) => (Mark::Tenant, tenant.as_bytes()),
                (Per::Tenant, None, _) => (Mark::UnknownTenant, address.as_bytes()),
                (Per::User, tenant, Some(user)) => {
                    let mark = if self.proven { Mark::User } else { Mark::NamedUser };
                    subject.push_marked(mark as u8, tenant.unwrap_or_default().as_bytes());
                    (Mark::None, user.as_bytes())
                }
                (Per::User, _, None) => (Mark::Anonymous, address.as_bytes()),
                (Per::Account, ..) => match self.account {
                    Some(account) => (Mark::Account, account.as_bytes()),
                    None => return false,
                },
                (Per::Everyone, ..) => (Mark::Everyone, &[][..]),
                (Per::Type | Per::Connection | Per::Room, ..) => match &self.message {
                    Some(message) => {
                        message.write(*per, subject);
                        continue;
                    }
                    None => return false,
                },
            };
            subject.push_marked(mark as u8, part);
        }
        true
    }

    /// The network it asks from, as ledgers know it.
    pub(crate) fn address_id(&self, key: &SubjectKey) -> SubjectId {
        self.naming_address(key).id(SubjectKind::Address)
    }

    /// The network it asks from, to be named.
    #[inline(always)]
    pub(crate) fn naming_address(&self, key: &SubjectKey) -> Naming {
        let bytes = self.address.as_bytes();
        // The commonest length is known here, and need not be looked at again.
        match <&[u8; 4]>::try_from(bytes) {
            Ok(four) => key.begin().with(Mark::Ip as u8, four),
            Err(_) => key.begin().with(Mark::Ip as u8, bytes),
        }
    }

    /// The user that it has proven to be, as ledgers know it.
    pub(crate) fn user_id(&self, key: &SubjectKey) -> Option<SubjectId> {
        Some(self.naming_user(key)?.id(SubjectKind::User))
    }

    /// The user that it has proven to be, to be named.
    #[inline(always)]
    pub(crate) fn naming_user(&self, key: &SubjectKey) -> Option<Naming> {
        let user = self.user.filter(|_| self.proven)?;
        let naming = key.begin().with(Mark::User as u8, self.tenant.unwrap_or_default().as_bytes());
        Some(naming.with(Mark::None as u8, user.as_bytes()))
    }

    /// Everybody that it is, as overrides name them.
    #[cold]
    pub(crate) fn ids(&self, keys: &SubjectKeys) -> SmallVec<[SubjectId; 4]> {
        let mut ids = SmallVec::new();
        for per in [Per::Ip, Per::User, Per::Tenant, Per::Account] {
            let kind = match (per, self.user, self.tenant) {
                (Per::Ip, ..) => SubjectKind::Address,
                (Per::User, Some(_), _) if self.proven => SubjectKind::User,
                (Per::User, Some(_), _) => SubjectKind::NamedUser,
                (Per::Tenant, _, Some(_)) => SubjectKind::Tenant,
                (Per::Account, ..) if self.account.is_some() => SubjectKind::Account,
                _ => continue,
            };
            if let Some(name) = self.subject(&[per]) {
                ids.extend(keys.all().map(|key| key.id(kind, &name)));
            }
        }
        ids
    }

    /// The tenant that the request names, believed or not.
    pub(crate) fn believe(&mut self, tenant: &'a str, tier: Option<usize>) {
        (self.tenant, self.tier) = (Some(tenant), tier.or(self.tier));
    }

    /// The user's name, and whether it was proven.
    pub(crate) const fn user(&self) -> Option<(&'a str, bool)> {
        match self.user {
            Some(user) => Some((user, self.proven)),
            None => None,
        }
    }

    /// The tenant that it belongs to.
    pub(crate) const fn tenant(&self) -> Option<&'a str> {
        self.tenant
    }

    /// The client's address.
    pub(crate) const fn client(&self) -> IpAddr {
        self.client
    }

    /// The larger network of `prefix` bits that the client is in; none for IPv4.
    pub(crate) fn network(&self, prefix: u8) -> Option<AddressKey> {
        self.client.is_ipv6().then(|| address_key(self.client, prefix))
    }
}

impl Message<'_> {
    /// Writes what of it a limit counts by.
    fn write(&self, per: Per, subject: &mut Subject) {
        let connection = self.connection.to_le_bytes();
        let (mark, part) = match (per, self.kind, self.room) {
            (Per::Connection, ..) => (Mark::Connection, &connection[..]),
            (Per::Room, _, Some(room)) => (Mark::Room, room.as_bytes()),
            (Per::Room, _, None) => (Mark::NoRoom, &[][..]),
            (_, Some(kind), _) => (Mark::Type, kind.as_bytes()),
            (_, None, _) => (Mark::OtherType, &[][..]),
        };
        subject.push_marked(mark as u8, part);
    }
}

/// Writes a descriptor: its domain, then each key and value, or the pattern of those that count together.
pub(crate) fn descriptor(
    domain: &str,
    entries: &[(&str, &str)],
    rule: Option<&DescriptorRule>,
    subject: &mut Subject,
) {
    // First of all: what is of one domain is kept in one place.
    subject.push_marked(Mark::Domain as u8, domain.as_bytes());
    for (place, (key, value)) in entries.iter().enumerate() {
        subject.push_marked(Mark::Entry as u8, key.as_bytes());
        let shared = rule.filter(|rule| rule.shared.get(place) == Some(&true));
        match shared.and_then(|rule| rule.entries.get(place)).map(|entry| &entry.value) {
            Some(EntryValue::Pattern(pattern)) => {
                subject.push_marked(Mark::Pattern as u8, pattern.to_string().as_bytes());
            }
            Some(_) => subject.push_marked(Mark::Pattern as u8, &[]),
            None => subject.push_marked(Mark::None as u8, value.as_bytes()),
        }
    }
}

/// Names whom a request is about, as ledgers know them, from the bytes of their names.
pub(crate) struct Names<'a>(pub(crate) &'a SubjectKey);

impl Names<'_> {
    pub(crate) fn address(&self, address: &[u8]) -> SubjectId {
        self.0.begin().with(Mark::Ip as u8, address).id(SubjectKind::Address)
    }

    pub(crate) fn tenant(&self, tenant: &[u8]) -> SubjectId {
        self.0.begin().with(Mark::Tenant as u8, tenant).id(SubjectKind::Tenant)
    }

    /// A user who proved who it is; an empty tenant is none.
    pub(crate) fn user(&self, tenant: &[u8], user: &[u8]) -> SubjectId {
        self.0.begin().with(Mark::User as u8, tenant).with(Mark::None as u8, user).id(SubjectKind::User)
    }
}

/// Whom a caller names by `name`, as it is counted.
pub(crate) fn key_id(key: &SubjectKey, name: &str) -> SubjectId {
    key.begin().with(Mark::Key as u8, name.as_bytes()).id(SubjectKind::Key)
}

/// A descriptor, as it is counted: all that count together are one.
pub(crate) fn descriptor_id(
    key: &SubjectKey,
    domain: &str,
    entries: &[(&str, &str)],
    rule: Option<&DescriptorRule>,
) -> SubjectId {
    let mut subject = Subject::default();
    descriptor(domain, entries, rule, &mut subject);
    key.id(SubjectKind::Key, &subject)
}

/// Whom a caller names by `key` under a rate of its own.
pub(crate) fn adhoc(key: &[u8]) -> Subject {
    named(&[(Mark::Adhoc, key)])
}

/// What proves that something was charged to the key of `step`: `charged` says when, how much, and as which charge.
pub(crate) fn seal(key: &SubjectKey, step: &Step, charged: [u64; 3]) -> [u64; 2] {
    let [low, high] = step.key.halves();
    let [at, cost, number] = charged;
    let parts = [low, high, at, cost, number].map(u64::to_le_bytes);
    let mut name = named(&[(Mark::Receipt, &[])]);
    parts.iter().for_each(|part| name.push_marked(Mark::None as u8, part));
    key.id(SubjectKind::Device, &name).halves()
}

/// The gate that keeps a subject out: not the subject itself, even where algorithm and period are the limit's own.
pub(crate) fn gate(subject: &Subject) -> Subject {
    let mut gate = subject.clone();
    gate.push_marked(Mark::Gate as u8, &[]);
    gate
}
