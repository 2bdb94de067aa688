//! Fields: from TOML to values, with every mistake noted and none of them final.

use threshold::policy::{Problem, nearest};
use threshold::{Rate, Span, Timestamp, Unit};
use toml::de::{DeTable, DeValue};

use super::time::instant;

/// What is wrong, as far as it was found.
pub(super) struct Notes<'a> {
    pub(super) text: &'a str,
    pub(super) problems: Vec<Problem>,
}

/// A table of the file, with its place and its name.
pub(super) struct Table<'a> {
    table: &'a DeTable<'a>,
    at: usize,
    name: String,
}

impl Notes<'_> {
    pub(super) fn note(
        &mut self,
        at: usize,
        field: &str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let before = self.text.get(..at.min(self.text.len())).unwrap_or(self.text);
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let (line, field) = (before.matches('\n').count() + 1, field.to_owned());
        self.problems.push(Problem { line, column, field, what: what.into(), remedy: remedy.into() });
    }
}

impl<'a> Table<'a> {
    pub(super) const fn whole(table: &'a DeTable<'a>) -> Self {
        Self { table, at: 0, name: String::new() }
    }

    /// What a field of it is called in full.
    fn full(&self, field: &str) -> String {
        if self.name.is_empty() { field.to_owned() } else { format!("{}.{field}", self.name) }
    }

    /// Notes the names that are not among `known`.
    pub(super) fn knows(&self, known: &[&str], notes: &mut Notes<'_>) {
        for (name, _) in self.table {
            if !known.contains(&name.get_ref().as_ref()) {
                let remedy = match nearest(name.get_ref(), known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("remove it; there are `{}`", known.join("`, `")),
                };
                notes.note(
                    name.span().start,
                    &self.full(name.get_ref()),
                    "there is no such field here",
                    remedy,
                );
            }
        }
    }

    pub(super) fn has(&self, field: &str) -> bool {
        self.table.contains_key(field)
    }

    /// Notes that a field has to be there.
    pub(super) fn missing(&self, field: &str, example: &str, notes: &mut Notes<'_>) {
        let what = format!("`{field}` is missing");
        notes.note(self.at, &self.name, what, format!("add `{field} = {example}`"));
    }

    /// Notes what is wrong with a field that could be read, or with the table if there is no such field.
    pub(super) fn wrong(&self, field: &str, what: impl Into<String>, remedy: &str, notes: &mut Notes<'_>) {
        let at = self.table.get(field).map_or(self.at, |value| value.span().start);
        notes.note(at, &self.full(field), what, remedy);
    }

    /// The value of `field`, if it is there and `read` can make something of it.
    fn get<T>(
        &self,
        field: &str,
        expected: &str,
        read: impl FnOnce(&DeValue<'a>) -> Option<T>,
        notes: &mut Notes<'_>,
    ) -> Option<T> {
        let value = self.table.get(field)?;
        let got = read(value.get_ref());
        if got.is_none() {
            let remedy = format!("write {expected}");
            notes.note(value.span().start, &self.full(field), stands(value.get_ref()), remedy);
        }
        got
    }

    pub(super) fn text(&self, field: &str, notes: &mut Notes<'_>) -> Option<String> {
        self.get(field, "a string in quotes, of at most 256 characters", name, notes)
    }

    pub(super) fn flag(&self, field: &str, notes: &mut Notes<'_>) -> Option<bool> {
        self.get(field, "true or false", DeValue::as_bool, notes)
    }

    /// A whole number from `least` to `most`.
    pub(super) fn number(&self, field: &str, [least, most]: [u64; 2], notes: &mut Notes<'_>) -> Option<u64> {
        let read = |value: &DeValue<'_>| number(value).filter(|number| (least..=most).contains(number));
        self.get(field, &format!("a whole number from {least} to {most}"), read, notes)
    }

    pub(super) fn numbers(&self, field: &str, notes: &mut Notes<'_>) -> Option<Vec<u64>> {
        let read = |value: &DeValue<'_>| {
            value.as_array()?.iter().map(|item| number(item.get_ref())).collect::<Option<Vec<_>>>()
        };
        self.get(field, "a list of whole numbers such as [1, 2]", read, notes)
    }

