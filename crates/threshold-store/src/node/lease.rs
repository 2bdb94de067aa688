//! One lease: slices of a budget that a node holds and spends by itself. No clock, no lock and no store in here: what
//! comes is told to it, and it says what to do.
//!
//! A slice is charged to the store before any of it is spent, and what has not been spent when it ends is lost. It ends by
//! the node's own clock, counted from before the store was asked, so it ends for the node before it ends for the store.
//! [`Algorithm::leasable`] says why all nodes together then stay within the limit.

use threshold_core::{Algorithm, Leasable, Span, Timestamp, Verdict};

use super::seen::LONGEST_DENIAL;

/// What a node's clock may be slower than the store's by, at most: one part in so many.
pub const DRIFT: u64 = 512;

/// What holds for every lease of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// The limit that they are for.
    whole: Algorithm,
    /// What slices are charged by; none if the limit cannot be leased.
    leasable: Option<Leasable>,
    /// The largest slice: some for every node.
    most: u64,
    /// A node's part of what refills in half a lease.
    fair: u64,
    /// What the limit holds; no cost is higher.
    capacity: u64,
}

impl Terms {
    pub(super) fn new(whole: &Algorithm, life: Span, nodes: u32) -> Self {
        let leasable = whole.leasable(life);
        let halves = 2 * u64::from(nodes.max(1));
        let most = leasable.map_or(0, |leasable| (leasable.algorithm.capacity() / halves).max(1));
        let fair = leasable.map_or(0, |leasable| refills(&leasable) / halves);
        let capacity = leasable.map_or(0, |leasable| leasable.algorithm.capacity());
        Self { whole: *whole, leasable, most, fair, capacity }
    }

    /// True if they are still those of `whole`.
    #[inline]
    pub(super) fn is_for(&self, whole: &Algorithm) -> bool {
        self.whole == *whole
    }

    pub(super) const fn leasable(&self) -> Option<&Leasable> {
        self.leasable.as_ref()
    }

    pub(super) const fn capacity(&self) -> u64 {
        self.capacity
    }
}

/// What refills in the life of a lease.
fn refills(Leasable { algorithm, life }: &Leasable) -> u64 {
    let Algorithm::TokenBucket(bucket) = algorithm else { return 0 };
    let (interval, per) = bucket.interval();
    let refills = u128::from(life.as_micros()) * u128::from(per) / u128::from(interval);
    u64::try_from(refills).unwrap_or(u64::MAX)
}

/// Tokens that are the node's to spend until they end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) tokens: u64,
    /// When it ends, by the node's clock.
    ends: Timestamp,
    /// When it was granted, by the store's: a return names it.
    pub(super) granted: Timestamp,
}

/// What one node holds of one key's budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) terms: Terms,
    /// The slice that is spent first, and the one after it.
    slices: [Slice; 2],
    /// Since when the first has been the first, by the node's clock.
    first_since: Timestamp,
    /// True while the store is being asked for more.
    asking: bool,
    /// How much was asked for last, and when.
    asked: u64,
    asked_at: Timestamp,
    /// Spent since then.
    spent: u64,
    /// Costs of so much are refused until then, as the store said.
    dry_until: Timestamp,
    dry_cost: u64,
    /// When it is asked again whether that still holds: it may have been reset or raised elsewhere.
    ask_at: Timestamp,
    /// When something was spent last.
    last_spent: Timestamp,
    /// True since the store refused, until it has more than everybody's part again.
    scarce: bool,
    /// What was left for everyone when the store was asked last, and when all is as new, by the node's clock.
    left: u64,
    full_at: Timestamp,
}

/// What the store said to a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    /// When it was asked, by the node's clock.
    pub(super) sent: Timestamp,
    /// When it answered, by its own.
    pub(super) granted: Timestamp,
    pub(super) verdict: Verdict,
}

/// What is to be done about a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is spent.
    Spent,
    /// There is enough, but not for long: ask the store for so much, and then again here, whatever comes of it.
    Renew(u64),
    /// Ask the store for so much, and then again here.
    Ask(u64),
    /// Somebody asks already: wait for what comes of it.
    Wait,
    /// Nothing is to be had for so long.
    Dry(Span),
}

impl Lease {
    pub(super) fn new(terms: Terms, now: Timestamp) -> Self {
        Self {
            terms,
            slices: [Slice::default(); 2],
            first_since: now,
            asking: false,
            asked: 0,
            asked_at: now,
            spent: 0,
            dry_until: Timestamp::default(),
            dry_cost: 1,
            ask_at: Timestamp::default(),
            last_spent: Timestamp::default(),
            scarce: false,
            left: 0,
            full_at: now,
        }
    }

