//! Recent: what was asked of late, so that another policy can be tried on it.
//!
//! A ring of a fixed size has what each decision was made about: the facts that limits count by, and who asked as it was
//! recognised. No header is kept, no query and no token. It lives in memory alone, and no longer than an hour.
//!
//! Under load a ring of all requests would hold a moment. So it then holds those of some clients, and all of theirs: of one
//! client in `n`, chosen by a hash, where `n` grows until the ring holds about a minute. What a limit for each client admits
//! is then as true as it was; only how many there were has to be multiplied.

mod entry;

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use threshold_core::{Span, Timestamp};

use crate::figures::{Ending, SHARDS, place};
use crate::identify::{Facts, Identity, UserKind};
pub use entry::Asked;
use entry::{Noted, read, write};

/// How long the ring should hold at least, before it holds fewer clients; and at most, before it holds more.
const SHORT: Span = Span::MINUTE;
const LONG: Span = Span::from_secs(20 * 60);
/// How long a request is remembered at most.
const OLDEST: Span = Span::from_secs(60 * 60);
/// One client in 2²⁰ at least is remembered.
const MOST_LEVEL: u32 = 20;
/// How many bytes a request may take, on average over all and by itself.
const BYTES_EACH: usize = 256;
const MOST_BYTES: usize = 4_096;

/// Remembers what was asked of late.
pub struct Recent {
    /// The most requests.
    most: usize,
    /// Of 2 to this power clients one is remembered.
    level: AtomicU32,
    /// What clients are told apart by, which nobody knows.
    seeds: [u64; 2],
    /// Requests that were not remembered: each thread's own.
    skipped: Box<[Counter]>,
    ring: Mutex<Ring>,
}

#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// Requests as bytes, the oldest first: nothing is taken from the heap for another once it has grown to its size.
struct Ring {
    bytes: VecDeque<u8>,
    /// The lengths and times of what is in it.
    lengths: VecDeque<(u32, Timestamp)>,
    /// A request while it is written.
    scratch: Vec<u8>,
    /// How many were written since the level was looked at, and when that was.
    since: (usize, Timestamp),
}

/// What is remembered, to be tried.
#[derive(Debug, Default)]
pub struct Reading {
    /// The requests, by their times.
    pub asked: Vec<Asked>,
    /// They are those of one client in so many.
    pub one_in: u64,
    /// How many others there were within the same time.
    pub not_remembered: u64,
}

/// One request, as an engine knows it.
pub(crate) struct Note<'a> {
    pub(crate) facts: &'a Facts<'a>,
    pub(crate) identity: &'a Identity<'a>,
    pub(crate) account: Option<&'a str>,
    pub(crate) cost: Option<NonZeroU64>,
    /// When the edge and the other layers judged it.
    pub(crate) at: (Timestamp, Timestamp),
    pub(crate) ending: Ending,
    pub(crate) ipv6_prefix: u8,
}

