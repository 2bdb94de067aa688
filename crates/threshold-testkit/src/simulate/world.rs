//! The world: a policy that changes, a clock that jumps, and a judge outside.

use std::collections::HashMap;

use threshold::engine::{Decision, Engine, Extras, Reason, Rules, Secrets};
use threshold::identify::Facts;
use threshold::policy::Policy;
use threshold_core::ledger::{Author, Change, Sanction, SanctionKind};
use threshold_core::{Algorithm, AlgorithmKind, ManualClock, Secret, Span, Timestamp};
use threshold_store::MemoryStore;

use super::Dice;
use super::abuse::{Watch, ids, sanctions};
use super::clients::{Client, Kind, Sent, everybody};
use super::logins::Logins;
use crate::flaky::{Fault, FlakyLedger};
use crate::scan::{Admitted, excess};
use crate::strategies::start;

/// Two policies that differ in their numbers; the first is the looser in each.
const POLICIES: [&str; 2] = [include_str!("loose.toml"), include_str!("tight.toml")];

/// What each limit of the looser policy promises at most, and with the grace of a ladder, to the judge: written down beside
/// the policy, not asked of it.
const PROMISES: [(&str, AlgorithmKind, [&str; 2]); 5] = [
    ("arrivals", AlgorithmKind::TokenBucket, ["60/min"; 2]),
    ("tenant-requests", AlgorithmKind::TokenBucket, ["40/min burst 20"; 2]),
    ("posts", AlgorithmKind::FixedWindow, ["6/min", "7/min"]),
    ("ai", AlgorithmKind::SlidingLog, ["4 per 10min", "5 per 10min"]),
    ("all", AlgorithmKind::SlidingWindow, ["50/min"; 2]),
];

/// What worlds add to their policies: nothing, a ladder that is climbed fast, or the ready-made one with reputation.
const RESPONSES: [&str; 3] = [
    "",
    "\n[ladder]\nlapse = \"2h\"\nrungs = [{ strikes = 1, warn = true }, { strikes = 2, shadow = \"5min\" }, \
     { strikes = 3, cooldown = \"20s\" }, { strikes = 4, ban = \"4min\" }]\n",
    "\n[ladder]\n[reputation]\nrecovery = \"1 per hour\"\n",
];

pub(super) type SimulatedEngine = Engine<MemoryStore<ManualClock>, ManualClock, FlakyLedger>;

/// One run from one seed.
pub struct World {
    dice: Dice,
    clock: ManualClock,
    engine: SimulatedEngine,
    clients: Vec<Client>,
    /// What was admitted, by limit and subject, as the clients saw it.
    seen: HashMap<(&'static str, String), Vec<Admitted>>,
    /// What is held against whom, and why.
    watch: Watch,
    logins: Logins,
    /// How going over is answered, by its place among [`RESPONSES`].
    response: usize,
    /// True if the clock also goes back.
    jumpy: bool,
    /// When the honest client sends again.
    honest_next: u64,
    story: Story,
}

/// What happened in a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// Everything, in one number.
    pub digest: u64,
    /// Requests that passed by grace.
    pub warned: usize,
    /// Answers that were held back.
    pub held_back: usize,
    /// Requests that a sanction refused.
    pub sanctioned: usize,
    /// Bans by the ladder.
    pub bans: usize,
    /// Guesses at a password that were let through.
    pub guesses: usize,
}

impl std::ops::AddAssign for Story {
    fn add_assign(&mut self, other: Self) {
        self.digest ^= other.digest;
        self.warned += other.warned;
        self.held_back += other.held_back;
        self.sanctioned += other.sanctioned;
        self.bans += other.bans;
        self.guesses += other.guesses;
    }
}

/// Runs the world of `seed` through so many requests, and returns what happened.
///
/// # Panics
///
/// With the seed, if a promise was broken.
pub async fn run(seed: u64, requests: usize) -> Story {
    let mut world = World::new(seed);
    for _ in 0..requests {
        if let Err(broken) = world.step().await {
            panic!("seed {seed}: {broken}");
        }
    }
    if let Err(broken) = world.judge().await {
        panic!("seed {seed}: {broken}");
    }
    world.tell()
}

