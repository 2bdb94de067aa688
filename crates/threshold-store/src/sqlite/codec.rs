//! States as the columns of a row keep them.
//!
//! A list is kept as numbers of seven bits to a byte, low ones first, the high bit saying that more follow. Times are told
//! from the one before: most entries of a log take four bytes instead of sixteen.

use rusqlite::types::ValueRef;
use threshold_core::PermitId;
use threshold_core::algorithm::concurrency::MAX_PERMITS;
use threshold_core::algorithm::sliding_log::MAX_LOG;
use threshold_core::state::{Cell, Entry, Log, Permit, Permits};

/// Below this bit of a head is the rest of a cell; from it on, the last instant at which the state still matters.
const INSTANT: u32 = 76;

/// What a list is, in its head; the numbers stay what they are for as long as there are files.
const LOG: u128 = 1;
const PERMITS: u128 = 2;

/// What is kept as a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum List {
    /// Neither log nor permits, yet or any more.
    #[default]
    Nothing,
    Log(Log),
    Permits(Permits),
}

/// What a row says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Row {
    Cell(Cell),
    List(List),
    /// What was never written.
    Nonsense,
}

/// A list as its row has it: the head and the entries.
pub(super) type Kept = (u128, Vec<u8>);

pub(super) fn head_of(cell: Cell) -> u128 {
    let [low, high] = cell.to_words();
    u128::from(high) << 64 | u128::from(low)
}

fn cell_of(head: u128) -> Cell {
    Cell::from_words([head as u64, (head >> 64) as u64])
}

/// True if a row with this head may be dropped. A list is dropped by the rule of cells, a tick after it expires at most.
pub(super) fn is_expired(head: u128, now: u64) -> bool {
    cell_of(head).is_expired(now)
}

/// A head from its column.
pub(super) fn head(column: ValueRef<'_>) -> Option<u128> {
    column.as_blob().ok()?.try_into().ok().map(u128::from_be_bytes)
}

/// A row from its columns.
pub(super) fn decode(head_column: ValueRef<'_>, list: ValueRef<'_>) -> Row {
    let Some(head) = head(head_column) else { return Row::Nonsense };
    let list = match list {
        ValueRef::Null => return Row::Cell(cell_of(head)),
        ValueRef::Blob(list) => list,
        _ => return Row::Nonsense,
    };
    let expires = (head >> INSTANT) as u64;
    let read = match head & ((1 << INSTANT) - 1) {
        LOG => entries(list).map(|entries| List::Log(Log::from_entries(entries, expires))),
        PERMITS => permits(list).map(|held| List::Permits(Permits::from_held(held, expires))),
        _ => None,
    };
    read.map_or(Row::Nonsense, Row::List)
}

/// What a row has to say of a list; none if there need not be one. An empty list is as good as none.
pub(super) fn encode(list: &List) -> Option<Kept> {
    let head = |expires: u64, what| u128::from(expires) << INSTANT | what;
    let (mut bytes, mut last) = (Vec::new(), 0);
    let mut after = |at: u64| at - std::mem::replace(&mut last, at);
    match list {
        List::Log(log) if !log.entries().is_empty() => {
            for entry in log.entries() {
                put(&mut bytes, after(entry.at));
                put(&mut bytes, entry.cost);
            }
            Some((head(log.expires(), LOG), bytes))
        }
        List::Permits(permits) if !permits.held().is_empty() => {
            for permit in permits.held() {
                put(&mut bytes, after(permit.expires));
                put(&mut bytes, permit.cost);
                bytes.extend(permit.id.get().to_be_bytes());
            }
            Some((head(permits.expires(), PERMITS), bytes))
        }
        _ => None,
    }
}

fn entries(mut from: &[u8]) -> Option<Vec<Entry>> {
    let (mut entries, mut last) = (Vec::new(), 0);
    while !from.is_empty() {
        let (at, cost) = timed(&mut from, &mut last, MAX_LOG)?;
        entries.push(Entry { at, cost });
    }
    Some(entries)
}

fn permits(mut from: &[u8]) -> Option<Vec<Permit>> {
    let (mut held, mut last) = (Vec::new(), 0);
    while !from.is_empty() {
        let (expires, cost) = timed(&mut from, &mut last, MAX_PERMITS)?;
        let (id, rest) = from.split_first_chunk()?;
        from = rest;
        held.push(Permit { id: PermitId::new(u128::from_be_bytes(*id)), expires, cost });
    }
    Some(held)
}

/// A time that is told from the last one, and a cost; both within what is ever written, so that nothing overflows.
fn timed(from: &mut &[u8], last: &mut u64, most: u64) -> Option<(u64, u64)> {
    let at = last.checked_add(take(from)?).filter(|at| *at < 1 << (u128::BITS - INSTANT))?;
    *last = at;
    Some((at, take(from).filter(|cost| *cost <= most)?))
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..9 {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7F) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(list: &List) -> Row {
        let (head, bytes) = encode(list).expect("a list with something in it");
        decode(ValueRef::Blob(&head.to_be_bytes()), ValueRef::Blob(&bytes))
    }

    #[test]
    fn lists_come_back_as_they_were() {
        let last = (1 << 52) - 1;
        let entry = |at, cost| Entry { at, cost };
        let entries = [entry(0, 1), entry(1, 127), entry(128, 128), entry(last, MAX_LOG)];
        let log = List::Log(Log::from_entries(entries, last));
        assert_eq!(back(&log), Row::List(log));
        let permit = |id, expires, cost| Permit { id: PermitId::new(id), expires, cost };
        let held = [permit(u128::MAX, 5, 1), permit(0, 5, 2), permit(7, last, MAX_PERMITS)];
        let permits = List::Permits(Permits::from_held(held, last));
        assert_eq!(back(&permits), Row::List(permits));
    }

    #[test]
    fn a_list_with_nothing_in_it_needs_no_row() {
        let empty = [List::Nothing, List::Log(Log::default()), List::Permits(Permits::from_held([], 9))];
        empty.iter().for_each(|list| assert_eq!(encode(list), None));
    }

    #[test]
    fn a_list_expires_with_its_head() {
        let log = List::Log(Log::from_entries([Entry { at: 10, cost: 1 }], 110));
        let (head, _) = encode(&log).expect("a log");
        assert!(!is_expired(head, 110));
        assert!(is_expired(head, 111));
    }

    #[test]
    fn nonsense_is_told_from_a_list() {
        let log = Log::from_entries([Entry { at: 10, cost: 1 }, Entry { at: 300, cost: 1 }], 400);
        let (head, bytes) = encode(&List::Log(log)).expect("a log");
        let head = head.to_be_bytes();
        let said = |bytes: &[u8]| decode(ValueRef::Blob(&head), ValueRef::Blob(bytes));
        assert!(matches!(said(&bytes), Row::List(_)));
        for bad in [
            &bytes[..1],
            &[0xFF; 20],
            &[1, 0xFF, 0xFF, 0x7F],
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 1],
        ] {
            assert_eq!(said(bad), Row::Nonsense, "{bad:?}");
        }
        assert_eq!(decode(ValueRef::Blob(&head[1..]), ValueRef::Null), Row::Nonsense);
        assert_eq!(decode(ValueRef::Integer(1), ValueRef::Null), Row::Nonsense);
        let other = (9_u128 << INSTANT | 3).to_be_bytes();
        assert_eq!(decode(ValueRef::Blob(&other), ValueRef::Blob(&bytes)), Row::Nonsense);
    }
}
