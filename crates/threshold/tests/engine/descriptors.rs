//! Descriptors, as proxies like Envoy send them.

use std::num::NonZeroU64;

use threshold::engine::{
    Descriptor, DescriptorDecision, DescriptorError, DescriptorRun, DescriptorStatus, OwnLimit,
};
use threshold::{AlgorithmKind, Retry, Span};

use crate::common::{Ask, Service, override_all, rotate, rules};

/// A limit called `one` of the domain `edge` for these entries.
fn limit(entries: &str, rest: &str) -> String {
    format!("[[limit]]\nid = \"one\"\nlayer = \"user\"\ndomain = \"edge\"\ndescriptor = {entries}\n{rest}\n")
}

fn described<'a>(entries: &'a [(&'a str, &'a str)]) -> Descriptor<'a> {
    Descriptor { entries, hits: Some(NonZeroU64::MIN), own: None }
}

impl Service {
    async fn call(&self, entries: &[(&str, &str)]) -> DescriptorDecision {
        self.engine.rate_limit("edge", &[described(entries)]).await.expect("a decision")
    }

    /// How many of so many calls are allowed.
    async fn calls(&self, entries: &[(&str, &str)], many: usize) -> usize {
        let mut allowed = 0;
        for _ in 0..many {
            allowed += usize::from(self.call(entries).await.allowed());
        }
        allowed
    }
}

fn only(decision: &DescriptorDecision) -> DescriptorStatus {
    decision.statuses().next().expect("one status")
}

#[tokio::test]
async fn they_are_asked_of_descriptors_alone() {
    let service = Service::new(&limit("[\"a\"]", "rate = \"2/hour\""));
    assert_eq!(service.drain(&Ask::get("/"), 5).await, 5, "requests know nothing of them");
    assert_eq!(service.calls(&[("a", "x")], 5).await, 2);
    assert_eq!(service.calls(&[("a", "y")], 5).await, 2);
    assert_eq!(service.calls(&[("b", "x")], 5).await, 5);
    let other = service.engine.rate_limit("other", &[described(&[("a", "x")])]).await.unwrap();
    assert_eq!((other.allowed(), only(&other)), (true, DescriptorStatus::Free));
    let ask = Ask::get("/");
    let facts = ask.facts();
    let identity = service.engine.identify(&facts);
    let explained = service.engine.explain(&facts, &identity, Default::default());
    let skipped = explained.await.unwrap().skipped;
    assert_eq!(
        skipped.iter().map(|(limit, why)| (*limit, why.name())).collect::<Vec<_>>(),
        [("one", "descriptor")]
    );
}

#[tokio::test]
async fn no_two_descriptors_meet() {
    let service = Service::new(&(limit("[\"a\", \"b\"]", "rate = \"1/hour\"")));
    assert_eq!(service.calls(&[("a", "x_b"), ("b", "y")], 3).await, 1);
    assert_eq!(service.calls(&[("a", "x"), ("b", "b_y")], 3).await, 1);
    assert_eq!(service.calls(&[("a", ""), ("b", "x_b_y")], 3).await, 1);
}

#[tokio::test]
async fn a_gate_keeps_out_who_was_over() {
    let service = Service::new(&limit("[\"a\"]", "rate = \"1/s\"\nblock_for = \"1h\""));
    assert_eq!(service.calls(&[("a", "x")], 2).await, 1);
    service.wait(Span::from_secs(60));
    let decision = service.call(&[("a", "x")]).await;
    assert!(!decision.allowed());
    let DescriptorStatus::Limited { retry: Retry::After(wait), .. } = only(&decision) else {
        panic!("{:?}", only(&decision));
    };
    assert!(wait > Span::from_secs(3_000), "{wait}");
    assert_eq!(decision.retry_after(), Some(wait));
    service.wait(Span::from_secs(3_600));
    assert!(service.call(&[("a", "x")]).await.allowed());
}

#[tokio::test]
async fn overrides_hold_for_all_descriptors_of_a_limit() {
    let service = Service::new(&limit("[\"a\"]", "rate = \"2/hour\"\nalgorithm = \"fixed-window\""));
    service.set(override_all("one", "4/hour")).await;
    assert_eq!(service.calls(&[("a", "x")], 9).await, 4);
    let DescriptorStatus::Limited { quota, .. } = only(&service.call(&[("a", "y")]).await) else {
        panic!("a limit");
    };
    assert_eq!((quota.limit, quota.capacity, quota.remaining, quota.period), ("one", 4, 3, Span::HOUR));
}

