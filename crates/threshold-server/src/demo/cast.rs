//! Who comes, when and for what: the same for the same seed, whatever the answers are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Method;

use super::visit::Visit;

/// How many steps a second has at the ordinary pace.
pub(super) const STEPS: u64 = 10;
/// How many honest people there are.
const PEOPLE: u64 = 300;
/// The blogs that grow no faster than they pay for.
const BLOGS: [&str; 3] = ["acorn", "canopy", "fern"];
const BROWSERS: [&str; 3] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 15_0) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15",
    "Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/138.0 Mobile Safari/537.36",
];
/// Whose passwords are tried.
const ACCOUNTS: [&str; 4] =
    ["robin@acorn.example", "wren@acorn.example", "admin@acorn.example", "rook@acorn.example"];

/// Who does not listen.
const MAGPIES: [&str; 3] = ["magpie", "jay", "jackdaw"];

/// The visitors.
pub(super) struct Cast {
    dice: Dice,
    step: u64,
}

impl Cast {
    pub(super) const fn new(seed: u64) -> Self {
        Self { dice: Dice(seed), step: 0 }
    }

    /// What is asked in the next step.
    pub(super) fn next(&mut self) -> Vec<Visit> {
        let mut visits = Vec::new();
        self.people(&mut visits);
        self.tabs(&mut visits);
        self.crawler(&mut visits);
        self.stuffer(&mut visits);
        self.script(&mut visits);
        self.sprout(&mut visits);
        self.writer(&mut visits);
        self.magpies(&mut visits);
        self.step += 1;
        visits
    }

    /// Where the step is in a round of so many seconds.
    const fn within(&self, seconds: u64) -> u64 {
        self.step % (seconds * STEPS)
    }

    /// Honest people: more of them and fewer, by a tide of a minute and a half.
    fn people(&mut self, visits: &mut Vec<Visit>) {
        let (half, at) = (45 * STEPS, self.within(90));
        let tide = if at < half { at } else { 2 * half - at };
        // From 2.5 to 6.5 in a step, in thousandths.
        let wanted = 2_500 + 4_000 * tide / half;
        let count = wanted / 1_000 + u64::from(self.dice.roll(1_000) < wanted % 1_000);
        for _ in 0..count {
            let person = self.dice.roll(PEOPLE);
            visits.push(self.person(person));
        }
    }

    /// Somebody who opens all that was found at once, every few seconds.
    fn tabs(&mut self, visits: &mut Vec<Visit>) {
        if self.within(4) == 2 * STEPS {
            let person = self.dice.roll(PEOPLE);
            visits.extend((0..7).map(|tab| Visit { path: format!("/posts/{tab}"), ..reader(person) }));
        }
    }

    /// What somebody honest asks for.
    fn person(&mut self, number: u64) -> Visit {
        let visit = reader(number);
        match self.dice.roll(100) {
            0..15 => visit,
            15..70 => Visit { path: format!("/posts/{}", self.dice.roll(200)), ..visit },
            70..88 => Visit { path: format!("/search?q={}", self.dice.roll(50)), ..visit },
            88..94 => visit.post("/api/comments", "text=How+true"),
            94..97 => visit.post("/login", &format!("username=reader-{number}&password=open+sesame")),
            97..99 => visit.post("/api/ai/draft", "about=moss"),
            _ => Visit { path: "/api/report".to_owned(), ..visit },
        }
    }

    /// Reads every post as fast as it can, for half of each minute.
    fn crawler(&mut self, visits: &mut Vec<Visit>) {
        if self.within(60) >= 30 * STEPS {
            return;
        }
        let (address, agent) = (v4([198, 51, 100], 23), "HungryBot/2.1 (+https://hungry.example)");
        let page = self.step % 5_000;
        visits.push(Visit { address, agent, ..Visit::get(format!("/posts/{page}")) });
    }

    /// Tries passwords, each time from another of its addresses.
    fn stuffer(&mut self, visits: &mut Vec<Visit>) {
        if self.within(50) >= 30 * STEPS || self.step.is_multiple_of(2) {
            return;
        }
        let turn = self.step / 2 % 8;
        let account = ACCOUNTS[(turn % 4) as usize];
        let address = v4([203, 0, 113], 64 + turn as u8);
        let visit = Visit { address, agent: "python-requests/2.32", ..Visit::get(String::new()) };
        visits.push(
            visit.post("/login", &format!("username={account}&password={}", self.dice.roll(1_000_000))),
        );
    }

    /// A script that runs wild once a minute, for three seconds.
    fn script(&self, visits: &mut Vec<Visit>) {
        if (2 * STEPS..5 * STEPS).contains(&self.within(60)) {
            let (address, agent) = (v4([198, 51, 100], 200), "curl/8.14");
            visits.extend((0..4).map(|_| Visit { address, agent, ..Visit::get("/".to_owned()) }));
        }
    }

