//! What every ledger must do, case by case.
//!
//! A backend implements [`LedgerBackend`]: how to open a ledger. [`ledger_contract_tests!`] turns every case into a test
//! of its own; a backend that cannot be opened fails them all. Every case uses subjects, limits and operators of its own,
//! so all of them may run against one ledger at once. Nothing but the sweep's case happens before [`start`].
//!
//! [`ledger_contract_tests!`]: crate::ledger_contract_tests

mod erasure;
mod feed;
mod logins;
mod random;
mod sanctions;
mod settings;
mod story;
mod strikes;
mod sweeping;
mod violations;

use std::future::Future;
use std::sync::Arc;

use threshold_core::ledger::{
    Audit, Change, Entry, Evidence, Query, Record, Sanction, Standing, Strike, Struck, ViolationRecord,
    Written,
};
use threshold_core::standing::{Ladder, Looks, Violation};
use threshold_core::{
    Ledger, SharedLedger, Span, StoreError, Subject, SubjectId, SubjectKey, SubjectKind, Timestamp,
};

pub use story::Story;

use crate::strategies::start;

/// How to reach a ledger of one kind.
pub trait LedgerBackend {
    /// The ledger.
    type Ledger: Ledger + 'static;

    /// Opens a ledger. The error says what is missing and how to get it.
    fn open(&self) -> impl Future<Output = Result<Self::Ledger, String>> + Send;
}

/// One case: its name and what it does with an open ledger.
pub struct LedgerCase {
    /// The name, which is the test's.
    pub name: &'static str,
    run: fn(Bench) -> BoxedCase,
}

type BoxedCase = std::pin::Pin<Box<dyn Future<Output = ()>>>;

/// An open ledger on the bench, and names that no other case uses.
#[derive(Clone)]
pub(crate) struct Bench {
    ledger: SharedLedger,
    key: SubjectKey,
    /// The case's limit, and its operator's name.
    name: String,
}

macro_rules! cases {
    ($($module:ident :: $name:ident),+ $(,)?) => {
        /// All cases.
        pub const CASES: &[LedgerCase] = &[
            $(LedgerCase { name: stringify!($name), run: |bench| Box::pin($module::$name(bench)) }),+
        ];

        /// Turns every case of the contract into a test against the backend that the expression gives.
        #[macro_export]
        macro_rules! ledger_contract_tests {
            ($backend:expr) => {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    $crate::ledger_contract::run(stringify!($name), &$backend).await;
                })+
            };
        }
    };
}

cases! {
    strikes::a_window_has_one_strike_however_often_it_is_asked,
    strikes::everyone_at_once_makes_one_strike,
    strikes::limits_and_subjects_have_windows_of_their_own,
    strikes::strikes_count_up_and_lapse,
    strikes::the_ready_made_ladder_sanctions_at_three_four_and_five,
    strikes::a_standing_remembers_the_first_and_the_last,
    strikes::reputation_falls_and_is_capped,
    sanctions::an_end_never_comes_nearer,
    sanctions::a_sanction_is_extended_in_its_place,
    sanctions::no_sanction_is_longer_than_the_longest,
    sanctions::one_kind_is_lifted_and_strikes_stay,
    sanctions::lifting_all_forgets_the_strikes,
    sanctions::lifting_nothing_changes_nothing,
    sanctions::only_addresses_and_users_can_be_sanctioned,
    sanctions::entries_of_one_write_are_all_or_none,
    sanctions::an_operators_sanction_has_a_name_and_a_record,
    sanctions::those_in_force_are_told_from_those_that_ended,
    violations::a_violation_is_read_back_as_it_was,
    violations::a_worse_one_replaces_the_last_and_only_upwards,
    violations::odd_habits_make_it_suspicious,
    settings::overrides_are_set_changed_and_removed,
    settings::tenants_are_set_changed_and_removed,
    settings::changes_are_audited_with_before_and_after,
    feed::everything_after_a_version_comes_once_and_in_order,
    feed::long_lists_come_in_pages,
    feed::the_newest_come_first_if_they_are_to,
    logins::failures_climb_the_schedule,
    logins::guesses_while_it_is_locked_do_not_count,
    logins::a_success_clears_unless_it_is_locked,
    logins::unlocked_by_account_or_by_source,
    logins::lockouts_are_listed_while_they_last,
    logins::devices_are_remembered_and_the_oldest_makes_room,
    erasure::somebody_is_forgotten_and_nobody_else,
    erasure::sanctions_in_force_stay_if_they_are_to,
    erasure::accounts_and_tenants_are_forgotten_too,
    erasure::changes_that_name_somebody_read_otherwise_afterwards,
    sweeping::sweeping_keeps_and_drops_to_the_tick,
    random::random_stories_are_told_alike,
    random::reports_its_health,
    random::a_closed_ledger_says_so_or_goes_on,
}

/// Runs the case called `name` against `backend`.
///
/// # Panics
///
/// If the case fails, if there is no such case, or if the backend cannot be opened.
pub async fn run<B: LedgerBackend>(name: &str, backend: &B) {
    let case = CASES.iter().find(|case| case.name == name).expect("a case of that name");
    let ledger = backend.open().await.unwrap_or_else(|missing| panic!("no backend: {missing}"));
    (case.run)(Bench::new(Arc::new(ledger))).await;
}