#[tokio::test]
async fn what_was_counted_under_another_secret_or_policy_still_counts() {
    let text = limit("[\"a\"]", "rate = \"3/hour\"");
    let service = Service::new(&text);
    assert_eq!(service.calls(&[("a", "x")], 2).await, 2);
    let service = rotate(&service, &text);
    assert_eq!(service.calls(&[("a", "x")], 9).await, 1);
    let service = Service::new(&text);
    assert_eq!(service.calls(&[("a", "x")], 9).await, 3);
    service.engine.reload(rules(&limit("[\"a\"]", "rate = \"100/day\""))).unwrap();
    assert_eq!(service.calls(&[("a", "x")], 9).await, 0, "the hour's limit still binds");
    assert_eq!(service.calls(&[("a", "y")], 9).await, 3, "and whoever comes later");
    service.wait(Span::from_secs(3_601));
    assert_eq!(service.calls(&[("a", "y")], 200).await, 100, "the three came back within the hour");
}

#[tokio::test]
async fn a_limit_whose_values_count_together_is_another() {
    let shared = |more: &str| limit("[\"a=x*\"]", &format!("{more}rate = \"3/hour\""));
    let service = Service::new(&shared("shared = [\"a\"]\n"));
    assert_eq!(service.calls(&[("a", "x1")], 2).await, 2);
    assert_eq!(service.calls(&[("a", "x2")], 9).await, 1);
    service.engine.reload(rules(&shared(""))).unwrap();
    assert_eq!(service.calls(&[("a", "x3")], 9).await, 0, "what they used together is used for an hour");
    service.wait(Span::from_secs(3_601));
    assert_eq!(service.calls(&[("a", "x3")], 9).await, 3);
    assert_eq!(service.calls(&[("a", "x4")], 9).await, 3);
}

#[tokio::test]
async fn one_of_two_entries_with_the_same_key_is_shared() {
    let alone = "shared = [\"a=x*\"]\nrate = \"2/hour\"";
    let service = Service::new(&limit("[\"a=x*\", \"a\"]", alone));
    assert_eq!(service.calls(&[("a", "x1"), ("a", "y")], 9).await, 2);
    assert_eq!(service.calls(&[("a", "x2"), ("a", "y")], 9).await, 0, "those of the first count together");
    assert_eq!(service.calls(&[("a", "x1"), ("a", "z")], 9).await, 2, "those of the second do not");
}

#[tokio::test]
async fn answers_call_a_limit_by_its_name_and_counts_stay_where_it_changes() {
    let named = |name: &str| limit("[\"a\"]", &format!("{name}rate = \"3/hour\""));
    let called = |decision: &DescriptorDecision| decision.quota().expect("a quota").limit;
    let service = Service::new(&named("name = \"api\"\n"));
    assert_eq!(called(&service.call(&[("a", "x")]).await), "api");
    service.engine.reload(rules(&named(""))).unwrap();
    assert_eq!(called(&service.call(&[("a", "x")]).await), "one");
    assert_eq!(service.calls(&[("a", "x")], 9).await, 1);
}

#[tokio::test]
async fn a_percentage_takes_the_same_descriptors_every_time() {
    let service = Service::new(&limit("[\"a\"]", "rate = \"1/hour\"\nenforce = \"25%\""));
    let mut bound = 0;
    for number in 0..200 {
        let name = number.to_string();
        let allowed = service.calls(&[("a", &name)], 3).await;
        assert!([1, 3].contains(&allowed));
        bound += usize::from(allowed == 1);
    }
    assert!((20..80).contains(&bound), "{bound}");
}

#[tokio::test]
async fn a_limit_of_its_own_counts_by_its_period_and_not_by_its_number() {
    let service = Service::new("");
    let entries = [("a", "x")];
    let with = |count| {
        let rate = format!("{count}/hour").parse().expect("a rate");
        Descriptor { own: Some(OwnLimit::Rate(rate, AlgorithmKind::CalendarWindow)), ..described(&entries) }
    };
    let left = async |one: Descriptor<'_>| {
        let decision = service.engine.rate_limit("edge", &[one]).await.unwrap();
        let DescriptorStatus::Limited { quota, .. } = only(&decision) else { panic!("a limit") };
        (decision.allowed(), quota.remaining)
    };
    assert_eq!(left(with(3)).await, (true, 2));
    assert_eq!(left(with(10)).await, (true, 8));
    assert_eq!(left(with(2)).await, (false, 0));
    let nothing = Descriptor { own: Some(OwnLimit::Nothing), ..described(&entries) };
    let refused = service.engine.rate_limit("edge", &[nothing, with(10)]).await.unwrap();
    assert!(!refused.allowed());
    assert_eq!(refused.statuses().next(), Some(DescriptorStatus::Nothing));
    assert_eq!(left(with(10)).await, (true, 7), "and the other was not charged");
}

#[tokio::test]
async fn too_many_are_refused_and_not_left_out() {
    let service = Service::new(&limit("[\"a\"]", "rate = \"9/hour\""));
    let many = vec![described(&[("a", "x")]); 1_100];
    let error = service.engine.rate_limit("edge", &many).await.err();
    assert!(matches!(error, Some(DescriptorError::TooMany)), "{error:?}");
}

