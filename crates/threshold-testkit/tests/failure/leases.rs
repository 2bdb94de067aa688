//! Five processes that spend leases of one store; some are killed and stopped while they do.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use threshold_core::{Algorithm, Clock as _, Rate, Span};
use threshold_store::SystemClock;
use threshold_testkit::figures::{Claim, size};
use threshold_testkit::servers::{Postgres, Redis};

use super::common::wait;

const NODES: usize = 5;
const RATE: &str = "500/s burst 2000";

/// One admission: when it was asked for and answered, and how many slices the process had been granted by then.
#[derive(Clone, Copy)]
struct Admitted {
    asked: u64,
    answered: u64,
    slices: u64,
}

/// What one process said: its admissions and its last word.
struct Said {
    admitted: Vec<Admitted>,
    end: Option<[u64; 3]>,
}

struct Holder {
    process: Child,
    listening: JoinHandle<Said>,
}

impl Holder {
    fn start(url: &str, seconds: u64) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_lease-holder"))
            .args([url, &NODES.to_string(), RATE, &seconds.to_string(), "2000"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        let listening = std::thread::spawn(move || {
            let mut said = Said { admitted: Vec::new(), end: None };
            for line in lines.map_while(Result::ok) {
                let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
                match (line.starts_with("end"), &numbers[..]) {
                    (false, &[asked, answered, slices]) => {
                        said.admitted.push(Admitted { asked, answered, slices });
                    }
                    (true, &[decisions, asked, overshoot]) => said.end = Some([decisions, asked, overshoot]),
                    _ => {}
                }
            }
            said
        });
        Self { process, listening }
    }

    fn go(&mut self) {
        self.process.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    fn ends(mut self) -> Said {
        let _ = self.process.wait();
        self.listening.join().unwrap()
    }
}

/// How many were admitted beyond the limit in the worst interval: those that were asked for and answered within it, which
/// were surely admitted in it.
pub(crate) fn over(admitted: &mut [(u64, u64)], algorithm: &Algorithm) -> u64 {
    admitted.sort_unstable_by_key(|(_, answered)| *answered);
    let starts: Vec<u64> = admitted.iter().map(|(asked, _)| *asked).step_by(7).collect();
    let mut worst = 0;
    for start in starts {
        let inside = admitted.iter().filter(|(asked, _)| *asked >= start);
        for (count, (_, answered)) in (1..).zip(inside) {
            let promised = algorithm.guarantee().most_in(Span::from_micros(answered - start + 1));
            worst = worst.max(u64::saturating_sub(count, promised));
        }
    }
    worst
}

/// What a process that stood still admitted by slices that it had been granted before: those had ended.
fn on_old_slices(said: &Said, stopped: u64, went_on: u64) -> usize {
    let before = said.admitted.iter().filter(|one| one.asked < stopped).map(|one| one.slices).max();
    let after = said.admitted.iter().filter(|one| one.asked >= went_on);
    after.filter(|one| Some(one.slices) <= before).count()
}

async fn spend(url: &str, claim: Claim, name: &str) {
    let (seconds, pause, clock) = (size(8, 60), size(3_000, 30_000), SystemClock::new());
    let mut holders: Vec<Holder> = (0..NODES).map(|_| Holder::start(url, seconds)).collect();
    holders.iter_mut().for_each(Holder::go);
    wait(1_500).await;
    holders[0].process.kill().unwrap();
    holders[1].signal("STOP");
    let stopped = clock.now();
    wait(pause).await;
    let went_on = clock.now();
    holders[1].signal("CONT");
    let said: Vec<Said> = holders.into_iter().map(Holder::ends).collect();
    let rate: Rate = RATE.parse().unwrap();
    let algorithm = Algorithm::token_bucket(&rate).unwrap();
    let all = said.iter().flat_map(|one| &one.admitted).map(|one| (one.asked, one.answered));
    let mut admitted: Vec<(u64, u64)> = all.collect();
    let ends: Vec<[u64; 3]> = said.iter().filter_map(|one| one.end).collect();
    assert_eq!(ends.len(), NODES - 1, "all but the one that was killed come to their end");
    let [decisions, asked, overshoot] =
        ends.iter().fold([0; 3], |all, one| std::array::from_fn(|place| all[place] + one[place]));
    let old = on_old_slices(&said[1], stopped.as_micros(), went_on.as_micros());
    let over = over(&mut admitted, &algorithm);
    let budget = algorithm.guarantee().most_in(Span::from_micros(seconds * 1_000_000));
    let figure = format!(
        "{} admitted of a budget of {budget}, {over} over, overshoot {overshoot}, {old} on slices that ended while it stood \
         still for {} s, one operation of the store for {:.0} decisions",
        admitted.len(),
        pause / 1_000,
        decisions as f64 / asked as f64
    );
    assert!(decisions >= 50 * asked, "{figure}");
    claim.show(name, &figure, "0 over", over == 0 && overshoot == 0 && old == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn five_processes_of_which_some_die_and_stand_still_stay_within_the_limit() {
    let claim = Claim::of("five processes spend leases of one Redis; some are killed, some stand still");
    let server = Redis::start();
    spend(&server.url(), claim, "leases-processes").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_they_stay_within_the_limit_too() {
    let claim = Claim::of("five processes spend leases of one Postgres; some are killed, some stand still");
    let server = Postgres::start();
    spend(&server.url(), claim, "leases-processes-postgres").await;
}

/// How much of a budget five processes use by leases while they ask for more all the time, in percent.
fn used(url: &str, seconds: u64) -> f64 {
    let mut holders: Vec<Holder> = (0..NODES).map(|_| Holder::start(url, seconds)).collect();
    holders.iter_mut().for_each(Holder::go);
    let admitted: usize = holders.into_iter().map(|holder| holder.ends().admitted.len()).sum();
    let rate: Rate = RATE.parse().unwrap();
    let guarantee = Algorithm::token_bucket(&rate).unwrap().guarantee();
    admitted as f64 * 100.0 / guarantee.most_in(Span::from_micros(seconds * 1_000_000)) as f64
}

#[test]
fn under_steady_demand_nearly_all_of_the_budget_is_used() {
    let claim = Claim::of("what five processes use of a budget by leases, under steady demand");
    let (redis, postgres, seconds) = (Redis::start(), Postgres::start(), size(6, 60));
    let [of_redis, of_postgres] = [redis.url(), postgres.url()].map(|url| used(&url, seconds));
    let figure = format!("{of_redis:.1} % on Redis, {of_postgres:.1} % on Postgres");
    claim.report("leases-used", &figure, "95 %", of_redis.min(of_postgres) >= 95.0);
    // How fast this machine is is no matter of right or wrong.
    assert!(of_redis.min(of_postgres) >= 50.0, "{figure}");
}
