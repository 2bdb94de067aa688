//! Strikes: one per window, and what follows from them.

use tokio::task::JoinSet;

use threshold_core::ledger::{Author, Entry, SanctionKind, Strike, Written};
use threshold_core::standing::Reputation;
use threshold_core::{Ledger, Span, SubjectKind, Timestamp};

use super::{Bench, minute, second};

pub(super) async fn a_window_has_one_strike_however_often_it_is_asked(bench: Bench) {
    let alice = bench.user("alice");
    let strike = bench.strike(alice, second(0));
    let fresh = bench.struck(strike.clone()).await;
    assert!(fresh.fresh);
    for at in [second(0), second(1), minute(1).minus(Span::TICK)] {
        let again = bench.struck(Strike { at, ..strike.clone() }).await;
        assert_eq!((again.fresh, again.standing), (false, fresh.standing), "nothing was written");
        assert!(again.imposed.is_empty());
    }
    assert!(bench.struck(bench.strike(alice, minute(1))).await.fresh, "the window is over to the tick");
    assert_eq!(bench.violations(alice).await.len(), 2);
}

pub(super) async fn everyone_at_once_makes_one_strike(bench: Bench) {
    for round in 0..5 {
        let strike = Entry::Strike(bench.strike(bench.user("alice"), minute(round)));
        let mut callers = JoinSet::new();
        for _ in 0..50 {
            let (ledger, strike) = (bench.ledger.clone(), strike.clone());
            callers.spawn(async move {
                let written = ledger.write(&[strike]).await.expect("the ledger writes");
                matches!(&written[..], [Written::Struck(struck)] if struck.fresh)
            });
        }
        let fresh = callers.join_all().await.into_iter().filter(|fresh| *fresh).count();
        assert_eq!(fresh, 1, "in window {round}");
    }
    assert_eq!(bench.standing(bench.user("alice")).await.expect("it was struck").strikes.parts().0, 5);
}

pub(super) async fn limits_and_subjects_have_windows_of_their_own(bench: Bench) {
    let strike = bench.strike(bench.user("alice"), second(0));
    assert!(bench.struck(strike.clone()).await.fresh);
    let other = Strike { limit: format!("{}-other", strike.limit), ..strike.clone() };
    assert!(bench.struck(other).await.fresh, "another limit");
    assert!(
        bench.struck(Strike { subject: bench.user("bob"), ..strike.clone() }).await.fresh,
        "another user"
    );
    let address = bench.id(SubjectKind::Address, "alice");
    assert!(bench.struck(Strike { subject: address, ..strike }).await.fresh, "the same name, another kind");
}

pub(super) async fn strikes_count_up_and_lapse(bench: Bench) {
    let alice = bench.user("alice");
    let mut counts = Vec::new();
    for at in [minute(0), minute(1), minute(2)] {
        counts.push(bench.struck(bench.strike(alice, at)).await.standing.strikes.parts().0);
    }
    let just_before = minute(2).plus(Span::DAY).minus(Span::TICK);
    for at in [just_before, just_before.plus(Span::DAY)] {
        counts.push(bench.struck(bench.strike(alice, at)).await.standing.strikes.parts().0);
    }
    assert_eq!(counts, [1, 2, 3, 4, 1], "forgotten a day after the last, to the tick");
    let standing = bench.standing(alice).await.expect("it was struck");
    assert_eq!(standing.violations, 5, "violations are all there ever were");
}

pub(super) async fn the_ready_made_ladder_sanctions_at_three_four_and_five(bench: Bench) {
    let alice = bench.user("alice");
    let mut imposed: Vec<Vec<(SanctionKind, Timestamp)>> = Vec::new();
    for strike in 0..5 {
        let struck = bench.struck(bench.strike(alice, minute(10 * strike))).await;
        imposed.push(struck.imposed.iter().map(|sanction| (sanction.kind, sanction.until)).collect());
    }
    let expected = [
        vec![],
        vec![],
        vec![(SanctionKind::Cooldown, minute(21))],
        vec![(SanctionKind::Cooldown, minute(35)), (SanctionKind::Shadow, minute(90))],
        vec![(SanctionKind::Ban, minute(40).plus(Span::DAY))],
    ];
    assert_eq!(imposed, expected);
    let written = bench.sanctions(alice, None).await;
    assert_eq!(written.len(), 4, "{written:?}");
    let ban = written.last().expect("the ban");
    assert_eq!(ban.author, Author::Ladder { limit: bench.name.clone(), strikes: 5 });
    assert_eq!((ban.from, ban.lifted.as_ref()), (minute(40), None));
    let without = Strike { ladder: None, ..bench.strike(alice, minute(50)) };
    assert!(bench.struck(without).await.imposed.is_empty(), "nothing follows without a ladder");
}

pub(super) async fn a_standing_remembers_the_first_and_the_last(bench: Bench) {
    let alice = bench.user("alice");
    assert_eq!(bench.standing(alice).await, None);
    for at in [minute(10), minute(30), minute(20)] {
        let limit = format!("{} {}", bench.name, at.as_micros());
        let struck = bench.struck(Strike { limit, ..bench.strike(alice, at) }).await;
        assert_eq!(bench.standing(alice).await, Some(struck.standing), "as it was answered");
    }
    let standing = bench.standing(alice).await.expect("it was struck");
    assert_eq!((standing.first_seen, standing.last_seen), (minute(10), minute(30)));
    assert_eq!(standing.subject, alice);
}

pub(super) async fn reputation_falls_and_is_capped(bench: Bench) {
    let rate = "1/hour".parse().expect("a rate");
    let reputation = Reputation::new(10, rate, [75, 50, 25], [60, 30, 10]).expect("a reputation");
    let alice = bench.user("alice");
    let mut points = Vec::new();
    for minutes in 0..10 {
        let at = minute(minutes);
        let strike = Strike { reputation: Some(reputation), ladder: None, ..bench.strike(alice, at) };
        points.push(bench.struck(strike).await.standing.score.points(&reputation, at));
    }
    assert_eq!(points, [90, 50, 40, 30, 20, 10, 0, 0, 0, 0]);
    let before = bench.standing(alice).await.expect("it was struck").score;
    assert_eq!(before.points(&reputation, minute(60)), 1, "what is on the way to a point is kept");
    let strike = Strike { ladder: None, ..bench.strike(alice, minute(10)) };
    assert_eq!(bench.struck(strike).await.standing.score, before, "without a reputation it stays as it was");
}
