//! Finish: from tracks to findings.

use threshold::{Algorithm, Span, Timestamp};

use super::measure::{Peaks, WINDOWS, bucket, burst, most, peaks, refused, round_up};
use super::tracks::{Track, Tracks};
use super::{Candidate, Finding, OTHER, Pattern, PatternId, Recommendation, Recommender, SubjectKind};

/// How many of those that a limit hits are named.
const NAMED: usize = 5;
/// With fewer subjects, one in a thousand is nobody: then nobody is to be hit.
const MANY: u64 = 1_000;
/// Who asks for so many times as much as 99 of 100 do is not one of them, however few there are.
const FAR: u64 = 10;
/// A limit of so few in a window is better as one of a longer window.
const FEW: u64 = 2;

/// The patterns that something is said about, and which of them each request counts for.
struct Groups {
    /// The first is for everything.
    patterns: Vec<Option<Pattern>>,
    /// By the number of a request's pattern.
    of: Vec<Vec<usize>>,
}

/// What is gathered about one group.
#[derive(Default)]
struct Gathered {
    requests: u64,
    peaks: [Vec<u32>; WINDOWS.len()],
    bursts: Vec<u32>,
}

/// A limit while it is tried.
struct Tried {
    candidate: Candidate,
    algorithm: Algorithm,
}

pub(super) fn finish(seen: &Recommender) -> Recommendation {
    let (groups, other) = groups(seen);
    let kinds = SubjectKind::ALL.into_iter().zip(&seen.tracks).zip(seen.present);
    let kinds = kinds.filter(|(_, present)| *present).map(|(kind, _)| kind);
    let findings = kinds.flat_map(|(kind, tracks)| find(seen, kind, tracks, &groups)).collect();
    Recommendation { requests: seen.seen.iter().sum(), times: seen.times, other, findings }
}

/// The patterns with the most requests, and how many requests have none of them.
fn groups(seen: &Recommender) -> (Groups, u64) {
    let resolved = |id: usize| seen.patterns.find(PatternId::try_from(id).unwrap_or(OTHER)) as usize;
    let mut counts = vec![0_u64; seen.seen.len()];
    seen.seen.iter().enumerate().for_each(|(id, count)| counts[resolved(id)] += count);
    let mut all = seen.patterns.all();
    // The most first; those with as many by name, so that a log gives one answer.
    all.sort_by_cached_key(|(id, pattern)| (std::cmp::Reverse(counts[*id as usize]), pattern.clone()));
    let chosen: Vec<Pattern> =
        all.iter().take(seen.options.patterns).map(|(_, pattern)| pattern.clone()).collect();
    let covering = |id: usize| -> Vec<usize> {
        let own = all.iter().find(|(own, _)| *own as usize == resolved(id));
        let covers = |(place, pattern): (usize, &Pattern)| {
            own.is_some_and(|(_, own)| pattern.covers(own)).then_some(place + 1)
        };
        std::iter::once(0).chain(chosen.iter().enumerate().filter_map(covers)).collect()
    };
    let of: Vec<Vec<usize>> = (0..seen.seen.len()).map(covering).collect();
    let other = seen.seen.iter().zip(&of).filter(|(_, of)| of.len() == 1).map(|(count, _)| count).sum();
    let patterns = std::iter::once(None).chain(chosen.into_iter().map(Some)).collect();
    (Groups { patterns, of }, other)
}

fn find(seen: &Recommender, kind: SubjectKind, tracks: &Tracks, groups: &Groups) -> Vec<Finding> {
    let subjects = tracks.sorted();
    let mut gathered: Vec<Gathered> = groups.patterns.iter().map(|_| Gathered::default()).collect();
    let mut times = vec![Vec::new(); groups.patterns.len()];
    for track in &subjects {
        sort(track, groups, &mut times);
        let busy = times.iter().zip(&mut gathered).filter(|(times, _)| !times.is_empty());
        busy.for_each(|(times, gathered)| gathered.add(times));
    }
    let lasted = seen.times.map_or(Span::ZERO, |[first, last]| last.since(first));
    let mut findings: Vec<Finding> = gathered
        .into_iter()
        .zip(&groups.patterns)
        .map(|(gathered, pattern)| gathered.finding(kind, pattern.clone(), tracks))
        .collect();
    let mut tried: Vec<Vec<Tried>> = findings.iter().map(|finding| candidates(finding, lasted)).collect();
    for track in &subjects {
        sort(track, groups, &mut times);
        for (times, tried) in times.iter().zip(&mut tried).filter(|(times, _)| !times.is_empty()) {
            tried.iter_mut().for_each(|tried| tried.try_on(track, times));
        }
    }
    for (finding, tried) in findings.iter_mut().zip(tried) {
        finding.candidates = tried.into_iter().map(|tried| tried.candidate).collect();
        finding.chosen = choose(finding, seen.options.least_subjects);
    }
    findings.retain(|finding| finding.requests > 0);
    findings
}

