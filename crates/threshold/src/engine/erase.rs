//! Erase: somebody is forgotten, in the store, in the ledger and in memory; on other nodes when they hear of it.

use std::sync::atomic::Ordering;

use threshold_core::ledger::{Audit, Change, Entry, Erased, Erasure, Query, Record, Written};
use threshold_core::{Clock, Key, Ledger, Store, StoreError, SubjectId, SubjectKind};

use super::Engine;
use super::escalate::BESIDE;
use super::operate::{Settings, event};
use super::reset::{Client, Counters, Endpoint};
use super::standings::Counting;

/// What stands in the place of a name.
const ERASED: &str = "[erased]";

/// Who is to be forgotten.
#[derive(Clone, Copy, Debug)]
pub struct Forgetting<'a> {
    /// Everybody that it is known as in the ledger.
    pub subjects: &'a [SubjectId],
    /// Who it is, where that is known: counters are found by nothing else.
    pub client: Option<Client<'a>>,
    /// True if sanctions stay that are in force.
    pub keep_sanctions: bool,
    /// What it is called where operators write what they like.
    pub names: &'a [String],
}

/// What was forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Records of the ledger.
    pub records: Erased,
    /// Limits under which it begins anew.
    pub limits: Vec<&'static str>,
    /// Limits that count it only together with something else: what they count goes when its time is over.
    pub shared: Vec<&'static str>,
}

impl<S: Store, C: Clock, L: Ledger> Engine<S, C, L> {
    /// Forgets somebody in an operator's name: its counters, and all that the ledger has about it. Asked again, it goes on
    /// where it failed.
    ///
    /// # Errors
    ///
    /// If the store or the ledger could not be told. Some of it may be forgotten then.
    pub async fn erase(&self, by: &str, forgetting: &Forgetting<'_>) -> Result<Forgotten, StoreError> {
        // Before the overrides that some of them come from are forgotten.
        let counters = forgetting.client.map(|client| self.counters(client, Endpoint::Every));
        let Counters { limits, shared, edge, inner } = counters.unwrap_or_default();
        let mut tried = inner.clone();
        for subject in forgetting.subjects {
            tried.extend(self.rules().login.all_keys_of(*subject));
            tried.extend(self.tried_at(*subject).await?);
        }
        self.edge.reset_now(&edge);
        self.edge.reset_now(&beside(edge.iter().chain(&inner)));
        self.store.reset(&tried).await?;
        let records = self.erase_records(by, forgetting).await?;
        self.refresh().await?;
        Ok(Forgotten { records, limits, shared })
    }

    async fn erase_records(&self, by: &str, forgetting: &Forgetting<'_>) -> Result<Erased, StoreError> {
        let mut redacted = self.redacted(forgetting.names).await?;
        let at = self.edge.now();
        let erasure = |subject: &SubjectId| {
            let (subject, keep_sanctions) = (*subject, forgetting.keep_sanctions);
            Change::Erase(Erasure { subject, keep_sanctions, redacted: std::mem::take(&mut redacted) })
        };
        let changes: Vec<Change> = forgetting.subjects.iter().map(erasure).collect();
        let entry = |change: &Change| Entry::Operator { by: by.to_owned(), at, change: change.clone() };
        let entries: Vec<Entry> = changes.iter().map(entry).collect();
        let written = self.observe(self.ledger().write(&entries)).await?;
        let mut all = Erased::default();
        for (change, written) in changes.into_iter().zip(written) {
            if let Written::Erased(erased) = &written {
                all = all.and(erased);
            }
            self.tell(&event((at, by), change, &[written]));
        }
        Ok(all)
    }

    /// The operators' changes that name somebody, without the names.
    async fn redacted(&self, names: &[String]) -> Result<Vec<Audit>, StoreError> {
        let (mut all, mut after) = (Vec::new(), Some(0).filter(|_| !names.is_empty()));
        while let Some(from) = after {
            let page = self.observe(self.ledger().read(&Query::Audit { after: from })).await?;
            all.extend(page.records.into_iter().filter_map(|record| match record {
                Record::Audit(audit) => redacted(&audit, names),
                _ => None,
            }));
            after = page.next;
        }
        Ok(all)
    }

