//! Reads a scenario: all of it, or all that is wrong with it.

use threshold::policy::{Problem, nearest};
use threshold::{Rate, Span, Timestamp};
use toml::de::DeTable;

use super::agents::Agents;
use super::cluster;
use super::dice::{Dice, Gap};
use super::fields::{HUNDRED, LONGEST, Notes, Table};
use super::pattern::Pattern;
use super::rhythm::{Arrivals, Rhythm};
use super::routes::{Route, Routes};
use super::sources::{Sources, Wrong};
use super::{Actor, Expectation, Forged, Kind, Scenario};

const MOST_BYTES: usize = 1 << 20;
const MOST_ACTORS: usize = 64;
const MOST_MEMBERS: u64 = 1_000_000;
const MOST_ITEMS: u64 = 1 << 32;
/// How many sets of header fields an actor makes up.
const FORGED: u64 = 1_024;

const ROOT: &[&str] = &[
    "about",
    "seed",
    "start",
    "lasts",
    "host",
    "login",
    "policy",
    "actor",
    "nodes",
    "outage",
    "partition",
    "crash",
];
const EVERY: [&str; 16] = [
    "name",
    "kind",
    "honest",
    "denied",
    "host",
    "tenant",
    "routes",
    "items",
    "agents",
    "bytes",
    "network",
    "prefix",
    "at",
    "for",
    "forge",
    "signed_in",
];

/// What the whole scenario says, for its actors.
struct Frame {
    start: Timestamp,
    lasts: Span,
    host: Option<String>,
}

pub(super) fn read(text: &str) -> Result<Scenario, Vec<Problem>> {
    let mut notes = Notes { text, problems: Vec::new() };
    if text.len() > MOST_BYTES {
        notes.note(0, "", format!("it has {} bytes", text.len()), format!("keep it below {MOST_BYTES}"));
        return Err(notes.problems);
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        notes.note(at, "", error.message(), "see https://toml.io for how to write it");
    }
    if !errors.is_empty() {
        // What could not be read hides what else is there: its fields would be called missing.
        return Err(notes.problems);
    }
    let scenario = whole(&Table::whole(table.get_ref()), &mut notes);
    match scenario {
        Some(scenario) if notes.problems.is_empty() => Ok(scenario),
        _ => Err(notes.problems),
    }
}

fn whole(root: &Table<'_>, notes: &mut Notes<'_>) -> Option<Scenario> {
    root.knows(ROOT, notes);
    let seed = root.number("seed", [0, u64::MAX >> 1], notes).unwrap_or(0);
    let start = match root.has("start") {
        true => root.instant("start", notes),
        // A Monday at midnight, so that a scenario needs no date.
        false => Some(Timestamp::from_micros(1_772_409_600_000_000)),
    };
    if !root.has("lasts") {
        root.missing("lasts", "\"24h\"", notes);
    }
    let lasts = root.span("lasts", notes);
    let login = root.text("login", notes).unwrap_or_else(|| "POST /auth/login".to_owned());
    let login = route(root, "login", &login, notes);
    let host = root.text("host", notes);
    let (about, policy) = (root.text("about", notes), root.text("policy", notes));
    // Where these could not be read, what depends on them is judged by something.
    let frame = Frame { start: start.unwrap_or_default(), lasts: lasts.unwrap_or(LONGEST), host };
    let tables = root.tables("actor", MOST_ACTORS, notes);
    if tables.is_empty() && !root.has("actor") {
        let remedy = "add `[[actor]]` with `kind = \"users\"` and `rate = \"30/hour\"`";
        notes.note(0, "actor", "nobody sends anything", remedy);
    }
    let actors: Vec<Option<Actor>> =
        tables.iter().enumerate().map(|(index, table)| actor((index, table), &frame, notes)).collect();
    let actors = actors.into_iter().collect::<Option<Vec<Actor>>>();
    let cluster = cluster::read(root, frame.start, notes);
    let actors = actors?;
    if actors.iter().map(|actor| actor.members).sum::<u64>() > MOST_MEMBERS {
        notes.note(0, "actor", format!("there are more than {MOST_MEMBERS} members"), "have fewer of them");
    }
    Some(Scenario { about, seed, start: start?, lasts: lasts?, login: login?, policy, actors, cluster })
}

