//! Who is struck.

use super::*;

#[tokio::test]
async fn nobody_is_struck_for_what_a_forger_of_its_name_used_up() {
    let policy = "[identity]\nuser = { cookie = \"name\" }\n[[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"2/min\"\nalgorithm = \"fixed-window\"\n[ladder]\n";
    let service = Service::new(policy);
    let at = |peer: &str| Ask { peer: peer.parse().unwrap(), ..Ask::get("/") }.with("cookie", "name=victim");
    let (forger, victim) = (at("203.0.113.9"), at("192.0.2.77"));
    let mut answers = Vec::new();
    for _ in 0..7 {
        service.drain(&forger, 2).await;
        answers.push(seen(&service.ask(&victim).await));
        service.wait(seconds(360));
    }
    let network = service.engine.subjects().address("192.0.2.77".parse().unwrap());
    let strikes = service.engine.held(&network).map_or(0, |held| held.strikes.parts().0);
    assert_eq!(strikes, 0, "one request in six minutes, of two a minute: {answers:?}");
}

#[test]
fn one_strike_whatever_the_crowd() {
    let service = Service::new(&(limited("rate = \"2/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n"));
    let ask = alice();
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let facts = ask.facts();
                        let identity = service.engine.rules().identify(&facts, now(&service));
                        let _ = service.engine.decide_now(&facts, &identity, Extras::default());
                    }
                });
            }
        });
        service.wait(seconds(61));
    }
    assert_eq!(violations(&service).len(), 3);
}
