//! Everyone is measured once in each round, so that what disturbs a round disturbs all of them.

use std::thread::sleep;
use std::time::Duration;

use super::service::Service;
use super::{CONNECTIONS, others, report::Settings};
use crate::Outcome;
use crate::args::ServerArgs;
use crate::stats::Summary;

/// Between two measurements: what the one before has used up of the machine's patience comes back.
const PAUSE: Duration = Duration::from_millis(300);

pub(crate) struct Rounds {
    count: usize,
    /// What other programs used before each round, in per cent.
    others: Vec<f64>,
}

impl Rounds {
    pub(crate) fn new(count: usize) -> Self {
        Self { count, others: Vec::new() }
    }

    /// Measures everyone once in each round, each time in another order, so that nobody always follows the one that leaves
    /// the machine hottest; the results are in the order of the services.
    pub(crate) fn measure<T>(
        &mut self,
        what: &str,
        services: &[Service],
        measure: impl Fn(&Service) -> Outcome<T>,
    ) -> Outcome<Vec<Vec<T>>> {
        eprint!("  {what} ");
        let mut all = Vec::with_capacity(self.count);
        for round in 0..self.count {
            self.others.push(others::busy()?);
            let mut found: Vec<(usize, T)> = Vec::with_capacity(services.len());
            for who in order(services.len(), round) {
                sleep(PAUSE);
                found.push((who, measure(&services[who])?));
            }
            found.sort_by_key(|(who, _)| *who);
            all.push(found.into_iter().map(|(_, value)| value).collect());
            eprint!(".");
        }
        eprintln!();
        Ok(all)
    }

    /// What a report says about the run, once everything is measured.
    pub(crate) fn settings(&self, args: &ServerArgs) -> Settings {
        Settings {
            quick: args.quick,
            rounds: args.rounds,
            seconds: args.seconds,
            connections: CONNECTIONS,
            rate: None,
            others: Summary::of(&self.others),
        }
    }
}

/// Who is measured when: everyone follows everyone else equally often after `count` rounds, or after twice as many if
/// that is odd. These are the orders of a Williams square; an odd one needs each of its orders backwards as well.
fn order(count: usize, round: usize) -> Vec<usize> {
    let odd = count % 2 == 1;
    let (row, backwards) = if odd { (round / 2, round % 2 == 1) } else { (round, false) };
    let zigzag = |turn: usize| if turn.is_multiple_of(2) { turn / 2 } else { count - turn.div_ceil(2) };
    let mut order: Vec<usize> = (0..count).map(|turn| (zigzag(turn) + row) % count).collect();
    if backwards {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn everyone_is_measured_once_a_round_and_follows_everyone_else() {
        for (count, rounds, times) in [(2, 2, 1), (3, 6, 2), (4, 4, 1), (5, 10, 2)] {
            let orders: Vec<Vec<usize>> = (0..rounds).map(|round| order(count, round)).collect();
            let mut pairs = BTreeMap::new();
            for order in &orders {
                assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), count);
                order.windows(2).for_each(|pair| *pairs.entry(pair).or_insert(0) += 1);
            }
            assert_eq!(pairs.len(), count * (count - 1));
            assert!(pairs.values().all(|&found| found == times));
        }
    }
}
