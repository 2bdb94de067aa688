//! The world: a policy that changes, a clock that jumps, and a judge outside.

use std::collections::HashMap;

use threshold::engine::{Decision, Engine, Extras, Reason, Rules, Secrets};
use threshold::identify::Facts;
use threshold::policy::Policy;
use threshold_core::{Algorithm, AlgorithmKind, ManualClock, Secret, Span};
use threshold_store::MemoryStore;

use super::Dice;
use super::clients::{Client, Kind, Sent, everybody};
use crate::scan::{Admitted, excess};
use crate::strategies::start;

/// Two policies that differ in their numbers; the first is the looser in each.
const POLICIES: [&str; 2] = [include_str!("loose.toml"), include_str!("tight.toml")];

/// What each limit of the looser policy promises at most, to the judge: written down beside the policy, not asked of it.
const PROMISES: [(&str, AlgorithmKind, &str); 5] = [
    ("arrivals", AlgorithmKind::TokenBucket, "60/min"),
    ("tenant-requests", AlgorithmKind::TokenBucket, "40/min burst 20"),
    ("posts", AlgorithmKind::FixedWindow, "6/min"),
    ("ai", AlgorithmKind::SlidingLog, "4 per 10min"),
    ("all", AlgorithmKind::SlidingWindow, "50/min"),
];

type SimulatedEngine = Engine<MemoryStore<ManualClock>, ManualClock>;

/// One run from one seed.
pub struct World {
    dice: Dice,
    clock: ManualClock,
    engine: SimulatedEngine,
    clients: Vec<Client>,
    /// What was admitted, by limit and subject, as the clients saw it.
    seen: HashMap<(&'static str, String), Vec<Admitted>>,
    /// True if the clock also goes back.
    jumpy: bool,
    /// When the honest client sends again.
    honest_next: u64,
    /// Everything that happened, in one number.
    digest: u64,
}

/// Runs the world of `seed` through so many requests, and returns what happened in one number.
///
/// # Panics
///
/// With the seed, if a promise was broken.
pub async fn run(seed: u64, requests: usize) -> u64 {
    let mut world = World::new(seed);
    for _ in 0..requests {
        if let Err(broken) = world.step().await {
            panic!("seed {seed}: {broken}");
        }
    }
    if let Err(broken) = world.judge() {
        panic!("seed {seed}: {broken}");
    }
    world.digest
}

impl World {
    fn new(seed: u64) -> Self {
        let (mut dice, clock) = (Dice::new(seed), ManualClock::default());
        clock.set(start());
        let store = || {
            let builder = MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone());
            builder.build().expect("the cap is large enough")
        };
        let secrets = Secrets::new(Secret::new([3; 16]));
        let engine = Engine::new(rules(0, &secrets), secrets, store(), store());
        let jumpy = dice.once_in(3);
        let (clients, seen) = (everybody(), HashMap::new());
        Self { dice, clock, engine, clients, seen, jumpy, honest_next: 0, digest: seed }
    }

    /// Lets some time pass, perhaps a reload, and one client send a request.
    async fn step(&mut self) -> Result<(), String> {
        self.pass_time();
        if self.dice.once_in(12) {
            let policy = self.dice.roll(POLICIES.len() as u64) as usize;
            let reloaded = self.engine.reload(rules(policy, &Secrets::new(Secret::new([3; 16]))));
            reloaded.expect("few limits change");
        }
        let client = self.dice.pick(&self.clients.clone()).clone();
        if client.kind == Kind::Honest && !self.may_send() {
            return Ok(());
        }
        let sent = client.sends(&mut self.dice);
        let facts = facts(&client, &sent);
        let identity = self.engine.rules().identify(&facts, self.clock_now());
        let explain = || self.engine.explain(&facts, &identity, Extras::default());
        let before = explain().await.map_err(|error| error.to_string())?;
        let decision = self.engine.decide_now(&facts, &identity, Extras::default());
        let after = explain().await.map_err(|error| error.to_string())?;
        if !decision.allowed() {
            left_alone(&before, &after)?;
        }
        self.note(&client, &sent, &decision)
    }

    fn pass_time(&mut self) {
        let micros = match self.dice.roll(20) {
            0 => self.dice.roll(90_000_000),
            1 => self.dice.roll(700_000_000),
            2..12 => self.dice.roll(2_000_000),
            _ => 0,
        };
        let now = self.clock.advance(Span::from_micros(micros));
        if self.jumpy && self.dice.once_in(15) {
            let back = Span::from_micros(self.dice.roll(3_600_000_000));
            self.clock.set(now.minus(back));
        }
    }

