//! Play: the requests of a scenario, one after the other, by their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;

use threshold::{Span, Timestamp};

use super::dice::{Dice, FINE};
use super::fields::HUNDRED;
use super::pattern::Member;
use super::{Actor, Scenario};
use crate::{Headers, Request};

/// A scenario at work.
pub struct Play<'s> {
    scenario: &'s Scenario,
    seed: u64,
    /// Every member that has something left to send, the next one first: when, whose, which.
    due: BinaryHeap<Reverse<(u64, u32, u32)>>,
    members: Vec<Vec<Member>>,
    /// The header fields that each actor makes up.
    forged: Vec<Vec<Vec<(&'s str, &'s str)>>>,
    scratch: Scratch,
}

/// What a request borrows from.
#[derive(Default)]
struct Scratch {
    target: String,
    user: String,
    account: String,
}

/// A request, and who sent it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent<'a> {
    /// The request.
    pub request: Request<'a>,
    /// The actor's place in [`Scenario::actors`].
    pub actor: usize,
}

/// One who sends: which member, and a number that stays the same for it.
#[derive(Clone, Copy)]
struct Person {
    number: u64,
    constant: u64,
}

impl<'s> Play<'s> {
    pub(super) fn new(scenario: &'s Scenario, seed: u64) -> Self {
        let (mut due, mut members) = (BinaryHeap::new(), Vec::new());
        for (index, actor) in (0_u64..).zip(&scenario.actors) {
            let end = (actor.active[1] - actor.active[0]) * FINE;
            let begin = |number: u32| {
                let dice = Dice::new(&[seed, index, number.into()]);
                let (member, first) = actor.pattern.begin(dice, end);
                if first < end {
                    due.push(Reverse((
                        first + actor.active[0] * FINE,
                        u32::try_from(index).unwrap_or(u32::MAX),
                        number,
                    )));
                }
                member
            };
            members.push((0..u32::try_from(actor.members).unwrap_or(u32::MAX)).map(begin).collect());
        }
        let forged = scenario.actors.iter().map(forged).collect();
        Self { scenario, seed, due, members, forged, scratch: Scratch::default() }
    }

    /// The next request.
    #[expect(clippy::should_implement_trait, reason = "what it returns borrows from it")]
    pub fn next(&mut self) -> Option<Sent<'_>> {
        let Reverse((at, index, number)) = self.due.pop()?;
        let place = index as usize;
        let actor = self.scenario.actors.get(place)?;
        let member = self.members.get_mut(place)?.get_mut(number as usize)?;
        let [begins, ends] = actor.active.map(|micros| micros * FINE);
        let next = actor.pattern.next(member, at - begins, ends - begins).saturating_add(begins);
        if next < ends {
            self.due.push(Reverse((next, index, number)));
        }
        let dice = &mut member.dice;
        let person = match actor.kind.roams() {
            true => Person { number: dice.below(actor.sources.used), constant: dice.next() },
            false => {
                let number = u64::from(number);
                Person { number, constant: Dice::new(&[self.seed, index.into(), number, 1]).next() }
            }
        };
        let at = self.scenario.start.plus(Span::from_micros(at / FINE));
        let request = self.scratch.request(self.scenario, actor, (at, person), dice)?;
        let headers: &[(&str, &str)] = match self.forged.get(place) {
            Some(sets) if !sets.is_empty() => {
                &sets[usize::try_from(dice.below(sets.len() as u64)).unwrap_or(0)]
            }
            _ => &[],
        };
        Some(Sent { request: Request { headers: headers.into(), ..request }, actor: place })
    }
}

impl Scratch {
    /// What one person sends at one time.
    fn request<'a>(
        &'a mut self,
        scenario: &Scenario,
        actor: &'a Actor,
        (at, person): (Timestamp, Person),
        dice: &mut Dice,
    ) -> Option<Request<'a>> {
        let route = actor.routes.take(dice, &mut self.target)?;
        let Person { number, constant } = person;
        let signed_in = !actor.kind.roams() && constant % HUNDRED < actor.signed_in;
        if signed_in {
            named(&mut self.user, &actor.name, number);
        }
        let names_account = *route == scenario.login;
        match actor.accounts {
            Some(accounts) if names_account => named(&mut self.account, "account", dice.below(accounts)),
            None if names_account => named(&mut self.account, &actor.name, number),
            _ => {}
        }
        Some(Request {
            at,
            client: actor.sources.address(number, constant),
            method: &route.method,
            host: actor.host.as_deref(),
            target: &self.target,
            bytes: Some(if route.has_body() { actor.bytes } else { 0 }),
            status: None,
            agent: actor.agents.pick(constant >> 32),
            user: signed_in.then_some(self.user.as_str()),
            tenant: actor.tenant.as_deref(),
            account: names_account.then_some(self.account.as_str()),
            headers: Headers::NONE,
        })
    }
}

fn named(text: &mut String, name: &str, number: u64) {
    text.clear();
    // Into a string nothing fails.
    let _ = write!(text, "{name}-{number}");
}

/// Each set of header fields that an actor makes up: the same value under all of its names.
fn forged(actor: &Actor) -> Vec<Vec<(&str, &str)>> {
    let Some(forged) = &actor.forged else { return Vec::new() };
    forged.values.iter().map(|value| forged.names.iter().map(|name| (&**name, &**value)).collect()).collect()
}