fn actor((index, table): (usize, &Table<'_>), frame: &Frame, notes: &mut Notes<'_>) -> Option<Actor> {
    let kind = kind(table, notes)?;
    table.knows(&[&EVERY, own(kind)].concat(), notes);
    // All of it before any is given up, so that every mistake is noted.
    let active = active(table, frame, notes);
    let pattern = pattern(kind, table, (active, frame.start), notes);
    let members = if kind.roams() { 1 } else { table.number("count", [1, MOST_MEMBERS], notes).unwrap_or(1) };
    let sources = sources((index, kind), members, table, notes);
    let routes = routes(kind, table, notes);
    let name = table.text("name", notes).unwrap_or_else(|| kind.word().to_owned());
    let expected = table.bound("denied", notes).map(|(at_least, parts)| Expectation { at_least, parts });
    let agents = table.text("agents", notes);
    let host = table.text("host", notes).or_else(|| frame.host.clone());
    let tenant = table.text("tenant", notes);
    let honest = table.flag("honest", notes).unwrap_or(kind == Kind::Users);
    let signed_in = table.percent("signed_in", notes).unwrap_or(0);
    let accounts = table.number("accounts", [1, MOST_ITEMS], notes);
    let bytes = table.number("bytes", [0, 1 << 40], notes).unwrap_or(512);
    let forged = table.names("forge", notes).and_then(|names| forged(table, names, index, notes));
    Some(Actor {
        name,
        kind,
        honest,
        expected,
        members,
        active,
        pattern: pattern?,
        sources: sources?,
        routes: routes?,
        agents: Agents::read(agents.as_deref().unwrap_or_else(|| usual_agents(kind))),
        host,
        tenant,
        signed_in,
        accounts,
        bytes,
        forged,
    })
}

/// The fields that only this kind has.
const fn own(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Users => &["count", "rate", "session", "think", "rhythm", "peak_hour"],
        Kind::Crawler | Kind::Burst | Kind::Drip => &["count", "rate"],
        Kind::Stuffing => &["rate", "addresses", "accounts"],
        Kind::Flood => &["rate", "addresses"],
        Kind::Tenant => &["count", "rate", "grows_to"],
        Kind::Edges => &["count", "window", "each", "spread"],
    }
}

const fn usual_agents(kind: Kind) -> &'static str {
    match kind {
        Kind::Users | Kind::Tenant => "browsers",
        Kind::Crawler => "bots",
        _ => "scripts",
    }
}

fn kind(table: &Table<'_>, notes: &mut Notes<'_>) -> Option<Kind> {
    if !table.has("kind") {
        table.missing("kind", "\"users\"", notes);
    }
    let word = table.text("kind", notes)?;
    let found = Kind::ALL.into_iter().find(|kind| kind.word() == word);
    if found.is_none() {
        let known = Kind::ALL.map(Kind::word);
        let remedy = match nearest(&word, &known) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("write one of {}", known.join(", ")),
        };
        table.wrong("kind", format!("{word:?} is not known here"), &remedy, notes);
    }
    found
}

/// When it begins and ends, from the start of the scenario.
fn active(table: &Table<'_>, frame: &Frame, notes: &mut Notes<'_>) -> [u64; 2] {
    let begins = table.span("at", notes).unwrap_or(Span::ZERO);
    if begins >= frame.lasts {
        let what = format!("it begins after {begins}, when all is over");
        table.wrong("at", what, "begin earlier, or let the scenario last longer", notes);
    }
    let lasts = frame.lasts.as_micros().saturating_sub(begins.as_micros());
    let own = table.span("for", notes).map_or(lasts, Span::as_micros);
    [begins.as_micros(), begins.as_micros() + own.min(lasts)]
}

fn pattern(
    kind: Kind,
    table: &Table<'_>,
    (active, start): ([u64; 2], Timestamp),
    notes: &mut Notes<'_>,
) -> Option<Pattern> {
    if kind == Kind::Edges {
        return edges(table, notes);
    }
    if !table.has("rate") {
        table.missing("rate", "\"30/hour\"", notes);
    }
    let rate = table.rate("rate", notes);
    Some(match kind {
        Kind::Users => return visits(table, rate, start.plus(Span::from_micros(active[0])), notes),
        Kind::Tenant => {
            let grown = if table.has("grows_to") { table.rate("grows_to", notes) } else { rate };
            let over = Span::from_micros(active[1] - active[0]);
            Pattern::Random(Arrivals::growing([&rate?, &grown?], over))
        }
        Kind::Drip | Kind::Crawler => Pattern::Steady(Gap::of(&rate?)),
        _ => Pattern::Random(Arrivals::new(Gap::of(&rate?), Rhythm::Flat)),
    })
}

/// People: visits of some requests, more of them by day.
fn visits(table: &Table<'_>, rate: Option<Rate>, start: Timestamp, notes: &mut Notes<'_>) -> Option<Pattern> {
    let requests = table.number("session", [1, 100], notes).unwrap_or(8);
    let think = if table.has("think") { table.span("think", notes) } else { Some(Span::from_secs(15)) };
    let peak = table.number("peak_hour", [0, 23], notes);
    let rhythm = match table.text("rhythm", notes).as_deref() {
        Some("daily") => Rhythm::daily(peak.unwrap_or(20), start),
        Some("flat") | None => Rhythm::Flat,
        Some(other) => {
            table.wrong(
                "rhythm",
                format!("{other:?} is not known here"),
                "write \"daily\" or \"flat\"",
                notes,
            );
            return None;
        }
    };
    if peak.is_some() && matches!(rhythm, Rhythm::Flat) {
        table.wrong("peak_hour", "there is no peak without a rhythm", "add `rhythm = \"daily\"`", notes);
    }
    let (rate, think) = (rate?, think?);
    // Half of the time at most is spent thinking at the peak, or visits would pile up.
    let thinks = u128::from(rate.count()) * u128::from(think.as_micros()) * 4;
    if thinks > u128::from(rate.period().as_micros()) {
        let what = format!("at {rate}, nobody has {think} between two requests");
        table.wrong("rate", what, "lower the rate, or shorten `think`", notes);
    }
    let begin = Arrivals::new(Gap::of(&rate).denser(1, requests), rhythm);
    Some(Pattern::Visits { begin, requests, think: Gap::each(think) })
}