    pub(super) fn names(&self, field: &str, notes: &mut Notes<'_>) -> Option<Vec<String>> {
        let read = |value: &DeValue<'_>| {
            let names = value.as_array()?.iter().map(|item| name(item.get_ref()));
            names.collect::<Option<Vec<_>>>().filter(|names| names.len() <= 16)
        };
        self.get(field, "a list of at most 16 names in quotes", read, notes)
    }

    /// How many requests in what time.
    pub(super) fn rate(&self, field: &str, notes: &mut Notes<'_>) -> Option<Rate> {
        let read = |value: &DeValue<'_>| {
            let rate: Rate = value.as_str()?.parse().ok()?;
            let plain = rate.burst().is_none() && rate.unit() == Unit::Requests;
            (plain && rate.count() <= MOST_COUNT && rate.period() <= LONGEST).then_some(rate)
        };
        self.get(field, "a rate of requests such as \"30/hour\", without a burst", read, notes)
    }

    pub(super) fn span(&self, field: &str, notes: &mut Notes<'_>) -> Option<Span> {
        let read = |value: &DeValue<'_>| {
            // The grammar of a rate's period.
            let rate: Rate = format!("1 per {}", value.as_str()?.trim()).parse().ok()?;
            (rate.burst().is_none() && rate.period() <= LONGEST).then_some(rate.period())
        };
        self.get(field, "a duration such as \"30s\", \"5min\" or \"24h\", of a year at most", read, notes)
    }

    /// A part in a hundred thousand, written as a percentage.
    pub(super) fn percent(&self, field: &str, notes: &mut Notes<'_>) -> Option<u64> {
        self.get(field, "a percentage such as \"40%\"", |value| percent(value.as_str()?), notes)
    }

    /// What the field says of a percentage: whether it is the least, and how many in a hundred thousand.
    pub(super) fn bound(&self, field: &str, notes: &mut Notes<'_>) -> Option<(bool, u64)> {
        let read = |value: &DeValue<'_>| {
            let text = value.as_str()?.trim();
            let bound = |word, least| Some((least, percent(text.strip_prefix(word)?)?));
            bound("at most", false).or_else(|| bound("at least", true))
        };
        self.get(field, "\"at most 0.1%\" or \"at least 95%\"", read, notes)
    }

    pub(super) fn instant(&self, field: &str, notes: &mut Notes<'_>) -> Option<Timestamp> {
        let read = |value: &DeValue<'_>| match value {
            DeValue::Datetime(at) => instant(&at.to_string()),
            other => instant(other.as_str()?),
        };
        self.get(field, "an instant such as \"2026-03-02T00:00:00Z\", from 1970 to 2090", read, notes)
    }

    /// The table in `field`.
    pub(super) fn table(&self, field: &str, notes: &mut Notes<'_>) -> Option<Table<'a>> {
        let value = self.table.get(field)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(Table { table, at: value.span().start, name: self.full(field) }),
            other => {
                let remedy = format!("write a table: `[{field}]`");
                notes.note(value.span().start, &self.full(field), stands(other), remedy);
                None
            }
        }
    }

    /// The tables in `field`, of which there may be `most`.
    pub(super) fn tables(&self, field: &str, most: usize, notes: &mut Notes<'_>) -> Vec<Table<'a>> {
        let Some(value) = self.table.get(field) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            let remedy = format!("write `[[{field}]]` before each of them");
            notes.note(value.span().start, &self.full(field), stands(value.get_ref()), remedy);
            return Vec::new();
        };
        if items.len() > most {
            let what = format!("there are {} of them", items.len());
            notes.note(value.span().start, &self.full(field), what, format!("keep {most} at most"));
        }
        let tables = items.iter().take(most).enumerate().filter_map(|(index, item)| {
            let name = format!("{}[{index}]", self.full(field));
            let DeValue::Table(table) = item.get_ref() else {
                notes.note(item.span().start, &name, stands(item.get_ref()), format!("write `[[{field}]]`"));
                return None;
            };
            Some(Table { table, at: item.span().start, name })
        });
        tables.collect()
    }

    /// Names that the author chose, with a number each.
    pub(super) fn weights(&self, notes: &mut Notes<'_>) -> Vec<(String, u64)> {
        let entries = self.table.iter().filter_map(|(name, _)| {
            let name = name.get_ref();
            Some((name.to_string(), self.number(name, [1, 1_000_000], notes)?))
        });
        entries.collect()
    }
}

/// The most requests of a rate, and its longest period.
const MOST_COUNT: u64 = 1_000_000_000;
pub(super) const LONGEST: Span = Span::from_secs(366 * 24 * 3_600);

fn stands(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => {
            format!("the string {:?} stands here", text.chars().take(80).collect::<String>())
        }
        DeValue::Integer(number) => format!("{} stands here", number.as_str()),
        DeValue::Float(number) => format!("{} stands here", number.as_str()),
        DeValue::Boolean(yes) => format!("{yes} stands here"),
        other => format!("a {} stands here", other.type_str()),
    }
}

fn name(value: &DeValue<'_>) -> Option<String> {
    let text = value.as_str()?.trim();
    (!text.is_empty() && text.chars().count() <= 256 && !text.contains(char::is_control))
        .then(|| text.to_owned())
}

fn number(value: &DeValue<'_>) -> Option<u64> {
    let DeValue::Integer(number) = value else { return None };
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// `"12.5%"` in parts of a hundred thousand, digit by digit: at most three behind the point.
fn percent(text: &str) -> Option<u64> {
    let number = text.trim().strip_suffix('%')?.trim();
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits =
        |text: &str| (1..=3).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let (whole, behind): (u64, u64) = (whole.parse().ok()?, format!("{part:0<3}").parse().ok()?);
    Some(whole * 1_000 + behind).filter(|parts| *parts <= HUNDRED)
}

/// A hundred percent.
pub(super) const HUNDRED: u64 = 100_000;