impl Bench {
    fn new(ledger: SharedLedger) -> Self {
        let key = threshold_store::random_secret().subject_key();
        let name = format!("{:.40}", key.id(SubjectKind::Tenant, &Subject::new("case")).to_string());
        Self { ledger, key, name }
    }

    fn id(&self, kind: SubjectKind, name: &str) -> SubjectId {
        self.key.id(kind, &Subject::new(name))
    }

    fn user(&self, name: &str) -> SubjectId {
        self.id(SubjectKind::User, name)
    }

    async fn try_write(&self, entries: &[Entry]) -> Result<Vec<Written>, StoreError> {
        self.ledger.write(entries).await
    }

    async fn write(&self, entries: &[Entry]) -> Vec<Written> {
        self.try_write(entries).await.expect("the ledger writes")
    }

    async fn one(&self, entry: Entry) -> Written {
        let mut written = self.write(&[entry]).await;
        assert_eq!(written.len(), 1, "one answer for one entry");
        written.remove(0)
    }

    /// A strike with the ready-made ladder under this case's limit of one a minute.
    fn strike(&self, subject: SubjectId, at: Timestamp) -> Strike {
        let evidence = Evidence {
            kind: Violation::RateExceeded,
            count: 101,
            allowed: 100,
            looks: Looks::default(),
            fingerprint: None,
            user_agent: None,
            details: String::new(),
        };
        let (limit, window) = (self.name.clone(), Span::MINUTE);
        let ladder = Some(Arc::new(Ladder::ready_made()));
        Strike { subject, before: None, limit, window, at, evidence, ladder, reputation: None }
    }

    async fn struck(&self, strike: Strike) -> Struck {
        match self.one(Entry::Strike(strike)).await {
            Written::Struck(struck) => struck,
            other => panic!("no answer to a strike: {other:?}"),
        }
    }

    fn operator(&self, at: Timestamp, change: Change) -> Entry {
        Entry::Operator { by: self.name.clone(), at, change }
    }

    /// An operator's change: true if something is different now.
    async fn change(&self, at: Timestamp, change: Change) -> bool {
        match self.one(self.operator(at, change)).await {
            Written::Changed(changed) => changed,
            other => panic!("no answer to an operator: {other:?}"),
        }
    }

    /// All pages of what is asked for.
    async fn read(&self, query: Query) -> Vec<Record> {
        read_all(&self.ledger, query).await.expect("the ledger reads")
    }

    async fn standing(&self, subject: SubjectId) -> Option<Standing> {
        let mut records = self.read(Query::Standing(subject)).await;
        assert!(records.len() <= 1, "{records:?}");
        match records.pop() {
            Some(Record::Standing(standing)) => Some(standing),
            None => None,
            other => panic!("no standing: {other:?}"),
        }
    }

    async fn sanctions(&self, subject: SubjectId, active_at: Option<Timestamp>) -> Vec<Sanction> {
        let query = Query::Sanctions { subject: Some(subject), active_at, after: 0 };
        let sanction = |record| match record {
            Record::Sanction(sanction) => sanction,
            other => panic!("no sanction: {other:?}"),
        };
        self.read(query).await.into_iter().map(sanction).collect()
    }

    async fn violations(&self, subject: SubjectId) -> Vec<ViolationRecord> {
        let violation = |record| match record {
            Record::Violation(violation) => violation,
            other => panic!("no violation: {other:?}"),
        };
        let query = Query::Violations { subject: Some(subject), after: 0 };
        self.read(query).await.into_iter().map(violation).collect()
    }

    /// What this case's operator changed.
    async fn audit(&self) -> Vec<Audit> {
        let ours = |record| match record {
            Record::Audit(audit) => Some(audit).filter(|audit| audit.by == self.name),
            other => panic!("no change of an operator: {other:?}"),
        };
        self.read(Query::Audit { after: 0 }).await.into_iter().filter_map(ours).collect()
    }
}

/// All records that a query asks for, page by page.
///
/// # Errors
///
/// If the ledger cannot be read.
pub async fn read_all(ledger: &impl Ledger, mut query: Query) -> Result<Vec<Record>, StoreError> {
    let mut records = Vec::new();
    loop {
        let page = ledger.read(&query).await?;
        records.extend(page.records);
        let Some(next) = page.next else { return Ok(records) };
        match &mut query {
            Query::Changes { after }
            | Query::Sanctions { after, .. }
            | Query::Violations { after, .. }
            | Query::Overrides { after }
            | Query::Tenants { after }
            | Query::Lockouts { after, .. }
            | Query::Audit { after } => *after = next,
            Query::LatestViolations { before, .. } | Query::LatestAudit { before } => *before = next,
            Query::Standing(_) | Query::Failures(_) | Query::Device { .. } => return Ok(records),
        }
    }
}

/// So many seconds after the start of every case.
fn second(seconds: u64) -> Timestamp {
    start().plus(Span::from_secs(seconds))
}

fn minute(minutes: u64) -> Timestamp {
    second(60 * minutes)
}
