//! The library in a page: `cargo run -p quickstart`.
#![expect(clippy::print_stdout, reason = "printing is all that this example is for")]

use std::error::Error;
use std::num::NonZeroU64;

use threshold::{Batch, Decision, MemoryStore, Outcome, RateLimiter};

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    let store = MemoryStore::new();
    let api = RateLimiter::builder("api").rate("5 per 10s").store(store.clone()).build()?;
    println!("The limit {} promises for every key:\n  {}.", api.policy(), api.guarantee());

    first_denial(&api)?;
    weighted_costs(&api)?;
    all_or_nothing(&store)
}

/// Seven requests against a capacity of five, and a bystander.
fn first_denial(api: &RateLimiter) -> Done {
    heading("Seven requests of alice");
    for request in 1..=7 {
        println!("  request {request}: {}", told(&api.consume_now("alice", 1)?));
    }
    heading("bob has a budget of his own");
    println!("  request 1: {}", told(&api.consume_now("bob", 1)?));
    Ok(())
}

/// A request may cost more than one. A cost above the capacity is told apart from one that has to wait.
fn weighted_costs(api: &RateLimiter) -> Done {
    heading("carol's requests differ in cost");
    for cost in [3, 3, 6] {
        println!("  cost {cost}: {}", told(&api.consume_now("carol", cost)?));
    }
    Ok(())
}

/// A tenant's limit and a user's limit in one batch: a refused user takes nothing from the tenant.
fn all_or_nothing(store: &MemoryStore) -> Done {
    let both = Both {
        tenant: RateLimiter::builder("tenant").rate("10/min").store(store.clone()).build()?,
        user: RateLimiter::builder("user").rate("2/min").store(store.clone()).build()?,
        store,
    };
    heading("acme gets 10/min and each of its users 2/min, charged together or not at all");
    for user in ["mallory", "mallory", "mallory", "mallory", "alice"] {
        let outcome = both.charge("acme", user)?;
        let tenant_left = outcome.verdicts[0].remaining;
        println!("  {user:<7}  {}, acme has {tenant_left} remaining", word(outcome.admitted()));
    }
    println!("\nmallory's refusals left acme's budget as it was.");
    Ok(())
}

/// Two limits over one store.
struct Both<'a> {
    tenant: RateLimiter,
    user: RateLimiter,
    store: &'a MemoryStore,
}

impl Both<'_> {
    fn charge(&self, tenant: &str, user: &str) -> Result<Outcome, Box<dyn Error>> {
        let mut batch = Batch::default();
        batch.push(self.tenant.step(tenant, NonZeroU64::MIN))?;
        batch.push(self.user.step((tenant, user), NonZeroU64::MIN))?;
        Ok(self.store.apply_now(&batch))
    }
}

fn heading(text: &str) {
    println!("\n{text}:");
}

fn told(decision: &Decision) -> String {
    match decision.retry_after() {
        _ if decision.allowed() => format!("allowed, {} remaining", decision.remaining()),
        Some(wait) => format!("refused, retry after {wait:?}"),
        None => format!("refused, and no wait would help: the capacity is {}", decision.limit()),
    }
}

const fn word(admitted: bool) -> &'static str {
    if admitted { "allowed" } else { "refused" }
}
