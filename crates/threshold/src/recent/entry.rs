//! One request as bytes.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU64;

use threshold_core::Timestamp;

use super::Note;
use crate::figures::Ending;
use crate::identify::UserKind;

/// The longest text that is remembered of a request.
const LONGEST: usize = 2_048;
/// What stands for a text that there is none of.
const NONE: u16 = u16::MAX;
/// The ways in which users are recognised, by their numbers.
const KINDS: [UserKind; 4] = [UserKind::Token, UserKind::Proxy, UserKind::Cookie, UserKind::ApiKey];

/// One request: what limits count by, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asked {
    /// When the edge's limits judged it.
    pub edge: Timestamp,
    /// When the others did.
    pub store: Timestamp,
    /// What it came to.
    pub ending: Ending,
    pub(super) client: IpAddr,
    pub(super) method: String,
    pub(super) host: Option<String>,
    /// Without its query.
    pub(super) path: String,
    pub(super) bytes: Option<u64>,
    pub(super) tenant: Option<String>,
    pub(super) tenant_verified: bool,
    pub(super) tier: Option<String>,
    pub(super) user: Option<String>,
    pub(super) user_kind: Option<UserKind>,
    /// The account that it named.
    pub account: Option<String>,
    /// What it cost, if that was told.
    pub cost: Option<NonZeroU64>,
}

/// What is written of a request.
pub(super) struct Noted<'a> {
    pub(super) note: &'a Note<'a>,
    pub(super) hash: u64,
    pub(super) level: u32,
    pub(super) skipped: u64,
}

/// What is read of it.
pub(super) struct Entry {
    pub(super) asked: Asked,
    pub(super) hash: u64,
    pub(super) level: u32,
    pub(super) skipped: u64,
}

/// Writes what is remembered of one request. A text that is too long makes it too long for the ring.
pub(super) fn write(out: &mut Vec<u8>, noted: &Noted<'_>) {
    let Noted { note, hash, level, skipped } = noted;
    let identity = note.identity;
    let (edge, store) = note.at;
    let address = match identity.client {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    for number in [*hash, *skipped, edge.as_micros(), store.as_micros()] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    // None is what there cannot be: no body is so long, and nothing costs nothing.
    out.extend_from_slice(&note.facts.bytes.unwrap_or(u64::MAX).to_le_bytes());
    out.extend_from_slice(&note.cost.map_or(0, NonZeroU64::get).to_le_bytes());
    out.extend_from_slice(&address.octets());
    let kind = identity.user_kind.and_then(|kind| KINDS.iter().position(|known| *known == kind));
    let kind = kind.and_then(|kind| u8::try_from(kind).ok()).unwrap_or(u8::MAX);
    let level = u8::try_from(*level).unwrap_or(u8::MAX);
    out.extend_from_slice(&[level, note.ending as u8, kind, u8::from(identity.tenant_verified)]);
    let path = note.facts.path.split('?').next().unwrap_or_default();
    text(out, Some(note.facts.method));
    text(out, note.facts.host);
    text(out, Some(path));
    text(out, identity.tenant.as_deref());
    text(out, identity.tier.as_deref());
    text(out, identity.user.as_deref());
    text(out, note.account);
}

fn text(out: &mut Vec<u8>, text: Option<&str>) {
    let length = text.map_or(NONE, |text| u16::try_from(text.len()).unwrap_or(NONE - 1));
    out.extend_from_slice(&length.to_le_bytes());
    match text {
        Some(text) if text.len() <= LONGEST => out.extend_from_slice(text.as_bytes()),
        // More than the ring takes.
        Some(_) => out.resize(out.len() + 2 * super::MOST_BYTES, 0),
        None => {}
    }
}

/// Reads what was written; none if it is anything else.
pub(super) fn read(bytes: &[u8]) -> Option<Entry> {
    let mut reader = Reader(bytes);
    let [hash, skipped, edge, store, length, cost] = reader.numbers()?;
    let address = Ipv6Addr::from(reader.array::<16>()?);
    let [level, ending, kind, tenant_verified] = reader.array()?;
    let ending = *Ending::ALL.get(usize::from(ending))?;
    let asked = Asked {
        edge: Timestamp::from_micros(edge),
        store: Timestamp::from_micros(store),
        ending,
        client: IpAddr::V6(address).to_canonical(),
        bytes: (length != u64::MAX).then_some(length),
        cost: NonZeroU64::new(cost),
        tenant_verified: tenant_verified == 1,
        user_kind: KINDS.get(usize::from(kind)).copied(),
        method: reader.text()??,
        host: reader.text()?,
        path: reader.text()??,
        tenant: reader.text()?,
        tier: reader.text()?,
        user: reader.text()?,
        account: reader.text()?,
    };
    Some(Entry { asked, hash, level: u32::from(level), skipped })
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn numbers<const COUNT: usize>(&mut self) -> Option<[u64; COUNT]> {
        let mut numbers = [0; COUNT];
        for number in &mut numbers {
            *number = u64::from_le_bytes(self.array()?);
        }
        Some(numbers)
    }

    fn text(&mut self) -> Option<Option<String>> {
        let length = u16::from_le_bytes(self.array()?);
        if length == NONE {
            return Some(None);
        }
        let (taken, rest) = self.0.split_at_checked(usize::from(length))?;
        self.0 = rest;
        String::from_utf8(taken.to_vec()).ok().map(Some)
    }
}
