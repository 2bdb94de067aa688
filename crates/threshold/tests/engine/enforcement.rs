//! On, off, observe, and a share of the subjects; silence.

use crate::common::{Ask, IDENTITY, Service, rules};

fn policy(enforce: &str) -> String {
    format!(
        "{IDENTITY}\n[[limit]]\nid = \"tried\"\nlayer = \"user\"\nrate = \"1/day\"\nenforce = \"{enforce}\"\n\
         [[limit]]\nid = \"real\"\nlayer = \"endpoint\"\nrate = \"1000/day\"\n"
    )
}

/// How many of 400 users are held to one request.
async fn held(service: &Service) -> Vec<bool> {
    let mut held = Vec::new();
    for user in 0..400 {
        let ask = Ask::get("/").by(&format!("user-{user}"));
        service.allows(&ask).await;
        held.push(!service.allows(&ask).await);
    }
    held
}

#[tokio::test]
async fn on_and_off() {
    assert!(held(&Service::new(&policy("on"))).await.iter().all(|held| *held));
    assert!(!held(&Service::new(&policy("off"))).await.iter().any(|held| *held));
}

#[tokio::test]
async fn observing_counts_and_never_refuses() {
    let service = Service::new(&policy("observe"));
    let ask = Ask::get("/").by("alice");
    assert_eq!(service.drain(&ask, 5).await, 5);
    let decision = service.ask(&ask).await;
    let tried = decision.considered().into_iter().find(|one| one.limit == "tried").unwrap();
    assert_eq!(tried.after, 0, "it would have refused");
    assert_eq!(decision.quota().unwrap().limit, "real", "and says nothing of itself");
    service.engine.reload(rules(&policy("on"))).unwrap();
    assert!(!service.allows(&ask).await, "what was observed stays counted");
}

#[tokio::test]
async fn a_canary_grows_and_keeps_whom_it_had() {
    let mut before = vec![false; 400];
    for percent in [0, 5, 25, 60, 100] {
        let now = held(&Service::new(&policy(&format!("{percent}%")))).await;
        assert!(before.iter().zip(&now).all(|(before, now)| *now || !*before), "{percent}%: somebody left");
        let share = now.iter().filter(|held| **held).count() / 4;
        assert!(share.abs_diff(percent) <= 8, "{percent}%: {share} of 100");
        before = now;
    }
}

#[tokio::test]
async fn a_silent_limit_shows_itself_when_it_refuses() {
    let silent = policy("on").replace("enforce = \"on\"", "silent = true");
    let service = Service::new(&silent);
    let ask = Ask::get("/").by("alice");
    assert_eq!(service.ask(&ask).await.quota().unwrap().limit, "real");
    assert_eq!(service.ask(&ask).await.quota().unwrap().limit, "tried");
}
