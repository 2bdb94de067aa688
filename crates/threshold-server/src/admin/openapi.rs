//! The API for programs.

use http::StatusCode;
use serde_json::Value as Json;
use threshold_http::Answer;

pub(super) const DOCUMENT: &str = include_str!("openapi.json");

/// The OpenAPI document.
pub(super) fn document() -> Result<Json, Box<Answer>> {
    let text = DOCUMENT.replace("{version}", env!("CARGO_PKG_VERSION"));
    serde_json::from_str(&text).map_err(|error| {
        let detail = format!("the document is broken ({error}); report it");
        Box::new(Answer::new(StatusCode::INTERNAL_SERVER_ERROR, "broken_document", &detail))
    })
}
