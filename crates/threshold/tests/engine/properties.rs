//! What holds whatever the requests: the order of layers, refusals, and who shares with whom.

use proptest::prelude::*;
use threshold::Span;
use threshold::engine::Extras;

use crate::common::{Ask, IDENTITY, Service};

/// Three limits with subjects and routes of their own; which layer each belongs to is up to the test.
const LIMITS: [&str; 3] = [
    "id = \"a\"\nper = \"tenant\"\nrate = \"7 per 10s\"",
    "id = \"b\"\nper = \"user\"\nrate = \"3 per 10s\"\nalgorithm = \"fixed-window\"",
    "id = \"c\"\nper = \"user\"\nroute = \"posts\"\nrate = \"2 per 20s\"\nalgorithm = \"sliding-log\"",
];
const LAYERS: [&str; 3] = ["tenant", "user", "endpoint"];

/// The limits in one order, in layers of another.
fn service(order: &[usize], layers: &[usize]) -> Service {
    let mut policy = format!("{IDENTITY}\n[routes]\nposts = \"* /posts\"\n");
    for (index, layer) in order.iter().zip(layers) {
        policy += &format!("[[limit]]\n{}\nlayer = \"{}\"\n", LIMITS[*index], LAYERS[*layer]);
    }
    Service::new(&policy)
}

#[derive(Clone, Debug)]
struct Sent {
    wait: u64,
    tenant: u8,
    user: u8,
    posts: bool,
}

fn sent() -> impl Strategy<Value = Vec<Sent>> {
    let one = (0..3_000_000_u64, 0..2_u8, 0..3_u8, any::<bool>());
    prop::collection::vec(
        one.prop_map(|(wait, tenant, user, posts)| Sent { wait, tenant, user, posts }),
        1..60,
    )
}

fn order() -> impl Strategy<Value = Vec<usize>> {
    Just(vec![0, 1, 2]).prop_shuffle()
}

impl Sent {
    fn ask(&self) -> Ask {
        let path = if self.posts { "/posts" } else { "/" };
        Ask::get(path).of(&format!("tenant-{}", self.tenant)).by(&format!("user-{}", self.user))
    }

    fn allowed_by(&self, service: &Service) -> bool {
        service.wait(Span::from_micros(self.wait));
        let ask = self.ask();
        let identity = service.engine.rules().identify(&ask.facts(), service.clock.advance(Span::ZERO));
        service.engine.decide_now(&ask.facts(), &identity, Extras::default()).allowed()
    }
}

proptest! {
    #[test]
    fn the_order_of_layers_changes_nothing(sent in sent(), order in order(), layers in order()) {
        let (plain, shuffled) = (service(&[0, 1, 2], &[0, 1, 2]), service(&order, &layers));
        for one in &sent {
            prop_assert_eq!(one.allowed_by(&plain), one.allowed_by(&shuffled));
        }
    }

    /// A refused request might as well not have come.
    #[test]
    fn a_refusal_changes_nothing(sent in sent()) {
        let (all, admitted_only) = (service(&[0, 1, 2], &[0, 1, 2]), service(&[0, 1, 2], &[0, 1, 2]));
        for one in &sent {
            if one.allowed_by(&all) {
                prop_assert!(one.allowed_by(&admitted_only));
            } else {
                admitted_only.wait(Span::from_micros(one.wait));
            }
        }
    }

    /// What one tenant's users are allowed does not depend on whether there are others.
    #[test]
    fn tenants_do_not_affect_each_other(sent in sent()) {
        let (together, alone) = (service(&[0, 1, 2], &[0, 1, 2]), service(&[0, 1, 2], &[0, 1, 2]));
        for one in &sent {
            let allowed = one.allowed_by(&together);
            if one.tenant == 0 {
                prop_assert_eq!(allowed, one.allowed_by(&alone));
            } else {
                alone.wait(Span::from_micros(one.wait));
            }
        }
    }
}