    /// Forgets here whom another node, or this one, has erased; true if a setting is another by that.
    pub(super) fn hear_of_erasure(
        &self,
        audit: &Audit,
        settings: &mut Settings,
        counting: &Counting<'_>,
    ) -> bool {
        let Some((subject, keep_sanctions)) = audit.erases() else { return false };
        // All changes are read anew now and then: what was done since is not forgotten once more.
        if self.last_erasure.fetch_max(audit.id, Ordering::AcqRel) >= audit.id {
            return false;
        }
        self.standings.forget(subject, keep_sanctions, counting);
        if let Some(usage) = &self.usage {
            usage.forget(&subject);
        }
        if let Some(recent) = &self.recent {
            recent.forget();
        }
        if let Some(figures) = &self.figures {
            let is_tenant = |name: &str| self.all_subjects().any(|names| names.tenant(name) == subject);
            figures.forget(&subject, |name| subject.kind() == SubjectKind::Tenant && is_tenant(name));
        }
        settings.forget(subject)
    }
}

/// What is counted beside limits, in this process.
fn beside<'a>(keys: impl Iterator<Item = &'a Key>) -> Vec<Key> {
    keys.flat_map(|key| BESIDE.map(|purpose| key.beside(purpose))).collect()
}

/// An operator's change without these names, if it has any of them.
#[must_use]
pub fn redacted(audit: &Audit, names: &[String]) -> Option<Audit> {
    let without = |text: &str| names.iter().fold(text.to_owned(), |text, name| without(&text, name));
    let mut redacted = audit.clone();
    // What operators wrote stands behind what was done, and names of their own stand behind what they name.
    for (text, behind) in
        [(&mut redacted.target, " "), (&mut redacted.before, ": "), (&mut redacted.after, ": ")]
    {
        let begin = text.find(behind).map_or(0, |found| found + behind.len());
        let (kept, written) = text.split_at(begin);
        *text = format!("{kept}{}", without(written));
    }
    (redacted != *audit).then_some(redacted)
}

/// `text` with something else in the place of `name`, wherever it stands as a word of its own, in letters of either case.
fn without(text: &str, name: &str) -> String {
    let (lower, name) = (text.to_ascii_lowercase(), name.to_ascii_lowercase());
    let ends = |at: usize| !lower[..at].ends_with(char::is_alphanumeric);
    let begins = |at: usize| !lower[at..].starts_with(char::is_alphanumeric);
    let (mut made, mut from) = (String::with_capacity(text.len()), 0);
    for (at, found) in lower.match_indices(&name).filter(|(_, found)| !found.is_empty()) {
        let end = at + found.len();
        if at >= from && ends(at) && begins(end) {
            made.push_str(&text[from..at]);
            made.push_str(ERASED);
            from = end;
        }
    }
    made.push_str(&text[from..]);
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use threshold_core::Timestamp;

    #[test]
    fn names_go_where_they_are_words_of_their_own() {
        for (text, name, expected) in [
            ("Alice@example.com scrapes", "alice@example.com", "[erased] scrapes"),
            ("by 10.0.0.1, 10.0.0.10 and 110.0.0.1", "10.0.0.1", "by [erased], 10.0.0.10 and 110.0.0.1"),
            ("al, alice and al", "al", "[erased], alice and [erased]"),
            ("für Änne", "Änne", "für [erased]"),
            ("nothing", "", "nothing"),
        ] {
            assert_eq!(without(text, name), expected);
        }
    }

    #[test]
    fn what_was_done_stays_and_what_was_written_about_it_is_redacted() {
        let audit = Audit {
            id: 7,
            at: Timestamp::default(),
            by: "ban".to_owned(),
            action: "impose ban".to_owned(),
            target: "user:0123456789abcdef0123456789abcdef".to_owned(),
            before: String::new(),
            after: "ban for 1h more: ban evades".to_owned(),
        };
        let without = redacted(&audit, &["ban".to_owned()]).unwrap();
        assert_eq!(without.after, "ban for 1h more: [erased] evades");
        assert_eq!(
            (&without.target, &without.action, &without.by),
            (&audit.target, &audit.action, &audit.by)
        );
        assert_eq!(redacted(&audit, &["eve".to_owned()]), None);
        let named = Audit { target: "override alice".to_owned(), after: "api".to_owned(), ..audit };
        assert_eq!(redacted(&named, &["alice".to_owned()]).unwrap().target, "override [erased]");
    }
}
