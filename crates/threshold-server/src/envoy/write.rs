//! Descriptors as limits of a policy, with comments that say what each came from.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use threshold::policy::DescriptorEntry;
use threshold::{AlgorithmKind, LimitId, Span};

use super::ids::{Ids, entry, shown};
use super::read::{Allows, Descriptor, Domain, Limit};
use super::yaml::Place;
use super::{Imported, Remark};

/// The most limits that a policy has of these.
const LIMITS: usize = 10_000;
/// The most bytes of entries in them, and of all that is written.
const TEXT: usize = 16 * 1024 * 1024;
/// The most entries of one descriptor.
const ENTRIES: usize = 16;

/// A limit on its way into a policy.
struct Found<'a> {
    domain: &'a str,
    /// From the first entry to the last.
    path: Vec<&'a Descriptor>,
    id: String,
}

/// Everything in a domain's tree.
#[derive(Default)]
struct Gathered<'a> {
    found: Vec<Found<'a>>,
    /// Descriptors that only lead to others.
    passed: Vec<&'a Descriptor>,
}

/// Writes the limits of `domains`, unless they are too many.
pub(super) fn policy(domains: &[Domain], algorithm: Option<AlgorithmKind>) -> Result<Imported, Remark> {
    let mut writing = Writing { algorithm, text: String::new(), notes: Vec::new(), limits: 0 };
    let mut all = Gathered::default();
    for domain in domains {
        all.gather(&domain.name, &domain.descriptors, &mut Vec::new());
    }
    bounded(&all.found)?;
    all.passed.iter().for_each(|passed| writing.others(passed));
    let found = writing.nameable(all.found);
    let names = names(&found);
    for one in &found {
        writing.add(one, &names);
        if writing.text.len() > TEXT {
            let what = format!("the limits up to here are more than {TEXT} bytes");
            return Err(one.last().place.remark(what, "name fewer in `replaces`, or shorten what is long"));
        }
    }
    let Writing { text, notes, limits, .. } = writing;
    Ok(Imported { text, notes, limits })
}

/// Makes sure that they are not too many, nor too long: what a descriptor begins with is written for all that go on from it.
fn bounded(found: &[Found<'_>]) -> Result<(), Remark> {
    let mut text = 0;
    for (count, one) in found.iter().enumerate() {
        let entry = |part: &&Descriptor| part.key.len() + part.value.as_ref().map_or(0, String::len);
        text += one.domain.len() + one.path.iter().map(entry).sum::<usize>();
        if count == LIMITS {
            let what = format!("there are more than {LIMITS} limits in all");
            let remedy = "leave the value out where all values have the same limit";
            return Err(one.last().place.remark(what, remedy));
        }
        if text > TEXT {
            let what = format!("the entries of all limits up to here are more than {TEXT} bytes");
            return Err(one.last().place.remark(what, "shorten the domain, the keys or the values"));
        }
    }
    Ok(())
}

impl<'a> Gathered<'a> {
    /// Finds every descriptor that a limit is for: also those that have none and end there, because they keep others from
    /// being found.
    fn gather(&mut self, domain: &'a str, descriptors: &'a [Descriptor], path: &mut Vec<&'a Descriptor>) {
        for descriptor in descriptors {
            path.push(descriptor);
            if descriptor.limit.is_some() || descriptor.descriptors.is_empty() {
                self.found.push(Found { domain, path: path.clone(), id: String::new() });
            } else {
                self.passed.push(descriptor);
            }
            self.gather(domain, &descriptor.descriptors, path);
            path.pop();
        }
    }
}

/// The ids of limits by domain and by the names that they had.
type Names<'a> = HashMap<(&'a str, &'a str), Vec<String>>;

fn names<'a>(found: &[Found<'a>]) -> Names<'a> {
    let mut names = Names::new();
    for one in found {
        if let Some(name) = one.name() {
            names.entry((one.domain, name)).or_default().push(one.id.clone());
        }
    }
    names
}

struct Writing {
    algorithm: Option<AlgorithmKind>,
    text: String,
    notes: Vec<Remark>,
    limits: usize,
}

