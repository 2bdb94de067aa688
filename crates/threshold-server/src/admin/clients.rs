//! What is known of one client.

use serde_json::{Value as Json, json};
use threshold::ledger::{Query, Record};
use threshold_http::Answer;

use super::ask;
use super::call::{Call, Plain, failed, whom};
use super::{analytics, records};

/// How many violations are told: the latest.
const VIOLATIONS: usize = 20;
/// How many pages of violations are looked through for them.
const PAGES: usize = 10;

/// What one client asked, how it stands, and what it violated last.
pub(super) async fn client(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&["window"])?;
    let (window, span) = analytics::window(call)?;
    let ids = call.ids(&whom(call.name(), Plain::Client)?);
    let since = call.admin.engine.now().minus(span);
    let (mut standing, mut violations) = (Vec::new(), Vec::new());
    for id in &ids {
        standing.push(records::standing_of(call, *id).await?);
        let mut before = Some(0);
        for _ in 0..PAGES {
            let Some(from) = before else { break };
            let query = Query::LatestViolations { subject: Some(*id), before: from };
            let page = ask::read(&*call.admin.engine, &query).await.map_err(failed)?;
            violations.extend(page.records.iter().filter_map(|record| match record {
                Record::Violation(violation) if violation.at >= since => Some(violation.clone()),
                _ => None,
            }));
            before = page.next;
        }
    }
    violations.sort_by_key(|violation| violation.id);
    let older = violations.len().saturating_sub(VIOLATIONS);
    let latest: Vec<Json> = violations.iter().skip(older).map(records::violation_document).collect();
    let usage = analytics::rates(call, since, ids.clone()).await?;
    Ok(json!({
        "subjects": ids.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "window": window,
        "since": since.to_string(),
        "standing": standing,
        "violations": latest,
        "olderViolations": older,
        "usage": usage.map(|counts| counts.rows),
    }))
}
