//! Limits that never refuse, because another one always does so first.

use threshold_core::{Algorithm, AlgorithmKind, Guarantee, Span};

use super::super::describe::Size;
use super::super::{Cost, Enforce, Layer, Per, cost};
use super::{Finding, Lint, View};

/// Limits that can never refuse beside another, and those that say the same or something else about the same.
pub(super) fn hidden(lint: &Lint<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, view) in lint.limits.iter().enumerate() {
        for size in &view.sizes {
            // Of two that hide each other, the later one is told of.
            let hides = |(other_index, other): &(usize, &View<'_>)| {
                *other_index != index
                    && lint.hides((*other, same_tier(other, size)), (view, size))
                    && (*other_index < index
                        || !lint.hides((view, Some(size)), (*other, same_tier(other, size).unwrap_or(size))))
            };
            if let Some((_, other)) = lint.limits.iter().enumerate().find(hides) {
                findings.extend(same_tier(other, size).map(|by| tell(view, size, other, by)));
            }
        }
    }
    findings
}

fn tell(view: &View<'_>, size: &Size<'_>, other: &View<'_>, by: &Size<'_>) -> Finding {
    let same_layer = view.limit.layer.value == other.limit.layer.value;
    let same = view.per == other.per
        && view.kind == other.kind
        && size.rate.period() == by.rate.period()
        && other.requests.within(&view.requests, same_layer);
    let (id, rate) = (other.id(), by.rate.value);
    let (what, remedy) = match same {
        true if size.rate.value == by.rate.value => (
            format!("it repeats `{id}`: the same rate for the same requests and subjects"),
            "remove one of them".to_owned(),
        ),
        true => {
            let what = format!(
                "it contradicts `{id}`: {} here and {rate} there, for the same requests and subjects; only {rate} ever refuses",
                size.rate.value
            );
            (what, "keep the one you mean".to_owned())
        }
        false => {
            let what = format!(
                "it never refuses while the store answers: what `{id}` ({rate}) lets through always stays within it"
            );
            (what, format!("remove it, or make it stricter than `{id}`"))
        }
    };
    Finding::warning(size.rate, what, remedy).about([view.id(), id])
}

/// Limits of users that the users of some tier never reach, because the whole tenant has less.
pub(super) fn within_tiers(lint: &Lint<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for view in lint.limits.iter().filter(|view| view.per == [Per::User] && view.limit.category.is_none()) {
        for tenants in lint.limits.iter().filter(|other| other.per == [Per::Tenant]) {
            findings.extend(view.sizes.iter().filter_map(|size| within(lint, (view, size), tenants)));
        }
    }
    findings
}

fn within(lint: &Lint<'_>, (view, size): (&View<'_>, &Size<'_>), tenants: &View<'_>) -> Option<Finding> {
    let could = lint.could_hide(tenants, view);
    let tighter = |by: &&Size<'_>| by.tier.is_some() && lint.stays_within((tenants, by), (view, size));
    let tiers: Vec<&Size<'_>> = tenants.sizes.iter().filter(tighter).filter(|_| could).collect();
    let named: Vec<String> =
        tiers.iter().filter_map(|by| Some(format!("`{}` ({})", by.tier?.value, by.rate.value))).collect();
    let what = format!(
        "a signed-in user of a known tenant never reaches it in the tiers {}: `{}` gives the whole tenant no more",
        named.join(", "),
        tenants.id()
    );
    let remedy = "nothing, if that is what these tiers are for";
    (!named.is_empty()).then(|| Finding::note(size.rate, what, remedy).about([view.id(), tenants.id()]))
}

/// The numbers of `view` for the tenants that `size` is about.
fn same_tier<'v, 'a>(view: &'v View<'a>, size: &Size<'_>) -> Option<&'v Size<'a>> {
    let name = |size: &Size<'_>| size.tier.map(|tier| tier.value.clone());
    view.sizes.iter().find(|own| own.tier.is_none() || name(own) == name(size))
}

