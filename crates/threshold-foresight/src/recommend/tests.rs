//! What is said of a limit, judged by others: by arithmetic with whole numbers, and by the engine with the limit in force.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use threshold::engine::Rules;
use threshold::policy::Policy;
use threshold::{Rate, Span};
use threshold_testkit::figures::size;
use threshold_testkit::simulate::Dice;

use super::*;
use crate::replay::{Replay, secrets};
use crate::{Headers, Request};

/// A line of a log that was made up.
#[derive(Clone, Debug)]
struct Line {
    at: Timestamp,
    client: IpAddr,
    method: &'static str,
    target: String,
    user: Option<String>,
    tenant: Option<&'static str>,
}

impl Line {
    fn request(&self) -> Request<'_> {
        Request {
            at: self.at,
            client: self.client,
            method: self.method,
            host: None,
            target: &self.target,
            bytes: None,
            status: None,
            agent: None,
            user: self.user.as_deref(),
            tenant: self.tenant,
            account: None,
            headers: Headers::NONE,
        }
    }
}

const ODD: [&str; 8] =
    ["/", "/%zz", "/a//b/../c", "/\"quoted\"", "/x\\y", "/\u{1f333}", "/a/b/c/d/e/f/g/h/i", "/{id}/**"];

fn line(at: Timestamp, dice: &mut Dice) -> Line {
    let (number, client) = (dice.roll(40), dice.roll(12));
    let target = match dice.roll(10) {
        0..5 => format!("/posts/{number}"),
        5 => "/posts/new".to_owned(),
        6 => format!("/api/v1/users/{number}/edit?x={number}"),
        7 => "/auth/login".to_owned(),
        8 => format!("/{}/leaf", ["oak", "ash", "elm"][dice.roll(3) as usize]),
        _ => (*dice.pick(&ODD)).to_owned(),
    };
    let client: IpAddr = match client {
        0..8 => Ipv4Addr::new(192, 0, 2, client as u8).into(),
        _ => Ipv6Addr::new(0x2001, 0xdb8, 0, client as u16, 0, 0, 0, number as u16).into(),
    };
    let odd = || "x\n[[limit]]\u{7}\"".to_owned();
    let user = match dice.roll(4) {
        0 => Some(format!("user{}", number % 5)),
        1 if number == 1 => Some(odd()),
        _ => None,
    };
    let (method, tenant) = (
        *dice.pick(&["GET", "GET", "HEAD", "POST", "BREW"]),
        *dice.pick(&[None, Some("acorn"), Some("oak")]),
    );
    Line { at, client, method, target, user, tenant }
}

fn log(seed: u64) -> Vec<Line> {
    let mut dice = Dice::new(seed);
    let mut at = Timestamp::from_micros(1_772_409_600_000_000);
    let (count, pause) = (50 + dice.roll(1_500), 10_000 << dice.roll(14));
    let next = |_| {
        let gap = if dice.once_in(3) { dice.roll(1_000) } else { dice.roll(pause) };
        at = at.plus(Span::from_micros(gap));
        line(at, &mut dice)
    };
    (0..count).map(next).collect()
}

fn recommend(log: &[Line], options: Options) -> Recommendation {
    let mut recommender = Recommender::new(options);
    log.iter().for_each(|line| recommender.see(&line.request()));
    recommender.finish()
}

fn logs() -> impl Iterator<Item = (u64, Vec<Line>)> {
    (0..size(60, 2_000)).map(|seed| (seed, log(seed)))
}

/// The policy of one limit, on addresses.
fn one_limit(pattern: Option<&Pattern>, rate: &Rate) -> String {
    let limit = "[[limit]]\nid = \"one\"\nlayer = \"user\"\nper = \"ip\"";
    match pattern {
        Some(pattern) => format!("[routes]\nr = \"{pattern}\"\n{limit}\nroute = \"r\"\nrate = \"{rate}\""),
        None => format!("{limit}\nrate = \"{rate}\""),
    }
}

/// How many requests the engine refuses with this limit alone, and to how many networks.
fn by_the_engine(log: &[Line], text: &str) -> (u64, u64) {
    let policy = Policy::read("p.toml", text, &|_| None).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let rules = Rules::new(&policy, &secrets(), &|_| None).expect("rules");
    let mut replay = Replay::new(rules).expect("memory");
    let (mut refused, mut hit) = (0, BTreeSet::new());
    for line in log {
        let request = line.request();
        let judged = replay.ask(&request);
        if matches!(judged.decision.refusal(), Some(refusal) if matches!(refusal.reason, threshold::engine::Reason::Limit(_)))
        {
            refused += 1;
            let mut name = String::new();
            name_network(&mut name, line.client, 64);
            hit.insert(name);
        }
    }
    (refused, hit.len() as u64)
}