    /// Spends `cost` at `now`, or says what to do first. Who has asked for more already may not do so again: nothing comes
    /// between spending and going on, so that what is spent in time is used in time.
    #[inline]
    pub(super) fn spend(&mut self, cost: u64, may_renew: bool, now: Timestamp) -> Answer {
        if self.spend_at_once(cost, may_renew, now) {
            return Answer::Spent;
        }
        if self.held() >= cost {
            return Answer::Renew(self.ask(1, now));
        }
        if self.asking {
            return Answer::Wait;
        }
        if now < self.ask_at && cost >= self.dry_cost {
            return Answer::Dry(self.dry_until.max(self.had_at(cost)).since(now).max(Span::TICK));
        }
        // All of it: what is held may have ended when the answer comes.
        Answer::Ask(self.ask(cost, now))
    }

    /// Spends `cost` at `now` if there is enough, and for long enough where more may be asked for.
    #[inline]
    pub(super) fn spend_at_once(&mut self, cost: u64, may_renew: bool, now: Timestamp) -> bool {
        self.let_go(now);
        let Some(left) = self.held().checked_sub(cost) else { return false };
        let low = left < self.asked / 2 && self.slices[1].tokens == 0;
        if low && may_renew && !self.asking && now >= self.ask_at {
            return false;
        }
        self.take(cost);
        self.last_spent = self.last_spent.max(now);
        true
    }

    /// The limit has other numbers now. What is held was charged and lasts no longer than it did.
    pub(super) fn change(&mut self, terms: Terms) {
        (self.terms, self.scarce, self.ask_at) = (terms, false, Timestamp::default());
    }

    /// Drops what has ended: it was charged, and nobody may spend it any more.
    #[inline]
    fn let_go(&mut self, now: Timestamp) {
        if self.slices[0].tokens == 0 || now >= self.slices[0].ends {
            self.slices[0] = std::mem::take(&mut self.slices[1]);
            self.first_since = now.max(self.last_spent);
            if now >= self.slices[0].ends {
                self.slices[0] = Slice::default();
            }
        }
    }

    #[inline]
    fn take(&mut self, cost: u64) {
        let first = cost.min(self.slices[0].tokens);
        self.slices[0].tokens -= first;
        self.slices[1].tokens -= cost - first;
        self.spent += cost;
    }

    /// What it holds, ended or not.
    pub(super) const fn held(&self) -> u64 {
        self.slices[0].tokens + self.slices[1].tokens
    }

    /// How much to ask for: what is spent in half a lease's life, at least `need`. It doubles at most.
    fn ask(&mut self, need: u64, now: Timestamp) -> u64 {
        let life = self.terms.leasable().map_or(0, |leasable| leasable.life.as_micros());
        let gone = now.since(self.asked_at).as_micros().max(1);
        let wanted = u128::from(self.spent) * u128::from(life / 2) / u128::from(gone);
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let most = if self.scarce { self.terms.fair.max(1) } else { self.terms.most.max(1) };
        let wanted = wanted.min(self.asked.max(1).saturating_mul(2)).clamp(1, most);
        (self.asking, self.asked, self.asked_at, self.spent) = (true, wanted.max(need), now, 0);
        self.asked
    }

    /// Nothing came of asking.
    pub(super) const fn gave_up(&mut self) {
        self.asking = false;
    }

    /// The store granted `tokens`, and it is `now`. Says how much was spent later than the store would have it: nothing, as
    /// long as the clocks keep to what is assumed of them.
    pub(super) fn granted(&mut self, tokens: u64, grant: &Grant, now: Timestamp) -> u64 {
        let Grant { sent, granted, verdict } = grant;
        self.asking = false;
        // Not when it was sent: the store may have judged as late as now, and a wait must not end before it is over.
        self.told(now, verdict);
        let Some(leasable) = self.terms.leasable() else { return 0 };
        self.scarce &= verdict.remaining <= self.terms.fair;
        if self.scarce {
            // Others wait for the rest: it is worth asking again when something has come together for everybody.
            self.ask_at = now.plus(Span::from_micros(leasable.life.as_micros() / 2));
            (self.dry_until, self.dry_cost) = (self.ask_at, 1);
        }
        let late = self.late(leasable.life, grant, now);
        let life = match leasable.algorithm {
            // What a window was charged is spent in that window.
            Algorithm::FixedWindow(_) => leasable.life.min(verdict.reset),
            _ => leasable.life,
        };
        let slice = Slice { tokens, ends: sent.plus(shortened(life)), granted: *granted };
        match self.slices {
            [Slice { tokens: 0, .. }, Slice { tokens: 0, .. }] => {
                (self.slices[0], self.first_since) = (slice, now.max(self.last_spent));
            }
            [_, Slice { tokens: 0, .. }] => self.slices[1] = slice,
            // Nobody asks while there are two; what is older is lost.
            [_, second] => (self.slices, self.first_since) = ([second, slice], now.max(self.last_spent)),
        }
        late
    }

