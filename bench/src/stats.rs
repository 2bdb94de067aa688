//! Medians and what can honestly be said about them from a handful of rounds.

use serde::Serialize;

/// One figure over all rounds of a cell.
#[derive(Clone, Serialize)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    /// Interquartile range.
    pub(crate) quartiles: [f64; 2],
    /// Bounds of the median's confidence interval.
    pub(crate) interval: [f64; 2],
    /// The interval's true confidence; below 0.95 when there are fewer than six rounds.
    pub(crate) confidence: f64,
}

impl Summary {
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (rank, confidence) = interval_rank(sorted.len());
        Self {
            median: rounded(quantile(&sorted, 0.5)),
            quartiles: [0.25, 0.75].map(|portion| rounded(quantile(&sorted, portion))),
            interval: [rank, sorted.len() - 1 - rank].map(|place| rounded(sorted[place])),
            confidence,
        }
    }

    /// Summary of the ratios round by round: what the neighbours did to one round they did to both sides.
    pub(crate) fn of_ratios(values: &[f64], reference: &[f64]) -> Self {
        let ratios: Vec<f64> = values.iter().zip(reference).map(|(value, base)| value / base).collect();
        Self::of(&ratios)
    }
}

/// A thousandth is far below the noise; more digits only make results harder to read and to compare.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Linear interpolation between the closest ranks of sorted values.
fn quantile(sorted: &[f64], portion: f64) -> f64 {
    let place = portion * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = place.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// The innermost pair of order statistics that covers the median with at least 95 %, whatever the
/// distribution: the number of values below the median is binomial(n, 1/2).
fn interval_rank(count: usize) -> (usize, f64) {
    let mut best = (0, coverage(count, 0));
    for rank in 1..count / 2 {
        let covered = coverage(count, rank);
        if covered < 0.95 {
            break;
        }
        best = (rank, covered);
    }
    best
}

/// Chance that the median lies between the order statistics `rank` and `count - 1 - rank`.
fn coverage(count: usize, rank: usize) -> f64 {
    let mut outside = 0.0;
    let mut term = 0.5_f64.powi(count as i32);
    for below in 0..=rank {
        outside += term;
        term *= (count - below) as f64 / (below + 1) as f64;
    }
    1.0 - 2.0 * outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_the_narrowest_that_covers() {
        assert_eq!(interval_rank(5).0, 0);
        assert!(interval_rank(5).1 < 0.95);
        assert_eq!(interval_rank(7).0, 0);
        assert!((interval_rank(7).1 - 0.984_375).abs() < 1e-9);
        assert_eq!(interval_rank(9).0, 1);
        assert!((interval_rank(9).1 - 0.960_937_5).abs() < 1e-9);
    }

    #[test]
    fn median_and_quartiles_interpolate() {
        let summary = Summary::of(&[4.0, 1.0, 3.0, 2.0]);
        assert!((summary.median - 2.5).abs() < 1e-9);
        assert!((summary.quartiles[0] - 1.75).abs() < 1e-9);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let summary = Summary::of_ratios(&[1.0, 20.0, 300.0], &[2.0, 40.0, 600.0]);
        assert!((summary.quartiles[1] - 0.5).abs() < 1e-9);
    }
}
