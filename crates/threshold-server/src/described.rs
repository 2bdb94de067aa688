//! A request that somebody else has received, as programs describe it, whatever protocol they speak.

use std::borrow::Cow;
use std::net::IpAddr;

use threshold::identify::{Facts, Headers, Identity, MAX_ID_BYTES, UserKind, fold_account};

/// What is said of a request and of who sent it.
pub(crate) struct Described<'a> {
    pub(crate) ip: IpAddr,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) host: Option<&'a str>,
    pub(crate) tenant: Option<&'a str>,
    pub(crate) tier: Option<&'a str>,
    pub(crate) user: Option<&'a str>,
    pub(crate) bytes: u64,
}

impl<'a> Described<'a> {
    /// What it says of the request; what makes no sense is said with its remedy.
    pub(crate) fn facts(&self, headers: &'a dyn Headers) -> Result<Facts<'a>, String> {
        if self.method.is_empty() || !self.method.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("`method` is no method; write one such as \"GET\"".to_owned());
        }
        if !self.path.starts_with('/') {
            return Err("`path` must begin with a slash; write it as it was sent, with its query".to_owned());
        }
        for (name, id) in [("tenant", self.tenant), ("tier", self.tier), ("user", self.user)] {
            if id.is_some_and(|id| id.is_empty() || id.len() > MAX_ID_BYTES) {
                return Err(no_id(name));
            }
        }
        let Self { ip: peer, method, path, host, bytes, .. } = *self;
        Ok(Facts { peer, method, host, path, bytes: Some(bytes), headers })
    }

    /// Who it says the sender is, which counts for more than what the request itself says.
    pub(crate) fn identify(&self, mut found: Identity<'a>) -> Identity<'a> {
        if let Some(tenant) = self.tenant {
            (found.tenant, found.tenant_verified) = (Some(Cow::Borrowed(tenant)), true);
        }
        if let Some(tier) = self.tier {
            found.tier = Some(Cow::Borrowed(tier));
        }
        if let Some(user) = self.user {
            (found.user, found.user_kind) = (Some(Cow::Borrowed(user)), Some(UserKind::Proxy));
        }
        found
    }
}

/// The one spelling of an account.
pub(crate) fn spelled(account: &str) -> Result<String, String> {
    fold_account(account).ok_or_else(|| no_id("account"))
}

fn no_id(name: &str) -> String {
    format!("`{name}` must have 1 to {MAX_ID_BYTES} bytes; leave it out if there is none")
}
