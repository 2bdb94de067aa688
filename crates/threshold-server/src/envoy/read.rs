//! A file as descriptors, checked as the other service checks them, and a little more closely.

use std::collections::HashSet;
use std::rc::Rc;

use threshold::Span;
use threshold::policy::nearest;

use super::yaml::{self, Node, Pair, Place, Value};
use super::{Remark, Source};

/// Fields of the document, of a descriptor, of its limit.
const ROOT: [&str; 2] = ["domain", "descriptors"];
const DESCRIPTOR: [&str; 10] = [
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];
const LIMIT: [&str; 5] = ["unit", "requests_per_unit", "unlimited", "name", "replaces"];
const REPLACED: [&str; 1] = ["name"];

/// Units by name, with how a rate writes them.
const UNITS: [(&str, &str, Span); 7] = [
    ("second", "s", Span::SECOND),
    ("minute", "min", Span::MINUTE),
    ("hour", "hour", Span::HOUR),
    ("day", "day", Span::DAY),
    ("week", "7 days", Span::from_secs(7 * 86_400)),
    ("month", "30 days", Span::from_secs(30 * 86_400)),
    ("year", "365 days", Span::from_secs(365 * 86_400)),
];

/// All of one domain.
pub(super) struct Domain {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) descriptors: Vec<Descriptor>,
}

/// A descriptor's last entry, and those that go on from it.
pub(super) struct Descriptor {
    pub(super) place: Place,
    pub(super) key: String,
    /// None for any value.
    pub(super) value: Option<String>,
    pub(super) limit: Option<Limit>,
    pub(super) shadow: bool,
    /// True if the values that a pattern matches count together.
    pub(super) shared: bool,
    /// Fields that have no meaning here, or another.
    pub(super) others: Vec<(&'static str, Place)>,
    pub(super) descriptors: Vec<Descriptor>,
}

impl Descriptor {
    /// True if it is for one value.
    pub(super) fn is_exact(&self) -> bool {
        self.value.as_ref().is_some_and(|value| !value.contains('*'))
    }
}

/// A limit.
pub(super) struct Limit {
    pub(super) allows: Allows,
    pub(super) name: Option<String>,
    pub(super) replaces: Vec<(String, Place)>,
}

/// What a limit allows.
pub(super) enum Allows {
    Everything,
    Nothing,
    /// So many in a unit, as a rate writes it, and how long that is.
    Rate(u32, &'static str, Span),
}

/// The fields of a map.
struct Fields<'a> {
    place: &'a Place,
    pairs: &'a [Pair],
}

/// Reads the domain in `source`, or everything that is wrong with it.
pub(super) fn domain(source: &Source) -> Result<Domain, Vec<Remark>> {
    let root = yaml::read(source).map_err(|remark| vec![remark])?;
    let mut mistakes = Vec::new();
    let read = read_root(&root, &mut mistakes);
    match read {
        Some(domain) if mistakes.is_empty() => Ok(domain),
        _ => Err(mistakes),
    }
}

fn read_root(root: &Node, mistakes: &mut Vec<Remark>) -> Option<Domain> {
    let fields = Fields::of(root, &ROOT, mistakes)?;
    let name = fields.text("domain", mistakes).unwrap_or_default();
    if name.is_empty() {
        let remedy = "write `domain: NAME`, as the proxy names it";
        mistakes.push(root.place.remark("the domain is missing or empty", remedy));
    }
    let place = fields.get("domain").map_or(&root.place, |domain| &domain.place).clone();
    let descriptors = descriptors(&fields, mistakes);
    Some(Domain { name, place, descriptors })
}

fn descriptors(fields: &Fields<'_>, mistakes: &mut Vec<Remark>) -> Vec<Descriptor> {
    let mut all: Vec<Descriptor> = Vec::new();
    let mut known = HashSet::new();
    for item in fields.list("descriptors", mistakes) {
        let Some(descriptor) = read_descriptor(item, mistakes) else { continue };
        if !known.insert((descriptor.key.clone(), descriptor.value.clone())) {
            let value = descriptor.value.as_deref().map_or(String::new(), |value| format!(" with {value:?}"));
            let what = format!("{:?}{value} stands here twice", descriptor.key);
            mistakes.push(descriptor.place.remark(what, "put both together"));
        }
        all.push(descriptor);
    }
    all
}

fn read_descriptor(node: &Node, mistakes: &mut Vec<Remark>) -> Option<Descriptor> {
    let fields = Fields::of(node, &DESCRIPTOR, mistakes)?;
    let key = fields.text("key", mistakes).unwrap_or_default();
    if key.is_empty() {
        mistakes.push(node.place.remark("this descriptor has no key", "write `key: NAME`"));
    }
    let value = fields.text("value", mistakes).filter(|value| !value.is_empty());
    let shared = fields.truth("share_threshold", mistakes);
    if shared && !value.as_ref().is_some_and(|value| value.contains('*')) {
        let what = "`share_threshold` is for values with a `*`, and this has none";
        mistakes.push(node.place.remark(what, "remove it, or write the value with a `*`"));
    }
    let mut others = Vec::new();
    for name in ["quota_mode", "detailed_metric", "value_to_metric"] {
        if fields.truth(name, mistakes) {
            others.extend(fields.get(name).map(|node| (name, node.place.clone())));
        }
    }
    others.extend(fields.get("metadata").map(|node| ("metadata", node.place.clone())));
    let limit = fields.get("rate_limit").filter(|node| !matches!(node.value, Value::Nothing));
    Some(Descriptor {
        place: node.place.clone(),
        limit: limit.and_then(|limit| read_limit(limit, mistakes)),
        shadow: fields.truth("shadow_mode", mistakes),
        descriptors: descriptors(&fields, mistakes),
        key,
        value,
        shared,
        others,
    })
}

fn read_limit(node: &Node, mistakes: &mut Vec<Remark>) -> Option<Limit> {
    let fields = Fields::of(node, &LIMIT, mistakes)?;
    let unlimited = fields.truth("unlimited", mistakes);
    let unit = fields.text("unit", mistakes);
    let known = unit.as_ref().map(|unit| {
        let lower = unit.to_lowercase();
        UNITS.iter().find(|(name, ..)| *name == lower)
    });
    let allows = match (unlimited, known) {
        (true, Some(Some(_))) => {
            let what = "what is unlimited has no unit";
            mistakes.push(node.place.remark(what, "remove `unit` or `unlimited`"));
            return None;
        }
        (true, _) => Allows::Everything,
        (false, Some(Some((_, written, period)))) => match fields.count("requests_per_unit", mistakes) {
            0 => Allows::Nothing,
            count => Allows::Rate(count, written, *period),
        },
        (false, _) => {
            let place = fields.get("unit").map_or(&node.place, |unit| &unit.place);
            let what = match &unit {
                Some(unit) => format!("{unit:?} is no unit"),
                None => "the unit is missing".to_owned(),
            };
            let remedy = "write second, minute, hour, day, week, month or year";
            mistakes.push(place.remark(what, remedy));
            return None;
        }
    };
    let name = fields.text("name", mistakes).filter(|name| !name.is_empty());
    let replaces = replaces(&fields, name.as_deref(), mistakes);
    Some(Limit { allows, name, replaces })
}

fn replaces(fields: &Fields<'_>, own: Option<&str>, mistakes: &mut Vec<Remark>) -> Vec<(String, Place)> {
    let mut all = Vec::new();
    for item in fields.list("replaces", mistakes) {
        let Some(fields) = Fields::of(item, &REPLACED, mistakes) else { continue };
        match fields.text("name", mistakes) {
            Some(name) if Some(name.as_str()) == own => {
                mistakes.push(item.place.remark("a limit cannot replace itself", "name another"));
            }
            Some(name) if !name.is_empty() => all.push((name, item.place.clone())),
            _ => mistakes.push(item.place.remark("nothing is named here", "write `name: NAME`")),
        }
    }
    all
}

impl<'a> Fields<'a> {
    /// Opens a map and notes the names that it should not have.
    fn of(node: &'a Node, known: &[&str], mistakes: &mut Vec<Remark>) -> Option<Self> {
        let Value::Map(pairs) = &node.value else {
            let what = "something else than fields stands here";
            mistakes.push(node.place.remark(what, format!("write `{}: ...`", known[0])));
            return None;
        };
        for (key, _) in pairs {
            let Some(name) = key.text() else { continue };
            if !known.contains(&name) {
                let remedy = match nearest(name, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("remove it; there are {}", known.join(", ")),
                };
                mistakes.push(key.place.remark(format!("there is no field {name:?} here"), remedy));
            }
        }
        Some(Self { place: &node.place, pairs })
    }

