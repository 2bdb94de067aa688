//! The outside judge: looks only at what a client saw admitted, and when.

use threshold_core::{Guarantee, Span, Timestamp};

/// One admission as the client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// When.
    pub at: Timestamp,
    /// At what cost.
    pub cost: u64,
}

/// An interval in which more was admitted than promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    /// The first admission in the interval.
    pub from: Timestamp,
    /// Its length.
    pub length: Span,
    /// What was admitted.
    pub admitted: u64,
    /// What was promised.
    pub promised: u64,
}

/// Looks at every interval that starts and ends with an admission, which includes the worst one, and returns
/// the first that holds more than the guarantee promises. The log may be in any order.
#[must_use]
pub fn excess(log: &[Admitted], guarantee: &Guarantee) -> Option<Excess> {
    let mut log = log.to_vec();
    log.sort_unstable_by_key(|admitted| admitted.at);
    log.iter().enumerate().find_map(|(index, first)| {
        let mut admitted = 0;
        log[index..].iter().find_map(|last| {
            admitted += last.cost;
            let length = Span::from_micros(last.at.since(first.at).as_micros() + 1);
            let promised = guarantee.most_in(length);
            (admitted > promised).then_some(Excess { from: first.at, length, admitted, promised })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use threshold_core::{Algorithm, AlgorithmKind};

    #[test]
    fn finds_one_admission_too_many_and_nothing_else() {
        let algorithm = Algorithm::new(AlgorithmKind::SlidingLog, &"3 per 10us".parse().unwrap()).unwrap();
        let judge = |times: &[u64]| {
            let log = times.iter().map(|at| Admitted { at: Timestamp::from_micros(*at), cost: 1 });
            excess(&log.collect::<Vec<_>>(), &algorithm.guarantee())
        };
        assert_eq!(judge(&[1, 1, 1, 11, 11, 11]), None);
        let worst = judge(&[10, 1, 1, 1]).unwrap();
        assert_eq!((worst.admitted, worst.promised, worst.length), (4, 3, Span::from_micros(10)));
    }
}
