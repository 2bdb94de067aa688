//! Grace.

use super::*;

#[tokio::test]
async fn grace_is_a_tenth_in_each_window_of_the_limit() {
    let service = Service::new(&(limited("rate = \"100/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n"));
    assert_eq!(service.drain(&alice(), 1).await, 1);
    service.wait(seconds(30));
    assert_eq!(service.drain(&alice(), 100).await, 100, "99 and one by grace");
    service.wait(seconds(30));
    // The second window of the limit, from 60 to 120 s.
    let mut admitted = service.drain(&alice(), 109).await;
    service.wait(seconds(30));
    admitted += service.drain(&alice(), 50).await;
    assert!(admitted <= 110, "{admitted} of a hundred and a tenth in one window");
}

#[tokio::test]
async fn grace_is_a_tenth_in_any_minute_of_a_log() {
    let service = Service::new(&(limited("rate = \"100/min\"\nalgorithm = \"sliding-log\"") + "[ladder]\n"));
    let mut admitted: Vec<Timestamp> = Vec::new();
    for (wait, many) in [(0, 101), (59, 9), (1, 120)] {
        service.wait(seconds(wait));
        for _ in 0..many {
            if service.allows(&alice()).await {
                admitted.push(now(&service));
            }
        }
    }
    for (index, at) in admitted.iter().enumerate() {
        let minute = admitted[index..].iter().take_while(|other| **other < at.plus(Span::MINUTE)).count();
        assert!(minute <= 110, "{minute} in a minute");
    }
}

#[tokio::test]
async fn grace_is_at_least_one_request_whatever_it_costs() {
    let text = limited("rate = \"20/min\"\ncost = 5\nalgorithm = \"fixed-window\"") + "[ladder]\n";
    let service = Service::new(&text);
    assert_eq!(service.drain(&alice(), 9).await, 5, "four, and one by grace");
}

#[tokio::test]
async fn grace_of_an_overridden_limit_is_a_tenth_of_it() {
    let service = Service::new(&(limited("rate = \"10/min\"\nalgorithm = \"fixed-window\"") + "[ladder]\n"));
    service.set(override_all("one", "100/min")).await;
    assert_eq!(service.drain(&alice(), 200).await, 110);
}
