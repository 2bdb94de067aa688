//! Logins in the simulated world: many guess at one account, and its owner comes back now and then.

use std::net::Ipv4Addr;

use threshold::login::Attempt;
use threshold_core::{Span, Timestamp};

use super::Dice;
use super::world::SimulatedEngine;

/// The account that everybody guesses at.
const VICTIM: Option<&str> = Some("victim");

/// The most guesses in an hour that the policy promises.
const CEILING: usize = 100;

/// What happened at the door.
#[derive(Default)]
pub(super) struct Logins {
    /// The token of the owner's device.
    token: Option<String>,
    /// When strangers were let guess.
    guesses: Vec<Timestamp>,
}

impl Logins {
    /// A crowd of strangers guesses, or the owner logs in.
    ///
    /// # Errors
    ///
    /// If the owner was locked out by others.
    pub(super) async fn step(&mut self, engine: &SimulatedEngine, dice: &mut Dice) -> Result<(), String> {
        if dice.once_in(4) {
            return self.owner(engine, dice).await;
        }
        let mut begun = Vec::new();
        for _ in 0..dice.roll(60) {
            let client = Ipv4Addr::from(0x0B00_0000 | dice.roll(4_000) as u32).into();
            // Some show a token that was never issued.
            let device = dice.once_in(5).then_some("0123456789abcdef");
            // No answer is a refusal: who guards passwords stays shut.
            let attempt = engine.begin_attempt(&Attempt { account: VICTIM, client, device }).await;
            if let Ok(Ok(begin)) = attempt {
                self.guesses.push(begin.at());
                begun.push(begin);
            }
        }
        for begin in begun {
            // Some guessers go away before they hear the answer.
            if !dice.once_in(6) {
                let _ = engine.end_attempt(begin, false).await;
            }
        }
        Ok(())
    }

    async fn owner(&mut self, engine: &SimulatedEngine, dice: &mut Dice) -> Result<(), String> {
        let client = Ipv4Addr::from(0x0B00_0000 | dice.roll(4_000) as u32).into();
        let attempt = Attempt { account: VICTIM, client, device: self.token.as_deref() };
        match (engine.attempt(&attempt, true).await, &self.token) {
            (Ok(answer), _) if answer.allowed => self.token = answer.device,
            (Ok(answer), Some(_)) => return Err(format!("the owner's device was locked out: {answer:?}")),
            // Unknown as yet, or no answer: nothing was promised.
            (Ok(_), None) | (Err(_), _) => {}
        }
        Ok(())
    }

    /// How many guesses were let through.
    pub(super) fn guesses(&self) -> usize {
        self.guesses.len()
    }

    /// Looks at when strangers were let guess.
    ///
    /// # Errors
    ///
    /// If there is an hour with too many.
    pub(super) fn judge(&self) -> Result<(), String> {
        let mut guesses = self.guesses.clone();
        guesses.sort();
        for (index, first) in guesses.iter().enumerate() {
            let hour = guesses[index..].iter().take_while(|at| **at < first.plus(Span::HOUR)).count();
            if hour > CEILING {
                return Err(format!("{hour} guesses within an hour"));
            }
        }
        Ok(())
    }
}
