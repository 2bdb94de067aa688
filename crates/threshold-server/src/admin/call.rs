//! One question: its parts, and who is meant by it.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use threshold::ledger::{Query, Record};
use threshold::{StoreError, SubjectId};
use threshold_http::Answer;

use super::Admin;
use super::ask;
use super::tokens::Caller;
use crate::api::read::{bad, question, unprocessable};
pub(super) use crate::cli::Plain;
use crate::cli::Whom;
use crate::source;

/// The largest page, and that of who does not say.
const MOST: u64 = 1_000;
const USUAL: u64 = 100;
/// How many pages of the ledger are looked through for one page that is told: what fits in none of them comes with the
/// next.
const LOOKED: usize = 10;

/// One question.
pub(super) struct Call {
    pub(super) admin: Arc<Admin>,
    pub(super) caller: Caller,
    /// What stands for the names in the path.
    pub(super) names: Vec<String>,
    pub(super) params: Params,
    pub(super) body: Bytes,
}

/// What stands behind the path.
#[derive(Default)]
pub(super) struct Params(Vec<(String, String)>);

impl Call {
    /// What the body says.
    pub(super) fn question<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Box<Answer>> {
        question(&self.body)
    }

    /// Who asks, as it is written down.
    pub(super) fn by(&self) -> &str {
        &self.caller.name
    }

    /// What stands for the name in the path.
    pub(super) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Everybody that `whom` is known as, under the secret of now first.
    pub(super) fn ids(&self, whom: &Whom) -> Vec<SubjectId> {
        let mut ids: Vec<SubjectId> =
            self.admin.engine.all_subjects().map(|names| source::id(&names, whom)).collect();
        // One that was copied from a list is the same under every secret.
        ids.dedup();
        ids
    }

    /// The one that changes are made for.
    pub(super) fn id(&self, whom: &Whom) -> SubjectId {
        source::id(&self.admin.engine.subjects(), whom)
    }

    /// One page of what `query` asks of each of `subjects`, or of everybody: what `told` makes of the records, the oldest
    /// first, and where the next page goes on.
    pub(super) async fn page(
        &self,
        subjects: &[Option<SubjectId>],
        query: impl Fn(Option<SubjectId>, u64) -> Query,
        told: impl Fn(&Record) -> Option<Json>,
    ) -> Result<Json, Box<Answer>> {
        self.ordered_page(Order::Oldest, subjects, query, told).await
    }

    /// The same in an order, which is the query's.
    pub(super) async fn ordered_page(
        &self,
        order: Order,
        subjects: &[Option<SubjectId>],
        query: impl Fn(Option<SubjectId>, u64) -> Query,
        told: impl Fn(&Record) -> Option<Json>,
    ) -> Result<Json, Box<Answer>> {
        let most = usize::try_from(self.params.number("limit", USUAL, 1..=MOST)?).unwrap_or(usize::MAX);
        let mut after = self.params.number("after", 0, 0..=u64::MAX >> 1)?;
        let mut items = Vec::new();
        for _ in 0..LOOKED {
            let (mut records, mut last) = (Vec::new(), None);
            for subject in subjects {
                let query = query(*subject, after);
                let page = ask::read(&*self.admin.engine, &query).await.map_err(failed)?;
                // Beyond the end of the shortest page others may have something in between.
                last = page.next.into_iter().chain(last).min_by_key(|last| order.place(*last));
                records.extend(page.records.into_iter().map(|record| (record.number(&query), record)));
            }
            records.retain(|(number, _)| last.is_none_or(|last| order.place(*number) <= order.place(last)));
            records.sort_by_key(|(number, _)| order.place(*number));
            for (number, record) in &records {
                if items.len() == most {
                    return Ok(json!({ "items": items, "next": after.to_string() }));
                }
                after = *number;
                items.extend(told(record));
            }
            match last {
                Some(last) => after = last,
                None => return Ok(json!({ "items": items, "next": null })),
            }
        }
        Ok(json!({ "items": items, "next": after.to_string() }))
    }

    /// Which come first: `order` behind the path.
    pub(super) fn order(&self) -> Result<Order, Box<Answer>> {
        match self.params.get("order") {
            None | Some("oldest") => Ok(Order::Oldest),
            Some("newest") => Ok(Order::Newest),
            Some(_) => Err(bad("bad_request", "`order` is oldest or newest; leave it out for oldest")),
        }
    }

    /// Who is meant by `client` behind the path; everybody if nobody is.
    pub(super) fn filter(&self, plain: Plain) -> Result<Vec<Option<SubjectId>>, Box<Answer>> {
        match self.params.get("client") {
            Some(text) => Ok(self.ids(&whom(text, plain)?).into_iter().map(Some).collect()),
            None => Ok(vec![None]),
        }
    }
}

/// Which come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Oldest,
    Newest,
}