/// The times of a subject's requests, for each group.
fn sort(track: &Track, groups: &Groups, times: &mut [Vec<Timestamp>]) {
    times.iter_mut().for_each(Vec::clear);
    for asked in track.asked() {
        let of = groups.of.get(asked.pattern as usize).map_or(&[0][..], Vec::as_slice);
        of.iter().for_each(|group| times[*group].push(asked.at));
    }
}

impl Gathered {
    fn add(&mut self, times: &[Timestamp]) {
        self.requests += times.len() as u64;
        let peaks = peaks(times);
        self.peaks.iter_mut().zip(peaks).for_each(|(all, peak)| all.push(peak));
        if peaks[1] > 1 {
            self.bursts.push(burst(times));
        }
    }

    fn finding(mut self, kind: SubjectKind, pattern: Option<Pattern>, tracks: &Tracks) -> Finding {
        let bursts = Peaks::of(&mut self.bursts);
        Finding {
            kind,
            pattern,
            requests: self.requests,
            subjects: self.peaks[0].len() as u64,
            one_in: tracks.one_in(),
            cut_short: tracks.cut_short,
            peaks: self.peaks.map(|mut peaks| Peaks::of(&mut peaks)),
            bursts: [bursts.p50, bursts.p99],
            candidates: Vec::new(),
            chosen: None,
        }
    }
}

/// Round numbers above what subjects ask for, in every window that the log was long enough for.
fn candidates(finding: &Finding, lasted: Span) -> Vec<Tried> {
    let mut all: Vec<Tried> = Vec::new();
    for (window, peaks) in WINDOWS.into_iter().zip(&finding.peaks).skip(1) {
        // A log of a day is seldom a day to the second.
        if window.as_micros() > lasted.as_micros() / 10 * 11 && window > Span::MINUTE {
            continue;
        }
        for (above, peak) in [("p99", peaks.p99), ("p99.9", peaks.p999), ("max", peaks.max)] {
            let Some((rate, algorithm)) = bucket(round_up(peak), window) else { continue };
            if all.last().is_some_and(|last| last.candidate.rate == rate) {
                continue;
            }
            let candidate = Candidate { rate, above, subjects_hit: 0, requests_hit: 0, worst: Vec::new() };
            all.push(Tried { candidate, algorithm });
        }
    }
    all
}

impl Tried {
    fn try_on(&mut self, track: &Track, times: &[Timestamp]) {
        // Whoever never has more in a window than the bucket holds finds it refilled in time.
        if u64::from(most(times, self.candidate.rate.period()).0) <= self.candidate.rate.count() {
            return;
        }
        let refused = refused(times, &self.algorithm);
        if refused == 0 {
            return;
        }
        let Candidate { subjects_hit, requests_hit, worst, .. } = &mut self.candidate;
        *subjects_hit += 1;
        *requests_hit += refused;
        worst.push((track.name.to_string(), refused));
        // Subjects come by their names, and of two with as many the first stays first.
        worst.sort_by_key(|(_, refused)| std::cmp::Reverse(*refused));
        worst.truncate(NAMED);
    }
}

/// The one that is recommended: above all but one subject in a thousand, or above all where there are not so many, but for
/// those that are far from everybody else; of the shortest window in which that is more than a few.
fn choose(finding: &Finding, least_subjects: u64) -> Option<usize> {
    if finding.subjects < least_subjects {
        return None;
    }
    let fits = |window: Span| {
        let peaks =
            WINDOWS.iter().position(|own| *own == window).map_or(Peaks::default(), |at| finding.peaks[at]);
        let far = peaks.max >= peaks.p99.saturating_mul(FAR);
        let allowed = finding.subjects / if far { 100 } else { MANY };
        let mut of = finding.candidates.iter().enumerate();
        of.find(|(_, one)| one.rate.period() == window && one.subjects_hit <= allowed)
    };
    let windows = [Span::MINUTE, Span::HOUR, Span::DAY];
    let more = windows.into_iter().filter_map(fits).find(|(_, one)| one.rate.count() > FEW);
    more.or_else(|| windows.into_iter().rev().find_map(fits)).map(|(place, _)| place)
}
