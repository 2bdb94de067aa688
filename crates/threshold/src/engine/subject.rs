//! Whom a limit counts by: the parts that name a subject in a key.

use std::net::IpAddr;

use threshold_core::Subject;

use super::rules::Frame;
use crate::identify::{AddressKey, Identity, address_key};
use crate::policy::Per;

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
}

impl<'a> Asker<'a> {
    /// Keeps of `identity` what is believed: a tenant that only the request itself names must be one that the policy
    /// knows, or everybody could choose a fresh one.
    pub(crate) fn new(frame: &Frame, identity: &'a Identity<'_>, account: Option<&'a str>) -> Self {
        let known = identity.tenant.as_deref().and_then(|tenant| frame.tenants.get(tenant)).copied();
        let believed = known.is_some() || identity.tenant_verified;
        Self {
            client: identity.client.to_canonical(),
            address: address_key(identity.client, frame.ipv6_prefix),
            tenant: identity.tenant.as_deref().filter(|_| believed),
            tier: known.or_else(|| frame.tier(identity.tier.as_deref()?)).or(frame.unknown_tier),
            user: identity.user.as_deref(),
            proven: identity.user_kind.is_none_or(|kind| kind.verified()),
            account,
        }
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
            };
            subject.push_marked(mark as u8, part);
        }
        true
    }

    /// The larger network of `prefix` bits that the client is in; none for IPv4.
    pub(crate) fn network(&self, prefix: u8) -> Option<AddressKey> {
        self.client.is_ipv6().then(|| address_key(self.client, prefix))
    }
}

/// The gate that keeps a subject out: not the subject itself, even where algorithm and period are the limit's own.
pub(crate) fn gate(subject: &Subject) -> Subject {
    let mut gate = subject.clone();
    gate.push_marked(Mark::Gate as u8, &[]);
    gate
}
