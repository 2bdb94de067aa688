//! Reset: a client begins anew under the limits that count it alone.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use threshold_core::{Clock, Key, Ledger, Store, StoreError, Subject};

use super::overrides::Overrides;
use super::rules::{Frame, Rule};
use super::subject::{Asker, gate};
use super::{Engine, Extras, State};
use crate::identify::{Doubts, Identity, UserKind};
use crate::policy::Per;
use crate::route::Path;

/// Whose counters are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client<'a> {
    /// Whoever asks from an address and is no user.
    Address(IpAddr),
    /// A user, within its tenant where there is one, whether it proved its name or not.
    User(Option<&'a str>, &'a str),
    /// A tenant as a whole.
    Tenant(&'a str),
    /// An account, in its [one spelling](crate::identify::fold_account).
    Account(&'a str),
}

/// Which limits are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint<'a> {
    /// All of them.
    Every,
    /// The one of that id.
    Limit(&'a str),
    /// Those for requests of a method to a path.
    Path(&'a str, &'a str),
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// Has `client` begin anew under those limits that count it and nobody else, and says which those are. What several
    /// share, such as the limit of its tenant, goes on as it is, and so do attempts to log in.
    ///
    /// # Errors
    ///
    /// If the store could not be told. The edge's limits, which are this process's own, have begun anew then.
    pub async fn reset_counters(
        &self,
        client: Client<'_>,
        endpoint: Endpoint<'_>,
    ) -> Result<Vec<&'static str>, StoreError> {
        let counters = self.counters(client, endpoint);
        self.edge.reset_now(&counters.edge);
        if !counters.inner.is_empty() {
            self.store.reset(&counters.inner).await?;
        }
        Ok(counters.limits)
    }

    /// What counts `client` under those limits.
    pub(super) fn counters(&self, client: Client<'_>, endpoint: Endpoint<'_>) -> Counters {
        let state = self.state.load_full();
        let mut counters = Counters::default();
        for (rule, frame, overrides) in all(&state) {
            if !is_meant(rule, frame, endpoint) {
                continue;
            }
            let keys = keys(rule, frame, overrides, client, self);
            let told = [
                (!keys.is_empty(), &mut counters.limits),
                (counts_with_others(rule, client, keys.is_empty()), &mut counters.shared),
            ];
            for (_, names) in told.into_iter().filter(|(is_one, _)| *is_one) {
                if !names.contains(&rule.name) {
                    names.push(rule.name);
                }
            }
            if rule.at_edge() { &mut counters.edge } else { &mut counters.inner }.extend(keys);
        }
        counters
    }
}

/// What counts somebody.
#[derive(Default)]
pub(super) struct Counters {
    /// The limits that count it and nobody else, and those that count it only together with something else.
    pub(super) limits: Vec<&'static str>,
    pub(super) shared: Vec<&'static str>,
    /// What it has under the former, in this process and in the store.
    pub(super) edge: Vec<Key>,
    pub(super) inner: Vec<Key>,
}

/// Every limit in force, with what it is read by.
fn all(state: &State) -> impl Iterator<Item = (&Rule, &Frame, &Overrides)> {
    let current = state.rules.limits().map(|rule| (rule, &*state.rules.frame, &state.overrides));
    let retiring = state.rules.retiring.iter().zip(&state.retiring);
    current.chain(retiring.map(|(retiring, overrides)| (&retiring.rule, &*retiring.frame, overrides)))
}

fn is_meant(rule: &Rule, frame: &Frame, endpoint: Endpoint<'_>) -> bool {
    match endpoint {
        Endpoint::Every => true,
        Endpoint::Limit(id) => rule.id.as_str() == id,
        Endpoint::Path(method, path) => {
            Path::read(path).is_ok_and(|path| rule.routes.matches(&frame.routes.matches(method, None, &path)))
        }
    }
}

/// What of a client a limit counts by, if it counts nobody else with it.
const fn counted_by(client: Client<'_>) -> (&'static [Per], &'static [Per]) {
    match client {
        // Who is no user and has no tenant is counted by its address there.
        Client::Address(_) => (&[Per::Ip, Per::User, Per::Tenant], &[]),
        Client::User(..) => (&[Per::User], &[Per::Tenant]),
        Client::Tenant(_) => (&[Per::Tenant], &[]),
        Client::Account(_) => (&[Per::Account], &[]),
    }
}

/// True if a limit counts a client together with something else, so that not all it counts can be found: `nothing` of it,
/// or what an address has without a user or a tenant.
fn counts_with_others(rule: &Rule, client: Client<'_>, nothing: bool) -> bool {
    let has_part = rule.per.iter().any(|per| counted_by(client).0.contains(per));
    has_part && (nothing || (rule.per.len() > 1 && matches!(client, Client::Address(_))))
}

fn keys<S: Store, C: Clock, L: Ledger>(
    rule: &Rule,
    frame: &Frame,
    overrides: &Overrides,
    client: Client<'_>,
    engine: &Engine<S, C, L>,
) -> Vec<Key> {
    let (itself, beside) = counted_by(client);
    let known = |per: &Per| itself.contains(per) || beside.contains(per);
    if !rule.per.iter().all(known) || !rule.per.iter().any(|per| itself.contains(per)) {
        return Vec::new();
    }
    let mut keys = Vec::new();
    for kind in [UserKind::Proxy, UserKind::ApiKey] {
        let identity = identity(client, kind);
        let account = if let Client::Account(account) = client { Some(account) } else { None };
        let asker = Asker::new(frame, &identity, &Extras { account, ..Extras::default() });
        let Some(subject) = asker.subject(&rule.per) else { continue };
        let ids = asker.ids(&engine.subject_keys);
        let own = rule.numbers.all().map(|sized| &sized.keys);
        let makers = own.chain(overrides.keys_of(rule, &ids)).flat_map(|keys| keys.all());
        keys.extend(makers.map(|maker| maker.key_of(&subject)));
        keys.extend(gates(rule, &subject));
    }
    keys.sort_unstable_by_key(Key::halves);
    keys.dedup();
    keys
}

fn gates(rule: &Rule, subject: &Subject) -> Vec<Key> {
    let makers = rule.block.iter().flat_map(|block| block.keys.all());
    makers.map(|maker| maker.key_of(&gate(subject))).collect()
}

/// Somebody who asks and is nobody but `client`.
fn identity(client: Client<'_>, kind: UserKind) -> Identity<'_> {
    let (address, tenant, user) = match client {
        Client::Address(address) => (address, None, None),
        Client::User(tenant, user) => (Ipv4Addr::UNSPECIFIED.into(), tenant, Some(user)),
        Client::Tenant(tenant) => (Ipv4Addr::UNSPECIFIED.into(), Some(tenant), None),
        Client::Account(_) => (Ipv4Addr::UNSPECIFIED.into(), None, None),
    };
    Identity {
        client: address,
        tenant: tenant.map(Cow::Borrowed),
        tenant_verified: true,
        tier: None,
        user: user.map(Cow::Borrowed),
        user_kind: user.map(|_| kind),
        doubts: Doubts::new(),
    }
}