/// The requests of an engine that reads odd paths as we do: those that have no pattern are of no route.
fn plain(log: Vec<Line>) -> Vec<Line> {
    let known = |line: &Line| !ODD[1..].contains(&line.target.as_str()) && line.method != "BREW";
    log.into_iter().filter(known).collect()
}

#[test]
fn what_is_said_of_a_candidate_is_what_the_engine_does() {
    let mut judged = 0;
    for (seed, log) in logs().step_by(4) {
        let log = plain(log);
        let recommendation = recommend(&log, Options::default());
        for finding in recommendation.findings.iter().filter(|finding| finding.kind == SubjectKind::Address) {
            for candidate in &finding.candidates {
                let text = one_limit(finding.pattern.as_ref(), &candidate.rate);
                let is = by_the_engine(&log, &text);
                assert_eq!((candidate.requests_hit, candidate.subjects_hit), is, "seed {seed}\n{text}");
                judged += 1;
            }
        }
    }
    assert!(judged > 300, "{judged}");
}

/// Many who ask a few times and a few who ask often, some by day and some by night: those beyond the 99th of a hundred are
/// refused, one after the other.
fn uneven(seed: u64) -> Vec<Line> {
    let (mut dice, start) = (Dice::new(seed), Timestamp::from_micros(1_772_409_600_000_000));
    let mut all = Vec::new();
    for person in 0..600_u32 {
        let (often, pause) =
            if person % 120 == 7 { (200 + dice.roll(900), 2_000) } else { (dice.roll(12), 40_000) };
        let mut at = start.plus(Span::from_millis(dice.roll(80_000_000)));
        for _ in 0..often {
            at = at.plus(Span::from_millis(dice.roll(pause)));
            let client = Ipv4Addr::from_bits(0x0a00_0000 + person).into();
            all.push(Line { at, client, ..line(at, &mut dice) });
        }
    }
    all.sort_by_key(|line| line.at);
    plain(all)
}

#[test]
fn each_subject_is_tried_on_its_own_times() {
    let mut refused = 0;
    for seed in 0..size(3, 60) {
        let log = uneven(seed);
        let recommendation = recommend(&log, Options::default());
        for finding in recommendation.findings.iter().filter(|finding| finding.kind == SubjectKind::Address) {
            for candidate in &finding.candidates {
                let text = one_limit(finding.pattern.as_ref(), &candidate.rate);
                let is = by_the_engine(&log, &text);
                assert_eq!((candidate.requests_hit, candidate.subjects_hit), is, "seed {seed}\n{text}");
                refused += u64::from(is.1 > 1);
            }
        }
    }
    assert!(refused > 10, "{refused}");
}

/// Refusals of a bucket that starts full, with time in parts of a microsecond so that nothing is rounded.
fn by_arithmetic(times: &[u64], rate: &Rate) -> u64 {
    let (count, period) = (u128::from(rate.count()), u128::from(rate.period().as_micros()));
    let (mut full_at, mut refused) = (0_u128, 0);
    for at in times {
        let now = u128::from(*at) * count;
        let next = full_at.max(now) + period;
        match next - now <= period * count {
            true => full_at = next,
            false => refused += 1,
        }
    }
    refused
}

#[test]
fn what_is_said_of_a_candidate_is_what_arithmetic_says() {
    for (seed, log) in logs() {
        let recommendation = recommend(&log, Options::default());
        let mut by_subject = [(); 3].map(|()| BTreeMap::<String, Vec<u64>>::new());
        for line in &log {
            let mut name = String::new();
            name_network(&mut name, line.client, 64);
            let user = line.user.clone().map(|user| match line.tenant {
                Some(tenant) => format!("{user} of {tenant}"),
                None => user,
            });
            let names = [Some(name.clone()), user.or(Some(name)), line.tenant.map(str::to_owned)];
            for (all, name) in by_subject.iter_mut().zip(names) {
                name.into_iter().for_each(|name| all.entry(name).or_default().push(line.at.as_micros()));
            }
        }
        for finding in recommendation.findings.iter().filter(|finding| finding.pattern.is_none()) {
            let subjects = &by_subject[finding.kind as usize];
            assert_eq!((finding.subjects, finding.one_in), (subjects.len() as u64, 1), "seed {seed}");
            for candidate in &finding.candidates {
                let refused = subjects.values().map(|times| by_arithmetic(times, &candidate.rate));
                let refused: Vec<u64> = refused.filter(|refused| *refused > 0).collect();
                let said = (candidate.requests_hit, candidate.subjects_hit);
                assert_eq!(
                    said,
                    (refused.iter().sum(), refused.len() as u64),
                    "seed {seed} {:?}",
                    finding.kind
                );
                assert!(candidate.above != "max" || said == (0, 0), "seed {seed}: {candidate:?}");
            }
        }
    }
}