impl Order {
    /// Where what has this number comes.
    const fn place(self, number: u64) -> u64 {
        match self {
            Self::Oldest => number,
            Self::Newest => u64::MAX - number,
        }
    }
}

/// Whom `text` means.
pub(super) fn whom(text: &str, plain: Plain) -> Result<Whom, Box<Answer>> {
    Whom::read(text, plain).map_err(|what| bad("bad_client", &what))
}

impl Params {
    pub(super) fn read(query: Option<&str>) -> Result<Self, Box<Answer>> {
        let mut all: Vec<(String, String)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name, true)?, decoded(value, true)?);
            if all.iter().any(|(known, _)| *known == name) {
                return Err(bad("bad_request", &format!("`{name}` stands there twice; say it once")));
            }
            all.push((name, value));
        }
        Ok(Self(all))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Refuses what nobody asks for: a mistake in a filter's name would list everything.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Box<Answer>> {
        let Some((name, _)) = self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let there = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(bad("bad_request", &format!("there is no parameter {name:?}; there are: {there}")))
    }

    pub(super) fn number(
        &self,
        name: &str,
        usual: u64,
        within: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, Box<Answer>> {
        let Some(text) = self.get(name) else { return Ok(usual) };
        match text.parse() {
            Ok(number) if within.contains(&number) && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                Ok(number)
            }
            _ => {
                let (least, most) = within.into_inner();
                Err(bad("bad_request", &format!("`{name}` must be a whole number from {least} to {most}")))
            }
        }
    }

    pub(super) fn flag(&self, name: &str, usual: bool) -> Result<bool, Box<Answer>> {
        match self.get(name) {
            None => Ok(usual),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(bad("bad_request", &format!("`{name}` is true or false"))),
        }
    }
}

/// What a piece of an address says; in queries a plus sign is a space.
pub(super) fn decoded(text: &str, plus: bool) -> Result<String, Box<Answer>> {
    let wrong = || bad("bad_request", "the address has a `%` that stands for nothing; write it as %25");
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'%' => {
                let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
                let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
                bytes.push(digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or_else(wrong)?);
                rest = rest.get(2..).unwrap_or_default();
            }
            b'+' if plus => bytes.push(b' '),
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes)
        .map_err(|_| bad("bad_request", "the address is no text in UTF-8; write it as UTF-8"))
}

/// What is told when something does not work that may work later.
pub(super) fn unavailable(why: &str) -> Box<Answer> {
    let detail = format!("{why}; try again in a moment");
    Box::new(Answer::new(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", &detail))
}

/// What is told when a store or the ledger failed.
pub(super) fn failed(error: StoreError) -> Box<Answer> {
    match error.is_transient() {
        true => unavailable(&error.to_string()),
        false => unprocessable("unprocessable", &error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_who_is_meant() {
        let read = |text: &str, plain| whom(text, plain).map(|whom| format!("{whom:?}")).unwrap_or_default();
        assert!(read("192.0.2.7", Plain::Client).starts_with("Address"));
        assert!(read("2001:db8::1", Plain::Client).starts_with("Address"));
        assert!(read("address:2001:db8::1", Plain::Account).starts_with("Address"));
        assert!(read("acme/alice", Plain::Client).starts_with("User"));
        assert_eq!(
            read("192.0.2.0/24", Plain::Client),
            "",
            "a network was meant, and nobody would be held out"
        );
        assert!(read("user:192.0.2.0/24", Plain::Client).starts_with("User"));
        assert!(read("tenant:acme", Plain::Client).starts_with("Tenant"));
        assert!(read("acme", Plain::Tenant).starts_with("Tenant"));
        assert!(read("Alice@Example.com", Plain::Account).contains("alice@example.com"));
        let subject = "user:0123456789abcdef0123456789abcdef";
        assert!(read(subject, Plain::Client).starts_with("Subject"));
        assert!(
            read(&format!("/{subject}"), Plain::Client).starts_with("User"),
            "that is how a user is called that"
        );
        assert_eq!(read("", Plain::Client), "");
    }

    #[test]
    fn what_stands_behind_the_path_is_decoded() {
        let params = Params::read(Some("client=a%2Fb+c&limit=7")).unwrap();
        assert_eq!((params.get("client"), params.number("limit", 1, 1..=10).unwrap()), (Some("a/b c"), 7));
        assert!(params.only(&["client"]).is_err() && params.only(&["limit", "client"]).is_ok());
        for wrong in ["a=1&a=2", "a=%", "a=%zz", "a=%ff", "a=%+1"] {
            assert!(Params::read(Some(wrong)).is_err(), "{wrong}");
        }
        for wrong in ["limit=0", "limit=11", "limit=+1", "limit=x", "limit="] {
            assert!(Params::read(Some(wrong)).unwrap().number("limit", 1, 1..=10).is_err(), "{wrong}");
        }
    }
}