    /// The honest client leaves half a minute between two requests, by the clock's highest time.
    fn may_send(&mut self) -> bool {
        let now = self.clock_now().as_micros();
        let may = now >= self.honest_next;
        if may {
            self.honest_next = now + 40_000_000;
        }
        may
    }

    fn clock_now(&self) -> threshold_core::Timestamp {
        self.clock.advance(Span::ZERO)
    }

    fn note(&mut self, client: &Client, sent: &Sent, decision: &Decision) -> Result<(), String> {
        let limit = decision.refusal().map_or("", |refusal| match &refusal.reason {
            Reason::Limit(by) => by.limit,
            _ => "path",
        });
        let happened = (limit.len() as u64) << 1 | u64::from(decision.allowed());
        self.digest = self.digest.rotate_left(7) ^ decision.at().as_micros().wrapping_mul(31) ^ happened;
        if client.kind == Kind::Honest && !decision.allowed() && !self.jumpy && limit != "all" {
            return Err(format!("{limit} refused the honest client"));
        }
        if decision.allowed() {
            for (limit, subject) in bound_by(client, sent) {
                let admitted = Admitted { at: decision.at(), cost: 1 };
                self.seen.entry((limit, subject)).or_default().push(admitted);
            }
        }
        Ok(())
    }

    /// Looks at every log: no interval may hold more than the looser policy alone promises.
    fn judge(&self) -> Result<(), String> {
        for ((limit, subject), log) in &self.seen {
            let (_, kind, rate) = PROMISES.iter().find(|(id, ..)| id == limit).expect("a promise");
            let algorithm = Algorithm::new(*kind, &rate.parse().expect("a rate")).expect("a limit");
            if let Some(excess) = excess(log, &algorithm.guarantee()) {
                return Err(format!("{limit} of {subject}: {excess:?}"));
            }
        }
        Ok(())
    }
}

/// The limits that bind a request, with their subjects: from who the client really is, whatever it claims.
fn bound_by(client: &Client, sent: &Sent) -> Vec<(&'static str, String)> {
    let address = match client.peer {
        std::net::IpAddr::V4(address) => address.to_string(),
        std::net::IpAddr::V6(address) => format!("{:?}", &address.segments()[..4]),
    };
    let tenant = client.tenant.map_or_else(|| format!("unknown {address}"), str::to_owned);
    let user = client.user.map_or_else(|| format!("anonymous {address}"), |user| format!("{tenant} {user}"));
    let path = sent.path.to_ascii_lowercase().replace("%70", "p");
    let mut bound = vec![("arrivals", address), ("tenant-requests", tenant), ("all", String::new())];
    if sent.write && path.contains("posts") {
        bound.push(("posts", user.clone()));
    }
    if path.contains("ai") {
        bound.push(("ai", user));
    }
    bound
}

/// A refusal must leave every counter of tenant, user and endpoint as it was.
fn left_alone(
    before: &threshold::engine::Explanation,
    after: &threshold::engine::Explanation,
) -> Result<(), String> {
    let inner = |explanation: &threshold::engine::Explanation| -> Vec<_> {
        let all = explanation.considered.iter();
        let inner = all.filter(|one| one.layer != threshold::policy::Layer::Edge && !one.gate);
        inner.map(|one| (one.limit, one.key.clone(), one.after)).collect()
    };
    match inner(before) == inner(after) {
        true => Ok(()),
        false => Err(format!("a refusal changed {:?} to {:?}", inner(before), inner(after))),
    }
}

fn facts<'a>(client: &Client, sent: &'a Sent) -> Facts<'a> {
    Facts {
        peer: client.peer,
        method: sent.method,
        host: Some("api.example.com"),
        path: &sent.path,
        bytes: Some(0),
        headers: &sent.headers,
    }
}

fn rules(policy: usize, secrets: &Secrets) -> Rules {
    let policy = Policy::read("simulated.toml", POLICIES[policy], &|_| None);
    let policy = policy.unwrap_or_else(|error| panic!("{error}"));
    Rules::new(&policy, secrets, &|_| None).unwrap_or_else(|error| panic!("{error}"))
}