fn edges(table: &Table<'_>, notes: &mut Notes<'_>) -> Option<Pattern> {
    for (field, example) in [("window", "\"1min\""), ("each", "100")] {
        if !table.has(field) {
            table.missing(field, example, notes);
        }
    }
    let (window, each) = (table.span("window", notes), table.number("each", [1, 1_000_000], notes));
    let spread = table.span("spread", notes).unwrap_or(Span::SECOND);
    let (window, each) = (window?, each?);
    if spread.as_micros() * 2 > window.as_micros() {
        let what = format!("{spread} on both sides of an edge is more than a window of {window}");
        table.wrong("spread", what, "shorten it, or lengthen `window`", notes);
    }
    Some(Pattern::Edges { window, each, spread })
}

fn sources(
    (index, kind): (usize, Kind),
    members: u64,
    table: &Table<'_>,
    notes: &mut Notes<'_>,
) -> Option<Sources> {
    let prefix = table.number("prefix", [0, 128], notes);
    let network = match table.has("network") {
        true => table.text("network", notes)?,
        // Networks that are nobody's, one for each actor.
        false if kind == Kind::Stuffing => format!("2001:db8:{index:x}::/48"),
        false if kind == Kind::Flood => format!("2001:db8:{index:x}::/32"),
        false => format!("100.{}.0.0/16", 64 + index),
    };
    let mut sources = match Sources::new(&network, prefix) {
        Ok(sources) => sources,
        Err(Wrong::Network) => {
            table.wrong(
                "network",
                format!("{network:?} is no network"),
                "write \"2001:db8::/32\" or the like",
                notes,
            );
            return None;
        }
        Err(Wrong::Prefix { least, most }) => {
            let remedy = format!("write a number from {least} to {most}");
            table.wrong("prefix", format!("{network} has no such networks in it"), &remedy, notes);
            return None;
        }
    };
    let room = sources.room();
    let (field, wanted) = match kind.roams() {
        true => ("addresses", table.number("addresses", [1, 1 << 48], notes).unwrap_or(room)),
        false => ("count", members),
    };
    if wanted > room {
        let what = format!("{network} has room for {room} of them");
        table.wrong(field, what, "have fewer, or a larger `network`", notes);
        return None;
    }
    sources.used = wanted;
    Some(sources)
}

fn routes(kind: Kind, table: &Table<'_>, notes: &mut Notes<'_>) -> Option<Routes> {
    let items = table.number("items", [1, MOST_ITEMS], notes).unwrap_or(1_000);
    let usual: &[(&str, u64)] = match kind {
        Kind::Stuffing => &[("POST /auth/login", 1)],
        Kind::Crawler => &[("GET /posts/*", 1)],
        Kind::Users | Kind::Tenant => &[("GET /", 2), ("GET /posts/*", 8)],
        Kind::Burst | Kind::Drip | Kind::Edges | Kind::Flood => &[("GET /", 1)],
    };
    if !table.has("routes") {
        let known = usual.iter().filter_map(|(text, weight)| Some((Route::read(text)?, *weight)));
        return Some(Routes::new(known.collect(), items));
    }
    let inner = table.table("routes", notes)?;
    let weights = inner.weights(notes);
    if weights.is_empty() || weights.len() > 256 {
        table.wrong("routes", format!("there are {} of them", weights.len()), "write 1 to 256", notes);
        return None;
    }
    let routes: Vec<_> =
        weights.iter().map(|(text, weight)| Some((route(&inner, text, text, notes)?, *weight))).collect();
    Some(Routes::new(routes.into_iter().collect::<Option<Vec<_>>>()?, items))
}

fn route(table: &Table<'_>, field: &str, text: &str, notes: &mut Notes<'_>) -> Option<Route> {
    let route = Route::read(text);
    if route.is_none() {
        let remedy = "write a method and a path such as \"GET /posts/*\"";
        table.wrong(field, format!("{text:?} is no route"), remedy, notes);
    }
    route
}

/// What an actor says of itself that is not true: addresses that change all the time.
fn forged(table: &Table<'_>, names: Vec<String>, index: usize, notes: &mut Notes<'_>) -> Option<Forged> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if let Some(name) = names.iter().find(|name| !name.bytes().all(token)) {
        let remedy = "write names such as \"x-forwarded-for\"";
        table.wrong("forge", format!("{name:?} is no name of a header field"), remedy, notes);
        return None;
    }
    let mut dice = Dice::new(&[index as u64, HUNDRED]);
    let values = (0..FORGED).map(|_| {
        let [a, b, c] = [(); 3].map(|()| 1 + dice.below(254));
        format!("203.{a}.{b}.{c}")
    });
    Some(Forged { values: values.collect(), names })
}