impl Writing {
    /// Gives each its id; what cannot be written as a descriptor is noted and left out.
    fn nameable<'a>(&mut self, found: Vec<Found<'a>>) -> Vec<Found<'a>> {
        let (mut ids, mut kept) = (Ids::default(), Vec::new());
        for mut one in found {
            let last = one.last();
            if let Some(why) = one.unwritable() {
                let what = format!("{} is not carried over: {why}", shown(one.domain, &one.path));
                let _ = writeln!(self.text, "# Not carried over ({}): {why}.\n", at(&last.place));
                self.note(&last.place, what, "write a limit for it by hand");
                continue;
            }
            one.id = ids.give(one.domain, &one.path);
            kept.push(one);
        }
        kept
    }

    fn note(&mut self, place: &Place, what: impl Into<String>, remedy: &str) {
        self.notes.push(place.remark(what, remedy));
    }

    fn add(&mut self, one: &Found<'_>, names: &Names<'_>) {
        let last = one.last();
        self.limits += 1;
        let from = comment(&format!("{}: {}", at(&last.place), shown(one.domain, &one.path)));
        let _ = writeln!(self.text, "# {from}");
        if last.limit.is_none() {
            let _ = writeln!(self.text, "# It has no limit, and keeps others from being found.");
        }
        self.others(last);
        let entries: Vec<String> = one.path.iter().map(|part| string(&entry(part))).collect();
        let _ = writeln!(self.text, "[[limit]]\nid = {}\nlayer = \"endpoint\"", string(&one.id));
        self.name(one);
        let _ = writeln!(self.text, "domain = {}", string(one.domain));
        let _ = writeln!(self.text, "descriptor = [{}]", entries.join(", "));
        let shared = one.shared();
        if !shared.is_empty() {
            let _ = writeln!(self.text, "shared = [{}]", shared.join(", "));
        }
        self.allows(last);
        if let Some(limit) = &last.limit {
            self.replaces(one.domain, limit, names);
        }
        self.text.push('\n');
    }

    /// What answers call the limit.
    fn name(&mut self, one: &Found<'_>) {
        match one.name() {
            Some(name) if LimitId::new(name).is_ok() => {
                let _ = writeln!(self.text, "name = {}", string(name));
            }
            Some(name) => {
                let what = format!("the name {name:?} is not carried over: answers cannot show it");
                let remedy =
                    "write at most 64 letters, digits and signs, without spaces, quotes and backslashes";
                self.note(&one.last().place, what, remedy);
            }
            None => {}
        }
    }

    /// What the limit allows, and how far it is in force.
    fn allows(&mut self, last: &Descriptor) {
        match last.limit.as_ref().map_or(&Allows::Everything, |limit| &limit.allows) {
            Allows::Everything => self.text.push_str("enforce = \"off\"\n"),
            Allows::Nothing => self.text.push_str("refuse = true\n"),
            Allows::Rate(count, unit, period) => {
                let by_clock = *period <= Span::DAY;
                let ready = if by_clock { AlgorithmKind::CalendarWindow } else { AlgorithmKind::FixedWindow };
                let rate = if by_clock { format!("{count}/{unit}") } else { format!("{count} per {unit}") };
                let algorithm = self.algorithm.unwrap_or(ready).name();
                let _ = writeln!(self.text, "rate = \"{rate}\"\nalgorithm = \"{algorithm}\"");
            }
        }
        let limited = last.limit.as_ref().is_some_and(|limit| !matches!(limit.allows, Allows::Everything));
        if last.shadow && limited {
            self.text.push_str("enforce = \"observe\"\n");
        }
    }

    fn replaces(&mut self, domain: &str, limit: &Limit, names: &Names<'_>) {
        let (mut ids, mut seen) = (Vec::new(), HashSet::new());
        for (name, place) in limit.replaces.iter().filter(|(name, _)| seen.insert(name)) {
            match names.get(&(domain, name.as_str())) {
                Some(named) => ids.extend(named.iter().map(|id| string(id))),
                None => {
                    let what = format!("`replaces` names {name:?}, which no limit of the domain is called");
                    self.note(place, what, "leave it out there as well");
                }
            }
        }
        if !ids.is_empty() {
            let _ = writeln!(self.text, "replaces = [{}]", ids.join(", "));
        }
    }

    /// Says what of a descriptor has another meaning here, or none.
    fn others(&mut self, descriptor: &Descriptor) {
        for (name, place) in &descriptor.others {
            let (what, remedy) = match *name {
                _ if descriptor.limit.is_none() => {
                    ("what is said of a descriptor without a limit is not carried over", "leave it out")
                }
                "quota_mode" => (
                    "`quota_mode` is not carried over: the limit refuses by itself, not only when all of the mode do",
                    "write `enforce = \"observe\"` if it is to refuse nobody",
                ),
                "metadata" => ("`metadata` is not carried over: answers carry none", "leave it out"),
                _ => (
                    "`detailed_metric` and `value_to_metric` are not carried over: metrics are by limit",
                    "leave them out",
                ),
            };
            let _ = writeln!(self.text, "# Note ({}, {name}): {what}.", at(place));
            self.note(place, what, remedy);
        }
    }
}

impl<'a> Found<'a> {
    fn last(&self) -> &'a Descriptor {
        self.path[self.path.len() - 1]
    }

    fn name(&self) -> Option<&'a str> {
        self.last().limit.as_ref()?.name.as_deref()
    }

    /// How `shared` names the entries whose values count together: by their key, unless others of it do not.
    fn shared(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for part in self.path.iter().filter(|part| part.shared) {
            let apart = |other: &&Descriptor| other.key == part.key && !other.shared && !other.is_exact();
            let name = if self.path.iter().any(apart) { entry(part) } else { part.key.clone() };
            let name = string(&name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Why it cannot be written as a descriptor.
    fn unwritable(&self) -> Option<&'static str> {
        let same =
            |part: &&Descriptor| DescriptorEntry::read(&entry(part)).is_some_and(|read| read.key == part.key);
        if self.path.len() > ENTRIES {
            return Some("it has more than 16 entries");
        }
        if self.path.iter().any(|part| part.key.contains('*')) {
            return Some("a key has a `*` in it");
        }
        if !self.path.iter().all(same) {
            return Some("a key has a `=` in it");
        }
        let alike = |one: &Descriptor| {
            let other = |other: &&Descriptor| (&other.key, &other.value) == (&one.key, &one.value);
            self.path.iter().any(|part| other(part) && !part.shared)
        };
        let unclear = self.path.iter().any(|part| part.shared && alike(part));
        unclear.then_some("two of its entries are the same, and `share_threshold` is of one of them")
    }
}

/// A text in quotes, in which nothing is taken from the environment.
fn string(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 2);
    written.push('"');
    for c in text.replace("${", "$${").chars() {
        match c {
            '"' | '\\' => written.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(written, "\\U{:08X}", u32::from(c));
            }
            c => written.push(c),
        }
    }
    written.push('"');
    written
}

/// A text in one line.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn at(place: &Place) -> String {
    comment(&format!("{}:{}", place.file, place.line))
}
