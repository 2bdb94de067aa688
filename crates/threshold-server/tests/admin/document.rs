//! The OpenAPI document says what the API does: a tool that knows nothing else finds nothing undocumented.

use super::common::{Operated, TOKEN};
use crate::support::schemathesis;

const POLICY: &str = "[identity]\ntenant = { header = \"x-tenant\" }\nunknown_tier = \"free\"\n\
    [tiers.free]\njobs = \"1000/day\"\n[tiers.paid]\njobs = \"2000/day\"\n\
    [[limit]]\nid = \"api\"\nlayer = \"edge\"\nrate = \"1000/min\"\n\
    [[limit]]\nid = \"jobs\"\nlayer = \"tenant\"\ncategory = \"jobs\"\n";

/// Names, rates and policies have grammars that no JSON Schema tells, and whether something is there is no matter of form;
/// so 400, 409 and 422 are as good as any documented status, and a token may be used only so often.
const SETTINGS: &str = r#"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 409, 422, 429]
"#;

/// Has schemathesis try everything that the document names, in the way of some of its `phases`. That wrong tokens are refused
/// is for other tests: after ten of them the answer is another.
fn try_everything(operated: &Operated, token: &str, phases: &str) {
    let url = format!("http://{}/api/admin/openapi.json", operated.server.admin);
    let bearer = format!("Authorization: Bearer {token}");
    let mut arguments = vec!["-H", &bearer, "--exclude-checks", "ignored_auth"];
    arguments.extend(["--max-examples", "10", "--phases", phases]);
    // Events never end; they are for other tests.
    arguments.extend(["--exclude-path", "/api/admin/events"]);
    schemathesis::try_everything(&url, SETTINGS, &arguments);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_the_document_allows_surprises() {
    let operated = Operated::with(POLICY, &["--archive", "archive"], &[("THRESHOLD_ADMIN_TOKEN", TOKEN)]);
    try_everything(&operated, TOKEN, "examples,coverage");
    // Each token may be used so often.
    try_everything(&operated, &operated.token("admin"), "fuzzing");
}