impl World {
    fn new(seed: u64) -> Self {
        let (mut dice, clock) = (Dice::new(seed), ManualClock::default());
        clock.set(start());
        let store = || {
            let builder = MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone());
            builder.build().expect("the cap is large enough")
        };
        let (jumpy, response) = (dice.once_in(3), dice.roll(RESPONSES.len() as u64) as usize);
        let ready = (rules(0, response), secrets());
        let engine = Engine::with_ledger(ready, store(), store(), FlakyLedger::default());
        Self {
            dice,
            clock,
            engine,
            clients: everybody(),
            seen: HashMap::new(),
            watch: Watch::default(),
            logins: Logins::default(),
            response,
            jumpy,
            honest_next: 0,
            story: Story { digest: seed, ..Story::default() },
        }
    }

    fn tell(&self) -> Story {
        let by_ladder = |sanction: &Sanction| matches!(sanction.author, Author::Ladder { .. });
        let bans = sanctions(self.engine.ledger().truth()).into_iter().filter(by_ladder);
        let bans = bans.filter(|sanction| sanction.kind == SanctionKind::Ban).count();
        Story { bans, guesses: self.logins.guesses(), ..self.story }
    }

    /// Lets some time pass, perhaps a reload, and one client send a request.
    async fn step(&mut self) -> Result<(), String> {
        self.pass_time();
        if self.dice.once_in(12) {
            let policy = self.dice.roll(POLICIES.len() as u64) as usize;
            self.engine.reload(rules(policy, self.response)).expect("few limits change");
        }
        self.disturb().await;
        if self.dice.once_in(10) {
            self.logins.step(&self.engine, &mut self.dice).await?;
        }
        let client = self.dice.pick(&self.clients.clone()).clone();
        if client.kind == Kind::Honest && !self.may_send() {
            return Ok(());
        }
        let sent = client.sends(&mut self.dice);
        // Some do not take no for an answer.
        let times = if client.kind != Kind::Honest && self.dice.once_in(4) { 8 } else { 1 };
        for _ in 0..times {
            self.send(&client, &sent).await?;
        }
        Ok(())
    }

    /// One request, with a look before and after.
    async fn send(&mut self, client: &Client, sent: &Sent) -> Result<(), String> {
        let facts = facts(client, sent);
        let identity = self.engine.rules().identify(&facts, self.clock_now());
        let explain = || self.engine.explain(&facts, &identity, Extras::default());
        let before = explain().await.map_err(|error| error.to_string())?;
        let decision = self.engine.decide_for(&facts, &identity, Extras::default()).await;
        let decision =
            decision.map_err(|error| format!("a ledger kept a decision from being made: {error}"))?;
        let after = explain().await.map_err(|error| error.to_string())?;
        if !decision.allowed() && before.held == after.held {
            left_alone(&before, &after)?;
        }
        let (subjects, ledger) = (self.engine.subjects(), self.engine.ledger().truth());
        let now = self.clock_now();
        self.watch.saw(client, (&decision, now), (&subjects, ledger))?;
        self.note(client, sent, &decision)
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

    fn clock_now(&self) -> Timestamp {
        self.clock.advance(Span::ZERO)
    }

    fn note(&mut self, client: &Client, sent: &Sent, decision: &Decision) -> Result<(), String> {
        let limit = decision.refusal().map_or("", |refusal| match &refusal.reason {
            Reason::Limit(by) => by.limit,
            Reason::Banned { .. } | Reason::Cooldown { .. } => "sanction",
            _ => "path",
        });
        self.story.sanctioned += usize::from(limit == "sanction");
        let happened = (limit.len() as u64) << 1 | u64::from(decision.allowed());
        let digest = self.story.digest.rotate_left(7) ^ decision.at().as_micros().wrapping_mul(31) ^ happened;
        self.story.digest = digest;
        self.story.warned += usize::from(decision.warned());
        self.story.held_back += usize::from(!decision.delay().is_zero());
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

    /// The ledger begins or ceases to fail, an operator bans or lifts somebody, the engine looks at what is written.
    async fn disturb(&mut self) {
        if self.dice.once_in(15) {
            let faults = [Fault::None, Fault::None, Fault::Refuses, Fault::LosesAnswers];
            self.engine.ledger().set(*self.dice.pick(&faults));
        }
        if self.dice.once_in(60) {
            self.operate().await;
        }
        if self.dice.once_in(8) {
            // If it cannot be read, what was in force stays in force.
            if self.engine.refresh().await.is_ok() {
                self.watch.unsure.clear();
            }
        }
    }

    async fn operate(&mut self) {
        let hostile: Vec<Client> =
            self.clients.iter().filter(|client| client.kind != Kind::Honest).cloned().collect();
        let client = self.dice.pick(&hostile).clone();
        let (user, address) = ids(&client, &self.engine.subjects());
        let subject = user.unwrap_or(address);
        if self.dice.once_in(3) {
            let lift = Change::Lift { subject, kind: None };
            if self.engine.operate("ops", lift).await.is_err() {
                self.watch.unsure.insert(subject);
            }
            self.watch.sworn.remove(&subject);
            return;
        }
        let until = self.clock_now().plus(Span::from_micros(self.dice.roll(600_000_000)));
        let (kind, reason) = (SanctionKind::Ban, "simulated".to_owned());
        if let Ok(true) = self.engine.operate("ops", Change::Impose { subject, kind, until, reason }).await {
            self.watch.sworn.insert(subject, until);
        }
    }

    /// Looks at every log: no interval may hold more than the looser policy alone promises.
    async fn judge(&self) -> Result<(), String> {
        for ((limit, subject), log) in &self.seen {
            let (_, kind, rates) = PROMISES.iter().find(|(id, ..)| id == limit).expect("a promise");
            let rate = rates[usize::from(self.response > 0)];
            let algorithm = Algorithm::new(*kind, &rate.parse().expect("a rate")).expect("a limit");
            if let Some(excess) = excess(log, &algorithm.guarantee()) {
                return Err(format!("{limit} of {subject}: {excess:?}"));
            }
        }

        let ledger = self.engine.ledger();
        self.watch.judge(&self.clients, &self.engine.subjects(), ledger.truth())?;
        self.logins.judge()?;
        self.sworn().await
    }

    /// What was acknowledged holds on a node that starts anew.
    async fn sworn(&self) -> Result<(), String> {
        self.engine.ledger().set(Fault::None);
        let store = || MemoryStore::builder().max_bytes(1 << 20).clock(self.clock.clone()).build();
        let (store, edge) = (store().expect("a cap with room"), store().expect("a cap with room"));
        let ready = (rules(0, self.response), secrets());
        let fresh = Engine::with_ledger(ready, store, edge, self.engine.ledger().clone());
        fresh.refresh().await.map_err(|error| error.to_string())?;
        for (subject, until) in &self.watch.sworn {
            let held = fresh.held(subject).map_or(Timestamp::default(), |held| held.until(SanctionKind::Ban));
            if self.clock_now() < *until && held < *until {
                return Err(format!("{subject} was banned until {until}, and is until {held}"));
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

fn secrets() -> Secrets {
    Secrets::new(Secret::new([3; 16]))
}

fn rules(policy: usize, response: usize) -> Rules {
    let text = format!("{}{}", POLICIES[policy], RESPONSES[response]);
    let policy = Policy::read("simulated.toml", &text, &|_| None);
    let policy = policy.unwrap_or_else(|error| panic!("{error}"));
    Rules::new(&policy, &secrets(), &|_| None).unwrap_or_else(|error| panic!("{error}"))
}
