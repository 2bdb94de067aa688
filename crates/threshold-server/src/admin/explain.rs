//! What a request would meet.

use serde_json::Value as Json;
use threshold_http::Answer;

use super::ask;
use super::call::Call;

/// Says what would become of a request and why, and charges nothing.
pub(super) async fn explain(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    ask::explain(&*call.admin.engine, &call.body).await
}