impl Lint<'_> {
    /// True if nothing that `by` lets through is ever refused by the other.
    fn hides(
        &self,
        (by, by_size): (&View<'_>, Option<&Size<'_>>),
        (view, size): (&View<'_>, &Size<'_>),
    ) -> bool {
        by_size.is_some_and(|by_size| {
            self.is_coarser(&by.per, &view.per)
                && self.could_hide(by, view)
                && self.stays_within((by, by_size), (view, size))
        })
    }

    /// True if every request of `view` meets `by` as well, and is refused by it before it is charged to `view`.
    fn could_hide(&self, by: &View<'_>, view: &View<'_>) -> bool {
        let edge = |view: &View<'_>| view.limit.layer.value == Layer::Edge;
        // The edge counts arrivals, also those that a later layer refuses.
        let order = edge(by) || !edge(view);
        let same_layer = by.limit.layer.value == view.limit.layer.value;
        by.limit.enforce == Enforce::On && order && view.requests.within(&by.requests, same_layer)
    }

    /// True if all requests of one subject under `fine` are those of one subject under `coarse`.
    fn is_coarser(&self, coarse: &[Per], fine: &[Per]) -> bool {
        coarse == [Per::Everyone]
            || coarse.iter().all(|per| fine.contains(per))
            || self.all_anonymous()
                && self.by_address(coarse).iter().all(|per| self.by_address(fine).contains(per))
    }

    /// True if users are addresses, and addresses are not counted in larger networks besides.
    fn all_anonymous(&self) -> bool {
        let Some(identity) = &self.policy.identity else { return true };
        identity.user.is_none() && identity.ipv6_aggregates.is_empty()
    }

    fn by_address(&self, per: &[Per]) -> Vec<Per> {
        per.iter().map(|per| if *per == Per::User { Per::Ip } else { *per }).collect()
    }

    /// True if the most that `by` lets through is never too much for the other.
    fn stays_within(
        &self,
        (by, by_size): (&View<'_>, &Size<'_>),
        (view, size): (&View<'_>, &Size<'_>),
    ) -> bool {
        let nodes = match (by.per_node, view.per_node) {
            // Each node lets that much through, and nobody says how many there are.
            (true, false) if self.policy.store.as_ref().is_none_or(|store| store.nodes.is_none()) => {
                return false;
            }
            (true, false) => self.policy.nodes(),
            _ => 1,
        };
        let charged = |view: &View<'_>, size: &Size<'_>| match cost(view.limit, size.rate) {
            Cost::Each(each) => Some(each.get()),
            Cost::Bytes => None,
        };
        let (by_cost, own_cost) = match (charged(by, by_size), charged(view, size)) {
            (Some(by), Some(own)) => (by, own),
            // Refunds differ by algorithm, so bytes are compared only under the same.
            (None, None) if by.kind == view.kind => (1, 1),
            _ => return false,
        };
        let flow = Flow { algorithm: &by_size.algorithm, cost: by_cost, nodes };
        flow.never_too_much(&size.algorithm, own_cost).unwrap_or(false)
    }
}

/// What a limit lets through.
struct Flow<'a> {
    algorithm: &'a Algorithm,
    cost: u64,
    nodes: u32,
}

impl Flow<'_> {
    /// True if `other`, which charges `cost` for a request, never refuses any of it; none if that cannot be computed.
    fn never_too_much(&self, other: &Algorithm, cost: u64) -> Option<bool> {
        let concurrent = self.algorithm.kind() == AlgorithmKind::Concurrency;
        if concurrent != (other.kind() == AlgorithmKind::Concurrency) {
            return Some(false);
        }
        match other {
            Algorithm::TokenBucket(_) => self.fits_bucket(other, cost),
            Algorithm::FixedWindow(_) | Algorithm::SlidingLog(_) => {
                Some(self.most_in(other.period(), cost)? <= u128::from(other.capacity()))
            }
            // The older window counts with its whole weight at first: both together are the most it can see.
            Algorithm::SlidingWindow(_) => {
                let both = Span::from_micros(other.period().as_micros().checked_mul(2)?);
                Some(self.most_in(both, cost)? <= u128::from(other.capacity()))
            }
            Algorithm::Concurrency(_) => {
                let lasts = self.algorithm.period() >= other.period();
                Some(lasts && self.most_in(other.period(), cost)? <= u128::from(other.capacity()))
            }
        }
    }

    /// The most in any interval of `length`, charged at `cost` for each request.
    fn most_in(&self, length: Span, cost: u64) -> Option<u128> {
        let requests = Guarantee::most_in(&self.algorithm.guarantee(), length) / self.cost;
        u128::from(requests).checked_mul(u128::from(self.nodes))?.checked_mul(u128::from(cost))
    }

    /// A bucket refuses nothing of what comes neither more at once nor faster than it flows.
    fn fits_bucket(&self, bucket: &Algorithm, cost: u64) -> Option<bool> {
        let product = |factors: [u64; 4]| {
            factors.into_iter().try_fold(1_u128, |product, factor| product.checked_mul(u128::from(factor)))
        };
        let (nodes, capacity) = (u64::from(self.nodes), bucket.capacity());
        let at_once = product([self.at_once()?, nodes, cost, 1])? <= product([capacity, self.cost, 1, 1])?;
        let (count, period) = self.steady();
        let (own_count, own_period) = steady(bucket);
        let flow = product([count, nodes, cost, own_period])? <= product([own_count, self.cost, period, 1])?;
        Some(at_once && flow)
    }

    /// The most at once, on top of the steady flow: two fixed windows can meet.
    fn at_once(&self) -> Option<u64> {
        match self.algorithm {
            Algorithm::FixedWindow(window) => window.count().checked_mul(2),
            other => Some(other.capacity()),
        }
    }

    fn steady(&self) -> (u64, u64) {
        steady(self.algorithm)
    }
}

/// How much in how many ticks, in the long run.
fn steady(algorithm: &Algorithm) -> (u64, u64) {
    match algorithm {
        Algorithm::TokenBucket(bucket) => {
            let (interval, per) = bucket.interval();
            (per, interval)
        }
        other => (other.capacity(), other.period().as_micros()),
    }
}