    /// What was spent since the store was asked last, if by the store's clock the slice that it came from had ended when it
    /// was asked, and by the node's clock not.
    fn late(&self, life: Span, Grant { sent, granted, .. }: &Grant, now: Timestamp) -> u64 {
        let slice = &self.slices[0];
        let asked = granted.minus(now.since(*sent));
        let ended = slice.tokens > 0 && *sent < slice.ends && asked >= slice.granted.plus(life);
        if ended { self.spent } else { 0 }
    }

    pub(super) const fn is_asking(&self) -> bool {
        self.asking
    }

    /// What may still be spent.
    pub(super) fn live(&self, now: Timestamp) -> u64 {
        self.slices.iter().filter(|slice| now < slice.ends).map(|slice| slice.tokens).sum()
    }

    /// The store refused `asked`: says what of it to ask for at once, if that is worth it.
    pub(super) fn refused(
        &mut self,
        cost: u64,
        (asked, retry): (u64, Span),
        (now, verdict): (Timestamp, &Verdict),
    ) -> Option<u64> {
        self.told(now, verdict);
        let rest = (verdict.remaining >= cost.max(1)).then(|| verdict.remaining.min(asked));
        // What is left is taken by whoever comes first.
        (self.asking, self.scarce) = (rest.is_some(), true);
        self.dry_until = now.plus(self.until_worth_it(cost, (asked, retry)));
        self.dry_cost = cost.max(1);
        self.ask_at = self.dry_until.min(now.plus(LONGEST_DENIAL));
        rest
    }

    /// When it is worth asking again: when the cost is there, and not before something has come together for every node. The
    /// store said when it has `asked`, and less is had earlier.
    fn until_worth_it(&self, cost: u64, (asked, retry): (u64, Span)) -> Span {
        match self.terms.leasable() {
            Some(Leasable { algorithm: Algorithm::TokenBucket(bucket), life }) => {
                let (interval, per) = bucket.interval();
                let earlier = u128::from(asked.saturating_sub(cost)) * u128::from(interval) / u128::from(per);
                let earlier = u64::try_from(earlier).unwrap_or(u64::MAX);
                let until = retry.as_micros().saturating_sub(earlier);
                Span::from_micros(until.max(life.as_micros() / 2).max(1))
            }
            _ => retry,
        }
    }

    /// When the store has `cost`, as far as it has said, if nothing else is charged. What is held does not count: it may have
    /// ended when somebody comes back for it.
    pub(super) fn had_at(&self, cost: u64) -> Timestamp {
        match self.terms.leasable() {
            Some(Leasable { algorithm: Algorithm::TokenBucket(bucket), .. }) => {
                let (interval, per) = bucket.interval();
                let spare = u128::from(self.terms.capacity.saturating_sub(cost));
                let earlier =
                    u64::try_from(spare * u128::from(interval) / u128::from(per)).unwrap_or(u64::MAX);
                self.full_at.minus(Span::from_micros(earlier))
            }
            _ if cost <= self.left => Timestamp::default(),
            _ => self.full_at,
        }
    }

    fn told(&mut self, now: Timestamp, verdict: &Verdict) {
        (self.left, self.full_at) = (verdict.remaining, now.plus(verdict.reset));
    }

    /// Gives back `cost` of what was spent at `at`, by the node's clock. What was spent from a slice that is gone is lost:
    /// in another it would last longer than it may.
    pub(super) fn give_back(&mut self, cost: u64, at: Timestamp) {
        if at > self.first_since && self.slices[0].ends > at {
            self.slices[0].tokens += cost;
            self.spent = self.spent.saturating_sub(cost);
        }
    }

    /// The slices, to be returned; nothing is held any more.
    pub(super) fn surrender(&mut self, now: Timestamp) -> [Slice; 2] {
        let ended = |slice: &Slice| now >= slice.ends;
        std::mem::take(&mut self.slices).map(|slice| if ended(&slice) { Slice::default() } else { slice })
    }

    /// What to tell of the whole budget.
    pub(super) fn left_for_all(&self) -> u64 {
        self.left.saturating_add(self.held())
    }

    /// How long until all of it is as new.
    pub(super) fn reset(&self, now: Timestamp) -> Span {
        self.full_at.since(now)
    }

    /// True if nothing is held, asked for or known any more.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        let ended = |slice: &Slice| slice.tokens == 0 || now >= slice.ends;
        !self.asking && self.slices.iter().all(ended) && now >= self.ask_at
    }
}

/// A span by the store's clock, as a node that is slow may count it.
fn shortened(span: Span) -> Span {
    let micros = span.as_micros();
    Span::from_micros(micros - micros.div_ceil(DRIFT))
}
