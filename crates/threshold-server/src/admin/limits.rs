//! Counters that begin anew.

use serde::Deserialize;
use serde_json::{Value as Json, json};
use threshold::engine::Endpoint;
use threshold_http::Answer;

use super::Noted;
use super::ask;
use super::call::{Call, Plain, failed, whom};
use crate::api::read::{bad, given, unprocessable};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Reset {
    client_id: String,
    #[serde(default, deserialize_with = "given")]
    endpoint: Option<String>,
}

/// Has one client begin anew.
pub(super) async fn reset(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let Reset { client_id, endpoint } = call.question()?;
    let whom = whom(&client_id, Plain::Client)?;
    let client = whom.client().ok_or_else(|| {
        let detail =
            "counters are found by names, and a subject tells none; give the address or the name of the user";
        unprocessable("no_name", detail)
    })?;
    let rules = call.admin.engine.rules();
    let chosen = match endpoint.as_deref() {
        None => Endpoint::Every,
        Some(text) => match text.split_once(' ') {
            Some((method, path)) if path.starts_with('/') => Endpoint::Path(method, path),
            _ if text.starts_with('/') => Endpoint::Path("GET", text),
            _ if rules.limit(text).is_some() => Endpoint::Limit(text),
            _ => {
                let detail = format!(
                    "there is no limit {text:?}; give the id of one, or a path such as \"/uploads\" or \"POST /uploads\""
                );
                return Err(bad("no_endpoint", &detail));
            }
        },
    };
    let limits = ask::reset(&*call.admin.engine, client, chosen).await.map_err(failed)?;
    // Nobody is named there: by the hash it is found as well.
    let subject = call.id(&whom).to_string();
    let after = format!("as new: {}", limits.join(", "));
    let noted = Noted { action: "reset", target: &subject, before: String::new(), after };
    let audited = call.admin.note(call.by(), noted).await;
    Ok(json!({ "subject": subject, "limits": limits, "audited": audited }))
}