#[test]
fn the_fragment_is_a_policy_whatever_the_log() {
    let mut limits = 0;
    for (seed, log) in logs() {
        let text = recommend(&log, Options::default()).policy_fragment();
        let policy = Policy::read("fragment.toml", &text, &|_| None);
        let policy = policy.unwrap_or_else(|error| panic!("seed {seed}\n{error}\n{text}"));
        Rules::new(&policy, &secrets(), &|_| None).unwrap_or_else(|error| panic!("seed {seed}\n{error}"));
        limits += policy.limit.len();
    }
    assert!(limits > 300, "{limits}");
    let none = recommend(&[], Options::default());
    assert!(Policy::read("fragment.toml", &none.policy_fragment(), &|_| None).is_ok());
    assert_eq!((none.requests, none.findings.len()), (0, 0));
}

#[test]
fn a_log_gives_one_answer() {
    for (_, log) in logs().take(10) {
        let [one, other] = [(); 2].map(|()| recommend(&log, Options::default()));
        assert_eq!(one.to_json().to_string(), other.to_json().to_string());
        assert_eq!(one.policy_fragment(), other.policy_fragment());
    }
}

/// People who read, and one address that takes everything.
fn one_against_many(people: u64) -> Vec<Line> {
    let start = Timestamp::from_micros(1_772_409_600_000_000);
    let line = |millis: u64, client: Ipv4Addr| Line {
        at: start.plus(Span::from_millis(millis)),
        client: client.into(),
        method: "GET",
        target: format!("/posts/{}", millis % 977),
        user: None,
        tenant: None,
    };
    let mut all: Vec<Line> = (0..people)
        .flat_map(|person| {
            (0..6).map(move |number| (person, person * 13 + number * (20_000 + person % 7_000)))
        })
        .map(|(person, millis)| {
            line(millis, Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(person).unwrap_or(0)))
        })
        .chain((0..6_000).map(|number| line(number * 20, Ipv4Addr::new(203, 0, 113, 7))))
        .collect();
    all.sort_by_key(|line| line.at);
    all
}

#[test]
fn a_limit_above_ordinary_people_names_whom_it_hits() {
    let recommendation = recommend(&one_against_many(2_000), Options::default());
    let finding = &recommendation.findings[1];
    assert_eq!(finding.pattern.as_ref().map(ToString::to_string).as_deref(), Some("GET /posts/*"));
    assert_eq!((finding.subjects, finding.peaks[1].p99, finding.peaks[1].max), (2_001, 3, 3_000));
    let chosen = &finding.candidates[finding.chosen.expect("one is recommended")];
    assert_eq!((chosen.rate.to_string().as_str(), chosen.subjects_hit), ("3/min", 1));
    assert_eq!(chosen.worst[0], ("203.0.113.7".to_owned(), chosen.requests_hit));
    assert!(chosen.requests_hit > 5_900);
    // Of three requests in a minute one is in the busiest second: twenty times as many as on average.
    assert_eq!(finding.bursts, [200, 200]);
    let text = recommendation.policy_fragment();
    assert!(text.contains("to 203.0.113.7") && text.contains("id = \"all-by-address\""), "{text}");
}

#[test]
fn one_who_is_far_from_everybody_else_does_not_raise_the_limit_however_few_there_are() {
    let recommendation = recommend(&one_against_many(200), Options::default());
    for finding in &recommendation.findings {
        let chosen = &finding.candidates[finding.chosen.expect("one is recommended")];
        assert_eq!((chosen.rate.to_string().as_str(), chosen.subjects_hit), ("3/min", 1));
    }
}

#[test]
fn past_its_memory_whole_subjects_are_looked_at_and_the_rest_is_said() {
    let log = one_against_many(20_000);
    let options = Options { bytes: 256 << 10, ..Options::default() };
    let recommendation = recommend(&log, options);
    let finding = &recommendation.findings[0];
    assert!(finding.one_in > 1, "{}", finding.one_in);
    let about = finding.subjects * finding.one_in;
    assert!((15_000..25_000).contains(&about), "{about}");
    assert_eq!((finding.peaks[1].p50, recommendation.requests), (3, log.len() as u64));
}