    fn get(&self, name: &str) -> Option<&'a Node> {
        self.pairs.iter().find(|(key, _)| key.text() == Some(name)).map(|(_, value)| &**value)
    }

    fn text(&self, name: &str, mistakes: &mut Vec<Remark>) -> Option<String> {
        let node = self.get(name)?;
        if let Value::List(_) | Value::Map(_) = &node.value {
            mistakes.push(node.place.remark(format!("`{name}` is no text"), "write one value"));
        }
        node.text().map(str::to_owned)
    }

    fn truth(&self, name: &str, mistakes: &mut Vec<Remark>) -> bool {
        let Some(text) = self.text(name, mistakes) else { return false };
        match text.to_lowercase().as_str() {
            "true" | "yes" | "on" | "y" => true,
            "false" | "no" | "off" | "n" => false,
            _ => {
                let place = self.get(name).map_or(self.place, |node| &node.place);
                mistakes
                    .push(place.remark(format!("{text:?} is neither true nor false"), "write one of them"));
                false
            }
        }
    }

    fn count(&self, name: &str, mistakes: &mut Vec<Remark>) -> u32 {
        let Some(text) = self.text(name, mistakes) else { return 0 };
        let place = self.get(name).map_or(self.place, |node| &node.place);
        let digits = text.replace('_', "");
        if digits.trim_start_matches('+').strip_prefix('0').is_some_and(|rest| !rest.is_empty()) {
            // The other service reads it by the base of eight.
            let what = format!("{text:?} begins with a 0, and readers differ on what number that is");
            mistakes.push(place.remark(what, "write it with digits of ten, and no 0 before them"));
            return 0;
        }
        digits.parse().unwrap_or_else(|_| {
            let remedy = format!("write a whole number of at most {}", u32::MAX);
            mistakes.push(place.remark(format!("{text:?} is no number of requests"), remedy));
            0
        })
    }

    fn list(&self, name: &str, mistakes: &mut Vec<Remark>) -> &'a [Rc<Node>] {
        let Some(node) = self.get(name) else { return &[] };
        match &node.value {
            Value::List(items) => items,
            Value::Nothing => &[],
            Value::Text(_) | Value::Merge | Value::Map(_) => {
                let what = format!("`{name}` is no list");
                mistakes.push(node.place.remark(what, "put a `-` before each of its items"));
                &[]
            }
        }
    }
}
