//! Descriptors as limits of a policy, with comments that say what each came from.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use threshold::policy::DescriptorEntry;
use threshold::{AlgorithmKind, LimitId, Span};

use super::read::{Allows, Descriptor, Domain, Limit};
use super::yaml::Place;
use super::{Imported, Remark};

/// The longest id that is as readable as what it came from.
const READABLE: usize = 48;
/// The most entries of one descriptor.
const ENTRIES: usize = 16;

/// A limit on its way into a policy.
struct Found<'a> {
    domain: &'a str,
    /// From the first entry to the last.
    path: Vec<&'a Descriptor>,
    id: String,
}

/// Writes the limits of `domains`.
pub(super) fn policy(domains: &[Domain], algorithm: Option<AlgorithmKind>) -> Imported {
    let mut writing = Writing { algorithm, text: String::new(), notes: Vec::new(), limits: 0 };
    let mut found = Vec::new();
    for domain in domains {
        gather(&domain.name, &domain.descriptors, &mut Vec::new(), &mut found);
    }
    let found = writing.nameable(found);
    let names = names(&found);
    for one in &found {
        writing.add(one, &names);
    }
    let Writing { text, notes, limits, .. } = writing;
    Imported { text, notes, limits }
}

/// Finds every descriptor that a limit is for: also those that have none and end there, because they keep others from
/// being found.
fn gather<'a>(
    domain: &'a str,
    descriptors: &'a [Descriptor],
    path: &mut Vec<&'a Descriptor>,
    found: &mut Vec<Found<'a>>,
) {
    for descriptor in descriptors {
        path.push(descriptor);
        if descriptor.limit.is_some() || descriptor.descriptors.is_empty() {
            found.push(Found { domain, path: path.clone(), id: String::new() });
        }
        gather(domain, &descriptor.descriptors, path, found);
        path.pop();
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
        let mut uses: HashMap<&str, usize> = HashMap::new();
        found.iter().filter_map(Found::name).for_each(|name| *uses.entry(name).or_default() += 1);
        let (mut taken, mut kept) = (HashSet::new(), Vec::new());
        for mut one in found {
            let last = one.last();
            if let Some(why) = one.unwritable() {
                let what = format!("{} is not carried over: {why}", one.shown());
                let _ = writeln!(self.text, "# Not carried over ({}): {why}.\n", shown(&last.place));
                self.note(&last.place, what, "write a limit for it by hand");
                continue;
            }
            let own = one.name().filter(|name| uses.get(name) == Some(&1) && LimitId::new(name).is_ok());
            one.id = own.map_or_else(|| one.derived(), str::to_owned);
            if !taken.insert(one.id.clone()) {
                one.id = one.hashed();
                taken.insert(one.id.clone());
            }
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
        let from = comment(&format!("{}: {}", shown(&last.place), one.shown()));
        let _ = writeln!(self.text, "# {from}");
        if last.limit.is_none() {
            let _ = writeln!(self.text, "# It has no limit, and keeps others from being found.");
        }
        self.others(last);
        let entries: Vec<String> = one.path.iter().map(|part| string(&entry(part))).collect();
        let _ = writeln!(self.text, "[[limit]]\nid = {}\nlayer = \"endpoint\"", string(&one.id));
        let _ = writeln!(self.text, "domain = {}", string(one.domain));
        let _ = writeln!(self.text, "descriptor = [{}]", entries.join(", "));
        let mut shared: Vec<String> =
            one.path.iter().filter(|part| part.shared).map(|part| string(&part.key)).collect();
        shared.dedup();
        if !shared.is_empty() {
            let _ = writeln!(self.text, "shared = [{}]", shared.join(", "));
        }
        self.allows(last);
        if let Some(limit) = &last.limit {
            self.replaces(one.domain, limit, names);
        }
        self.text.push('\n');
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
        let mut ids: Vec<String> = Vec::new();
        for (name, place) in &limit.replaces {
            match names.get(&(domain, name.as_str())) {
                Some(named) => ids.extend(named.iter().map(|id| string(id))),
                None => {
                    let what = format!("`replaces` names {name:?}, which no limit of the domain is called");
                    self.note(place, what, "leave it out there as well");
                }
            }
        }
        let mut seen = HashSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        if !ids.is_empty() {
            let _ = writeln!(self.text, "replaces = [{}]", ids.join(", "));
        }
    }

    /// Says what of a descriptor has another meaning here, or none.
    fn others(&mut self, last: &Descriptor) {
        for (name, place) in &last.others {
            let (what, remedy) = match *name {
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
            let _ = writeln!(self.text, "# Note ({name}): {what}.");
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

    /// `domain/key=value/key`, for people.
    fn shown(&self) -> String {
        let parts: Vec<String> = self.path.iter().map(|part| entry(part)).collect();
        format!("{}/{}", self.domain, parts.join("/"))
    }

    /// An id that reads like what it is for.
    fn derived(&self) -> String {
        let shown = self.shown();
        let plain = shown.chars().all(allowed);
        if plain && shown.len() <= READABLE { shown } else { self.hashed() }
    }

    /// The same with something that no other has; the same in every run.
    fn hashed(&self) -> String {
        let shown = self.shown();
        let readable: String =
            shown.chars().map(|c| if allowed(c) { c } else { '_' }).take(READABLE - 1).collect();
        format!("{readable}~{:012x}", mixed(shown.as_bytes()) >> 16)
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
        (!self.path.iter().all(same)).then_some("a key has a `=` in it")
    }
}

/// A number that differs for different bytes, and is the same for ever (FNV-1a).
fn mixed(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

fn allowed(c: char) -> bool {
    c.is_ascii_graphic() && c != '"' && c != '\\'
}

/// An entry as a policy writes it.
fn entry(part: &Descriptor) -> String {
    match &part.value {
        Some(value) => format!("{}={value}", part.key),
        None => part.key.clone(),
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

fn shown(place: &Place) -> String {
    comment(&format!("{}:{}", place.file, place.line))
}
