//! Thresholds: what must not be, said in a few characters, for a build that ends badly then.

use std::fmt;
use std::str::FromStr;

use threshold::figures::Ending;

use super::Report;

/// A condition such as `denied > 0.1%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: String,
    figure: Figure,
    compare: Compare,
    /// The number, and whether it is in hundredths.
    than: (f64, bool),
}

/// A condition that cannot be understood: what and remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConditionError(String);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Compare {
    Above,
    AtLeast,
    Below,
    AtMost,
}

type Reading = fn(&Report) -> f64;

/// A figure of a report, and what its share is of.
#[derive(Clone, Copy)]
struct Figure {
    name: &'static str,
    read: Reading,
    of: Reading,
}

impl fmt::Debug for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Figure {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

const REQUESTS: Reading = |report| report.requests() as f64;
const SUBJECTS: Reading = |report| report.subjects.0 as f64;

const fn figure(name: &'static str, read: Reading, of: Reading) -> Figure {
    Figure { name, read, of }
}

const FIGURES: [Figure; 13] = [
    figure("requests", REQUESTS, REQUESTS),
    figure("warned", |report| report.totals.0.of(Ending::Warned) as f64, REQUESTS),
    figure("slowed", |report| report.totals.0.of(Ending::Delayed) as f64, REQUESTS),
    figure("denied", |report| report.totals.0.denied() as f64, REQUESTS),
    figure("banned", |report| report.totals.0.of(Ending::Banned) as f64, REQUESTS),
    figure("bans", |report| report.sanctions.0.bans as f64, SUBJECTS),
    figure("denied-subjects", |report| report.subjects.1 as f64, SUBJECTS),
    figure("ordinary-denied-subjects", |report| report.looks[0] as f64, SUBJECTS),
    figure("new-denied", |report| side(report, 0, |side| side.requests), REQUESTS),
    figure("new-denied-subjects", |report| side(report, 0, |side| side.subjects), SUBJECTS),
    figure("new-denied-ordinary-subjects", |report| side(report, 0, |side| side.ordinary), SUBJECTS),
    figure("new-freed", |report| side(report, 1, |side| side.requests), REQUESTS),
    figure("new-freed-subjects", |report| side(report, 1, |side| side.subjects), SUBJECTS),
];

fn side(report: &Report, side: usize, read: fn(&super::Changed) -> u64) -> f64 {
    report.changed.as_ref().map_or(0.0, |changed| read(&changed[side]) as f64)
}

impl Condition {
    /// Whether it holds of `report`; what it was then, for people.
    #[must_use]
    pub fn holds(&self, report: &Report) -> Option<String> {
        let (value, of) = ((self.figure.read)(report), (self.figure.of)(report));
        let share = if of > 0.0 { value * 100.0 / of } else { 0.0 };
        let (than, hundredths) = self.than;
        let left = if hundredths { share } else { value };
        let holds = match self.compare {
            Compare::Above => left > than,
            Compare::AtLeast => left >= than,
            Compare::Below => left < than,
            Compare::AtMost => left <= than,
        };
        holds.then(|| format!("{}: there are {value} of {of} ({share:.3} %)", self.text))
    }

    /// True if it is about a policy that is compared with.
    #[must_use]
    pub fn compares(&self) -> bool {
        self.figure.name.starts_with("new-")
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let signs =
            [(">=", Compare::AtLeast), ("<=", Compare::AtMost), (">", Compare::Above), ("<", Compare::Below)];
        let parts = signs.into_iter().find_map(|(sign, compare)| {
            text.split_once(sign).map(|(name, number)| (name.trim(), compare, number.trim()))
        });
        let Some((name, compare, number)) = parts else {
            let what =
                format!("\"{text}\" compares nothing; write such as \"denied > 0.1%\", with >, >=, < or <=");
            return Err(ConditionError(what));
        };
        let Some(figure) = FIGURES.into_iter().find(|figure| figure.name == name) else {
            let names = FIGURES.map(|figure| figure.name).join(", ");
            return Err(ConditionError(format!("\"{name}\" is no figure of a report; there are {names}")));
        };
        let (digits, hundredths) = match number.strip_suffix('%') {
            Some(digits) => (digits.trim(), true),
            None => (number, false),
        };
        let than = digits.parse::<f64>().ok().filter(|than| than.is_finite() && *than >= 0.0);
        let Some(than) = than else {
            let what = format!("\"{number}\" is no number; write such as \"20\" or \"0.1%\"");
            return Err(ConditionError(what));
        };
        Ok(Self { text: text.to_owned(), figure, compare, than: (than, hundredths) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_others_refused() {
        let condition: Condition = "denied > 0.1%".parse().expect("it is one");
        assert_eq!((condition.figure.name, condition.compare), ("denied", Compare::Above));
        assert_eq!(condition.than, (0.1, true));
        assert!("new-denied-subjects>=20".parse::<Condition>().expect("it is one").compares());
        for (text, part) in
            [("denied", "compares nothing"), ("dnied > 1", "no figure"), ("denied > x%", "no number")]
        {
            let error = text.parse::<Condition>().expect_err(text);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
