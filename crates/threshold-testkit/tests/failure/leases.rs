//! Five processes that spend leases on one Redis; some are killed and stopped while they do.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use threshold_core::{Algorithm, Rate, Span};
use threshold_testkit::figures::{Claim, size};
use threshold_testkit::servers::Redis;

use super::common::wait;

const NODES: usize = 5;
const RATE: &str = "500/s burst 2000";

/// What one process said: its admissions, each with when it asked and when it was answered, and its last word.
struct Said {
    admitted: Vec<(u64, u64)>,
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
                    (false, &[asked, answered]) => said.admitted.push((asked, answered)),
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
fn over(admitted: &mut [(u64, u64)], algorithm: &Algorithm) -> u64 {
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

#[tokio::test(flavor = "multi_thread")]
async fn five_processes_of_which_some_die_and_stand_still_stay_within_the_limit() {
    let claim = Claim::of("five processes spend leases of one Redis; some are killed, some stand still");
    let server = Redis::start();
    let (seconds, pause) = (size(8, 60), size(3_000, 30_000));
    let mut holders: Vec<Holder> = (0..NODES).map(|_| Holder::start(&server.url(), seconds)).collect();
    holders.iter_mut().for_each(Holder::go);
    wait(1_500).await;
    holders[0].process.kill().unwrap();
    holders[1].signal("STOP");
    wait(pause).await;
    holders[1].signal("CONT");
    let said: Vec<Said> = holders.into_iter().map(Holder::ends).collect();
    let rate: Rate = RATE.parse().unwrap();
    let algorithm = Algorithm::token_bucket(&rate).unwrap();
    let mut admitted: Vec<(u64, u64)> = said.iter().flat_map(|one| one.admitted.iter().copied()).collect();
    let ends: Vec<[u64; 3]> = said.iter().filter_map(|one| one.end).collect();
    assert_eq!(ends.len(), NODES - 1, "all but the one that was killed come to their end");
    let [decisions, asked, overshoot] =
        ends.iter().fold([0; 3], |all, one| std::array::from_fn(|place| all[place] + one[place]));
    let over = over(&mut admitted, &algorithm);
    let budget = algorithm.guarantee().most_in(Span::from_micros(seconds * 1_000_000));
    let figure = format!(
        "{} admitted of a budget of {budget}, {over} over, overshoot {overshoot}, one operation of the store for {:.0} decisions",
        admitted.len(),
        decisions as f64 / asked as f64
    );
    assert!(decisions >= 50 * asked, "{figure}");
    claim.show("leases-processes", &figure, "0 over", over == 0 && overshoot == 0);
}
