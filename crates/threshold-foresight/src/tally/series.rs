//! Series: requests over time, in so many equal slots that a chart can show them.

use threshold::figures::Ending;
use threshold::{Span, Timestamp};

/// How many slots there are at most.
const MOST: u64 = 480;
/// How long a slot may be, in seconds: each goes into the next.
const WIDTHS: [u64; 14] =
    [1, 2, 10, 30, 60, 300, 900, 3_600, 10_800, 21_600, 43_200, 86_400, 604_800, 604_800 * 52];

/// What requests of one slot came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// They passed.
    pub allowed: u64,
    /// They passed with a warning.
    pub warned: u64,
    /// They passed and were held back.
    pub slowed: u64,
    /// They were refused.
    pub denied: u64,
}

/// Requests over time.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Which width slots have.
    width: usize,
    /// The number of the first slot, counted from the epoch.
    first: u64,
    slots: Vec<Slot>,
}

impl Series {
    /// Counts one request. They come by their times.
    pub fn add(&mut self, at: Timestamp, ending: Ending) {
        let second = at.as_micros() / 1_000_000;
        if self.slots.is_empty() {
            self.first = second / WIDTHS[self.width];
        }
        while second / WIDTHS[self.width] - self.first >= MOST && self.width + 1 < WIDTHS.len() {
            self.widen();
        }
        let place = (second / WIDTHS[self.width] - self.first) as usize;
        if self.slots.len() <= place {
            self.slots.resize(place + 1, Slot::default());
        }
        self.slots[place].add(ending);
    }

    /// Makes each slot as long as the next width.
    fn widen(&mut self) {
        let factor = WIDTHS[self.width + 1] / WIDTHS[self.width];
        let first = self.first / factor;
        let mut wider: Vec<Slot> = Vec::new();
        for (place, slot) in self.slots.iter().enumerate() {
            let place = ((self.first + place as u64) / factor - first) as usize;
            if wider.len() <= place {
                wider.resize(place + 1, Slot::default());
            }
            wider[place].join(*slot);
        }
        (self.width, self.first, self.slots) = (self.width + 1, first, wider);
    }

    /// How long a slot is.
    #[must_use]
    pub fn width(&self) -> Span {
        Span::from_secs(WIDTHS[self.width])
    }

    /// When the first slot begins.
    #[must_use]
    pub fn from(&self) -> Timestamp {
        Timestamp::from_micros(self.first * WIDTHS[self.width] * 1_000_000)
    }

    /// The slots, one after the other.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }
}

impl Slot {
    const fn add(&mut self, ending: Ending) {
        *match ending {
            Ending::Allowed => &mut self.allowed,
            Ending::Warned => &mut self.warned,
            Ending::Delayed => &mut self.slowed,
            _ => &mut self.denied,
        } += 1;
    }

    const fn join(&mut self, other: Self) {
        self.allowed += other.allowed;
        self.warned += other.warned;
        self.slowed += other.slowed;
        self.denied += other.denied;
    }

    /// All requests of it.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.allowed + self.warned + self.slowed + self.denied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_get_longer_and_lose_nothing() {
        let mut series = Series::default();
        let begin = 1_700_000_123_u64;
        let times: Vec<u64> = (0..4_000).map(|number| begin + number * number / 3).collect();
        for second in &times {
            series.add(Timestamp::from_micros(second * 1_000_000), Ending::Allowed);
        }
        assert!(series.slots().len() as u64 <= MOST);
        assert_eq!(series.slots().iter().map(Slot::requests).sum::<u64>(), 4_000);
        let width = series.width().as_micros() / 1_000_000;
        for (place, slot) in series.slots().iter().enumerate() {
            let from = series.from().as_micros() / 1_000_000 + place as u64 * width;
            let expected = times.iter().filter(|second| (from..from + width).contains(second)).count();
            assert_eq!(slot.allowed, expected as u64, "slot {place}");
        }
    }

    #[test]
    fn years_of_silence_fit() {
        let mut series = Series::default();
        series.add(Timestamp::default(), Ending::Limited);
        series.add(Timestamp::MAX, Ending::Allowed);
        assert!(series.slots().len() as u64 <= MOST);
        assert_eq!(series.slots().iter().map(Slot::requests).sum::<u64>(), 2);
    }
}
