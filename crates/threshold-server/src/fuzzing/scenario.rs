//! Scenarios, from the first byte to requests.

use threshold_foresight::scenario::Scenario;

/// How many requests are played.
const PLAYED: usize = 200;

/// Reads `bytes` as a scenario: its requests come by their times and within its own, or every problem has a place in it and a
/// remedy.
///
/// # Panics
///
/// If one of these does not hold.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Scenario::read("scenario.toml", text) {
        Ok(scenario) => {
            let (mut play, mut last) = (scenario.play(scenario.seed()), scenario.begins());
            for _ in 0..PLAYED {
                let Some(sent) = play.next() else { break };
                assert!(sent.request.at >= last && sent.request.at < scenario.ends());
                assert!(sent.actor < scenario.actors().len());
                last = sent.request.at;
            }
        }
        Err(error) => {
            assert!(!error.problems.is_empty());
            let lines = text.split('\n').count();
            for problem in &error.problems {
                assert!((1..=lines).contains(&problem.line), "{problem}");
                assert!(problem.column > 0 && !problem.what.is_empty() && !problem.remedy.is_empty());
            }
        }
    }
}