#[tokio::test]
async fn thousands_of_limits_are_found_and_retired() {
    let text = |unit: &str| -> String {
        let one = |number: usize| {
            format!(
                "[[limit]]\nid = \"l{number}\"\nlayer = \"endpoint\"\ndomain = \"edge\"\n\
                 descriptor = [\"a={number}\"]\nrate = \"2/{unit}\"\n"
            )
        };
        (0..3_000).map(one).collect()
    };
    let service = Service::new(&text("hour"));
    assert_eq!(service.calls(&[("a", "2999")], 5).await, 2);
    service.engine.reload(rules(&text("day"))).unwrap();
    assert_eq!(service.calls(&[("a", "2999")], 5).await, 0);
    assert_eq!(service.calls(&[("a", "7")], 5).await, 2);
}

impl Service {
    /// What comes of so many like calls as one.
    async fn run(&self, descriptors: &[Descriptor<'_>], times: u64) -> (bool, DescriptorDecision) {
        let (mut decision, times) = (DescriptorDecision::default(), NonZeroU64::new(times).expect("some"));
        let run = self.engine.rate_limit_run_at_once("edge", descriptors, times, &mut decision);
        let passed = match run.expect("memory answers") {
            DescriptorRun::Waits => {
                self.engine.finish_rate_limit_run(&mut decision).await.expect("memory answers")
            }
            run => run == DescriptorRun::Passed,
        };
        (passed, decision)
    }
}

#[tokio::test]
async fn a_run_of_like_calls_leaves_what_they_leave_one_by_one() {
    for algorithm in ["token-bucket", "fixed-window", "sliding-window", "sliding-log"] {
        let policy = limit("[\"a\"]", &format!("rate = \"20/min\"\nalgorithm = \"{algorithm}\""));
        let (together, apart) = (Service::new(&policy), Service::new(&policy));
        for (many, pause) in [(3, 2), (7, 1), (5, 9), (9, 0), (2, 30), (16, 61), (1, 7), (4, 0)] {
            let (passed, decision) = together.run(&[described(&[("a", "x")])], many).await;
            let before = apart.calls(&[("a", "x")], many as usize).await;
            assert_eq!(passed, before == many as usize, "{algorithm}: {many}");
            if passed {
                // Looked at after the last of them, which was told the same.
                let looked = Descriptor { hits: None, ..described(&[("a", "x")]) };
                let left = apart.engine.rate_limit("edge", &[looked]).await.unwrap();
                assert_eq!(only(&decision), only(&left), "{algorithm}: {many}");
            } else {
                // Nothing was charged: they are asked one by one.
                assert_eq!(together.calls(&[("a", "x")], many as usize).await, before, "{algorithm}");
            }
            [&together, &apart].iter().for_each(|service| service.wait(Span::from_secs(pause)));
        }
    }
}

#[tokio::test]
async fn a_run_that_does_not_fit_closes_nothing() {
    let service = Service::new(&limit("[\"a\"]", "rate = \"5/min\"\nblock_for = \"10min\""));
    assert!(!service.run(&[described(&[("a", "x")])], 6).await.0);
    assert_eq!(service.calls(&[("a", "x")], 5).await, 5, "it is not blocked");
    assert_eq!(service.calls(&[("a", "x")], 1).await, 0);
    service.wait(Span::from_secs(120));
    assert!(!service.run(&[described(&[("a", "x")])], 2).await.0, "it is blocked");
}

#[tokio::test]
async fn runs_of_what_is_observed_looked_at_or_refused_are_asked_one_by_one() {
    let observed = Service::new(&limit("[\"a\"]", "rate = \"5/min\"\nenforce = \"observe\""));
    assert!(!observed.run(&[described(&[("a", "x")])], 2).await.0);
    let service = Service::new(&limit("[\"a\"]", "rate = \"5/min\""));
    let looked = Descriptor { hits: None, ..described(&[("a", "x")]) };
    assert!(!service.run(&[looked], 2).await.0);
    let nothing = Descriptor { own: Some(OwnLimit::Nothing), ..described(&[("a", "x")]) };
    assert!(!service.run(&[nothing], 2).await.0);
    let free = service.run(&[described(&[("b", "x")])], 1_000).await;
    assert_eq!((free.0, only(&free.1)), (true, DescriptorStatus::Free));
    let most = Descriptor { hits: NonZeroU64::new(u64::MAX), ..described(&[("a", "x")]) };
    assert!(!service.run(&[most], 1_000).await.0, "more than there can be");
    assert_eq!(service.calls(&[("a", "x")], 9).await, 5, "nothing of it was charged");
}