impl Recent {
    /// Remembers so many requests at most.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let random = RandomState::new();
        let ring = Ring {
            bytes: VecDeque::new(),
            lengths: VecDeque::new(),
            scratch: Vec::new(),
            since: (0, Timestamp::default()),
        };
        Self {
            most,
            level: AtomicU32::new(0),
            seeds: [1, 2].map(|number: u64| random.hash_one(number)),
            skipped: (0..SHARDS).map(|_| Counter::default()).collect(),
            ring: Mutex::new(ring),
        }
    }

    /// Remembers one request, if it is of a client that is remembered.
    #[inline]
    pub(crate) fn note(&self, note: &Note<'_>) {
        let hash = self.hash(note);
        let level = self.level.load(Ordering::Relaxed);
        match is_of(hash, level) {
            true => self.keep(note, hash, level),
            false => self.skip(),
        }
    }

    /// Remembers nothing of what was asked before: somebody is to be forgotten, and no name here is a hash.
    pub(crate) fn forget(&self) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.bytes.clear();
        ring.lengths.clear();
        ring.scratch.clear();
    }

    /// Counts one that is not remembered.
    #[inline]
    pub(crate) fn skip(&self) {
        self.skipped[place()].0.fetch_add(1, Ordering::Relaxed);
    }

    /// Who asks: a user who proved who it is, or else the address. Others could make up a new name for each request.
    #[inline]
    fn hash(&self, note: &Note<'_>) -> u64 {
        let Identity { client, tenant, user, user_kind, .. } = note.identity;
        match (user, user_kind.is_some_and(UserKind::verified)) {
            (Some(user), true) => {
                let tenant = tenant.as_deref().map_or(0, |tenant| self.stir(1, tenant.as_bytes()));
                self.stir(tenant, user.as_bytes())
            }
            _ => self.of_address(*client, note.ipv6_prefix),
        }
    }

    /// A number for an address, the same for all of one network of IPv6.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "each half is taken by itself")]
    fn of_address(&self, client: IpAddr, ipv6_prefix: u8) -> u64 {
        let [seed, other] = self.seeds;
        match client.to_canonical() {
            IpAddr::V4(client) => folded(u64::from(client.to_bits()) ^ seed, other),
            IpAddr::V6(client) => {
                let network = client.to_bits() & !u128::MAX.checked_shr(ipv6_prefix.into()).unwrap_or(0);
                folded(folded(network as u64 ^ seed, other) ^ (network >> 64) as u64, other)
            }
        }
    }

    /// A number for `bytes`. It has to be quick, and to be one that clients cannot choose; it tells nothing to anybody.
    #[inline]
    fn stir(&self, from: u64, bytes: &[u8]) -> u64 {
        let [seed, other] = self.seeds;
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        let stirred = words.fold(seed ^ from, |state, word| folded(state ^ word, other));
        folded(stirred ^ bytes.len() as u64, seed | 1)
    }

    fn keep(&self, note: &Note<'_>, hash: u64, level: u32) {
        let now = note.at.1;
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let Ring { bytes, lengths, scratch, since } = &mut *ring;
        scratch.clear();
        write(scratch, &Noted { note, hash, level, skipped: self.skipped() });
        let length = scratch.len();
        if length > MOST_BYTES {
            drop(ring);
            return self.skip();
        }
        while let Some((first, at)) = lengths.front()
            && (lengths.len() >= self.most
                || bytes.len() + length > self.most * BYTES_EACH
                || now.since(*at) > OLDEST)
        {
            bytes.drain(..*first as usize);
            lengths.pop_front();
        }
        bytes.extend(&*scratch);
        lengths.push_back((u32::try_from(length).unwrap_or(u32::MAX), now));
        since.0 += 1;
        if since.0 >= self.most / 2 {
            let took = now.since(since.1);
            *since = (0, now);
            self.adapt(level, took);
        }
    }

    /// Remembers fewer clients or more, by how long half of the ring took to fill.
    #[cold]
    fn adapt(&self, level: u32, took: Span) {
        let level = match took.as_micros() * 2 {
            short if short < SHORT.as_micros() => (level + 1).min(MOST_LEVEL),
            long if long > LONG.as_micros() => level.saturating_sub(1),
            _ => level,
        };
        self.level.store(level, Ordering::Relaxed);
    }

    fn skipped(&self) -> u64 {
        self.skipped.iter().map(|one| one.0.load(Ordering::Relaxed)).sum()
    }

    /// What is remembered at `now`, of whole clients.
    #[must_use]
    pub fn read(&self, now: Timestamp) -> Reading {
        let skipped = self.skipped();
        let (bytes, lengths) = {
            let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
            let (one, other) = ring.bytes.as_slices();
            ([one, other].concat(), ring.lengths.iter().map(|(length, _)| *length).collect::<Vec<_>>())
        };
        let (mut rest, mut entries) = (&bytes[..], Vec::with_capacity(lengths.len()));
        for length in lengths {
            let Some((entry, others)) = rest.split_at_checked(length as usize) else { break };
            rest = others;
            entries.extend(read(entry));
        }
        entries.retain(|entry| now.since(entry.asked.store) <= OLDEST);
        let level = entries.iter().map(|entry| entry.level).max().unwrap_or_default();
        let before = entries.first().map_or(skipped, |first| first.skipped);
        let all = entries.len();
        entries.retain(|entry| is_of(entry.hash, level));
        let dropped = (all - entries.len()) as u64;
        let mut asked: Vec<Asked> = entries.into_iter().map(|entry| entry.asked).collect();
        asked.sort_by_key(|asked| asked.store);
        Reading { asked, one_in: 1 << level, not_remembered: skipped.saturating_sub(before) + dropped }
    }
}

/// Both halves of a product together.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "each half is taken by itself")]
const fn folded(one: u64, other: u64) -> u64 {
    let product = one as u128 * (other | 1) as u128;
    product as u64 ^ (product >> 64) as u64
}

/// Whether a client is one of those that are remembered at `level`.
#[inline]
const fn is_of(hash: u64, level: u32) -> bool {
    hash & ((1 << level) - 1) == 0
}

impl Asked {
    /// What the request said, as far as it is remembered.
    #[must_use]
    pub fn facts(&self) -> Facts<'_> {
        let (method, host, path) = (self.method.as_str(), self.host.as_deref(), self.path.as_str());
        Facts { peer: self.client, method, host, path, bytes: self.bytes, headers: &() }
    }

    /// Who asked, as it was recognised.
    #[must_use]
    pub fn identity(&self) -> Identity<'_> {
        Identity {
            client: self.client,
            tenant: self.tenant.as_deref().map(Into::into),
            tenant_verified: self.tenant_verified,
            tier: self.tier.as_deref().map(Into::into),
            user: self.user.as_deref().map(Into::into),
            user_kind: self.user_kind,
            doubts: Default::default(),
        }
    }

    /// Where it came from.
    #[must_use]
    pub const fn client(&self) -> IpAddr {
        self.client
    }
}

#[cfg(test)]
mod tests;
