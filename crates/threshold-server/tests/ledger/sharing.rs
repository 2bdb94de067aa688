use threshold::ledger::{Ledger as _, Query};

use crate::common::{Place, Ran, items};

#[test]
fn several_at_once_lose_nothing() {
    for _ in 0..4 {
        let place = Place::new();
        let add = |number| place.start(&format!("bans add --user user-{number} --for 1h --reason why"));
        let started: Vec<_> = (0..8).map(add).collect();
        for child in started {
            let ran = Ran::new(&child.wait_with_output().unwrap());
            assert_eq!(ran.code, 0, "{}", ran.err);
        }
        assert_eq!(items(&place.json("bans list")).len(), 8);
    }
}

#[tokio::test]
async fn a_ledger_that_somebody_else_has_open_is_read_and_changed() {
    let place = Place::new();
    place.run("bans add --user alice --for 1h --reason why").done();
    let ledger = place.open();
    let count = async || {
        let query = Query::Sanctions { subject: None, active_at: None, after: 0 };
        ledger.read(&query).await.unwrap().records.len()
    };
    assert_eq!(count().await, 1);
    assert_eq!(items(&place.json("bans list")).len(), 1);
    place.run("bans add --user bob --for 1h --reason why").done();
    assert_eq!(count().await, 2, "it is noticed at once");
    ledger.close().await.unwrap();
}