    /// A blog that is linked to from somewhere: more and more readers, and a small tier.
    fn sprout(&mut self, visits: &mut Vec<Visit>) {
        // From four to twelve a second within a minute, and from the beginning again.
        let wanted = 400 + 800 * self.within(60) / (60 * STEPS);
        if self.dice.roll(1_000) < wanted {
            let reader = PEOPLE + self.dice.roll(400);
            let (address, agent) = (home(reader), BROWSERS[(reader % 3) as usize]);
            visits.push(Visit { address, agent, tenant: "sprout", ..Visit::get("/posts/1".to_owned()) });
        }
    }

    /// Has everything written by a machine.
    fn writer(&self, visits: &mut Vec<Visit>) {
        if self.within(60) < 20 * STEPS && self.step % STEPS == 4 {
            let user = Some("dabbler".to_owned());
            let visit = Visit { address: home(7_000), tenant: "canopy", user, ..Visit::get(String::new()) };
            visits.push(visit.post("/api/ai/draft", "about=everything"));
        }
    }

    /// Those who comment on everything and never listen: warned, sent away, held back, kept out. They come by turns.
    fn magpies(&self, visits: &mut Vec<Visit>) {
        for (number, name) in (0..).zip(MAGPIES) {
            let begins = number * 25 * STEPS;
            let at = (self.within(75) + 75 * STEPS - begins) % (75 * STEPS);
            if self.step < begins || at >= 20 * STEPS || at.is_multiple_of(3) {
                continue;
            }
            let (address, user) = (home(7_001 + number), Some(name.to_owned()));
            let visit = Visit { address, tenant: "fern", user, ..Visit::get(String::new()) };
            visits.push(visit.post("/api/comments", "text=Mine"));
        }
    }
}

impl Visit {
    fn get(path: String) -> Self {
        let (address, agent) = (v4([192, 0, 2], 1), BROWSERS[0]);
        Self { address, tenant: "acorn", user: None, agent, method: Method::GET, path, body: String::new() }
    }

    fn post(self, path: &str, body: &str) -> Self {
        Self { method: Method::POST, path: path.to_owned(), body: body.to_owned(), ..self }
    }
}

/// Somebody honest, at the front page; two of three are signed in.
fn reader(number: u64) -> Visit {
    let user = (number % 3 != 2).then(|| format!("reader-{number}"));
    let (tenant, agent) = (BLOGS[(number / 3 % 3) as usize], BROWSERS[(number % 7 % 3) as usize]);
    Visit { address: home(number), tenant, user, agent, ..Visit::get("/".to_owned()) }
}

const fn v4([a, b, c]: [u8; 3], d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

/// Where somebody lives: of addresses that are kept for examples, every third an older one.
fn home(number: u64) -> IpAddr {
    match number {
        number if number.is_multiple_of(3) && number / 3 < 250 => v4([192, 0, 2], 2 + (number / 3) as u8),
        number => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0x1, number as u16, 0, 0, 0, 1)),
    }
}

/// Numbers that fall the same way for the same seed.
struct Dice(u64);

impl Dice {
    /// A number below `sides`.
    const fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % sides
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(seed: u64, minutes: u64) -> Vec<Vec<Visit>> {
        let mut cast = Cast::new(seed);
        (0..minutes * 60 * STEPS).map(|_| cast.next()).collect()
    }

    #[test]
    fn the_same_seed_brings_the_same_visitors_and_another_one_others() {
        assert_eq!(minutes(3, 2), minutes(3, 2));
        assert_ne!(minutes(3, 2), minutes(4, 2));
    }

    #[test]
    fn no_second_brings_more_than_it_may() {
        let most =
            minutes(1, 10).chunks(STEPS as usize).map(|second| second.iter().map(Vec::len).sum()).max();
        let most: usize = most.unwrap();
        assert!((60..=150).contains(&most), "{most}");
    }

    #[test]
    fn some_hundreds_of_honest_people_come_and_everybody_else_within_seconds() {
        let all: Vec<_> = minutes(1, 2).concat();
        let users: std::collections::HashSet<_> = all.iter().filter_map(|visit| visit.user.clone()).collect();
        assert!(users.len() > 190, "{}", users.len());
        let mut cast = Cast::new(1);
        let soon: Vec<_> = (0..5 * STEPS).flat_map(|_| cast.next()).collect();
        let has = |wanted: &dyn Fn(&Visit) -> bool| soon.iter().any(wanted);
        assert!(
            has(&|visit| visit.agent.starts_with("HungryBot"))
                && has(&|visit| visit.agent.starts_with("curl"))
        );
        assert!(has(&|visit| visit.tenant == "sprout") && has(&|visit| visit.path == "/login"));
        assert!(has(&|visit| visit.user.as_deref() == Some("magpie")));
    }

    #[test]
    fn every_visit_is_a_request() {
        assert!(minutes(2, 2).concat().into_iter().all(|visit| visit.request("127.0.0.1:8080").is_ok()));
    }
}
