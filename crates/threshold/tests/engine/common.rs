//! A service behind a policy, and clients that ask it.

use std::net::IpAddr;

use threshold::engine::{Decision, Engine, Extras, Override, Reason, Rules, Secrets};
use threshold::event::Event;
use threshold::identify::Facts;
use threshold::policy::Policy;
use threshold::{ManualClock, MemoryStore, Secret, Span, Timestamp};

/// A service on a clock that is set by hand.
pub(crate) struct Service {
    pub(crate) engine: Engine<MemoryStore<ManualClock>, ManualClock>,
    pub(crate) clock: ManualClock,
}

/// A request in the making. By default `GET /` by nobody from 192.0.2.1, through a trusted proxy.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) peer: IpAddr,
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) bytes: Option<u64>,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) account: Option<&'static str>,
}

/// What most of these policies begin with: the proxy at 127.0.0.1 names the client, the tenant and the user.
pub(crate) const IDENTITY: &str = r#"
[identity]
trusted_proxies = ["127.0.0.1"]
client_ip = "x-forwarded-for"
tenant = { header = "x-tenant" }
user = { header = "x-user" }
"#;

pub(crate) fn secrets() -> Secrets {
    Secrets::new(Secret::new([5; 16]))
}

pub(crate) fn rules(policy: &str) -> Rules {
    rules_with(policy, &secrets())
}

pub(crate) fn rules_with(policy: &str, secrets: &Secrets) -> Rules {
    let policy = Policy::read("test.toml", policy, &|_| None).unwrap_or_else(|error| panic!("{error}"));
    Rules::new(&policy, secrets, &|_| None).unwrap_or_else(|error| panic!("{error}"))
}

impl Service {
    pub(crate) fn new(policy: &str) -> Self {
        let clock = ManualClock::default();
        clock.set(Timestamp::from_micros(1_700_000_000_000_000));
        let store = || {
            MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone()).build().expect("a cap with room")
        };
        Self { engine: Engine::new(rules(policy), secrets(), store(), store()), clock }
    }

    /// The same service, telling what happens.
    pub(crate) fn telling(self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { engine: self.engine.telling(listener), ..self }
    }

    pub(crate) async fn ask(&self, ask: &Ask) -> Decision {
        let facts = ask.facts();
        let extras = Extras { account: ask.account, ..Extras::default() };
        self.engine.decide(&facts, extras).await.expect("memory answers")
    }

    pub(crate) async fn allows(&self, ask: &Ask) -> bool {
        self.ask(ask).await.allowed()
    }

    /// How many of `many` such requests are allowed at this instant.
    pub(crate) async fn drain(&self, ask: &Ask, many: usize) -> usize {
        let mut allowed = 0;
        for _ in 0..many {
            allowed += usize::from(self.allows(ask).await);
        }
        allowed
    }

    /// The limit that refuses such a request.
    pub(crate) async fn refused_by(&self, ask: &Ask) -> &'static str {
        let decision = self.ask(ask).await;
        match decision.refusal().map(|refusal| refusal.reason) {
            Some(Reason::Limit(by)) => by.limit,
            Some(_) => "path",
            None => "nobody",
        }
    }

    pub(crate) async fn set(&self, change: Override) {
        self.engine.set_override("ops", change).await.expect("it suits its limit");
    }

    pub(crate) async fn remove(&self, id: &str) -> bool {
        self.engine.remove_override("ops", id).await.expect("memory answers")
    }

    pub(crate) fn wait(&self, span: Span) {
        self.clock.advance(span);
    }
}

impl Ask {
    pub(crate) fn get(path: &str) -> Self {
        let headers = vec![("x-forwarded-for", "192.0.2.1".to_owned())];
        let peer = "127.0.0.1".parse().expect("an address");
        Self { peer, method: "GET", path: path.to_owned(), bytes: Some(0), headers, account: None }
    }

    pub(crate) fn post(path: &str) -> Self {
        Self { method: "POST", ..Self::get(path) }
    }

    pub(crate) fn by(self, user: &str) -> Self {
        self.with("x-user", user)
    }

    pub(crate) fn of(self, tenant: &str) -> Self {
        self.with("x-tenant", tenant)
    }

    pub(crate) fn from(self, address: &str) -> Self {
        self.with("x-forwarded-for", address)
    }

    pub(crate) fn bytes(self, bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..self }
    }

    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts {
            peer: self.peer,
            method: self.method,
            host: Some("acme.example.com"),
            path: &self.path,
            bytes: self.bytes,
            headers: &self.headers,
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// What a client sees, in one word.
pub(crate) fn seen(decision: &Decision) -> &'static str {
    match decision.refusal().map(|refusal| refusal.reason) {
        None if decision.warned() => "warned",
        None if !decision.delay().is_zero() => "slow",
        None => "allowed",
        Some(Reason::Limit(_)) => "limited",
        Some(Reason::Cooldown { .. }) => "cooldown",
        Some(Reason::Banned { .. }) => "banned",
        Some(_) => "other",
    }
}

/// A policy with the one limit "one", of users.
pub(crate) fn limited(rest: &str) -> String {
    format!("{IDENTITY}\n[[limit]]\nid = \"one\"\nlayer = \"user\"\n{rest}\n")
}

/// The override "o" of `limit` for everyone.
pub(crate) fn override_all(limit: &str, rate: &str) -> Override {
    Override {
        id: "o".to_owned(),
        limit: limit.to_owned(),
        subject: None,
        rate: rate.parse().expect("a rate"),
        burst_allowance: 0,
        enabled: true,
        priority: 0,
        expires: None,
    }
}

/// The same service with a new secret, the old one being the previous.
pub(crate) fn rotate(service: &Service, policy: &str) -> Service {
    let rotated = Secrets { current: Secret::new([6; 16]), previous: Some(secrets().current) };
    let store = service.engine.store().clone();
    let engine = Engine::new(rules_with(policy, &rotated), rotated, store.clone(), store);
    Service { engine, clock: service.clock.clone() }
}
