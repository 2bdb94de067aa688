//! The application behind the gateway: weights that Fitbit exports become what Garmin imports.
//!
//! It knows nothing of limits: whatever arrives here was let through.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

/// How many files are kept: this is an example.
const MOST_FILES: usize = 100;
/// What Garmin's import begins with.
const HEAD: &str = "Body\nDate,Weight,BMI,Fat\n";

/// Converted files, the oldest first.
#[derive(Default)]
struct Files {
    last: u64,
    kept: VecDeque<(u64, String)>,
}

type Shared = Arc<Mutex<Files>>;

/// The application.
pub fn app() -> Router {
    Router::new()
        .route("/", get(index))
        .route("/api/upload", post(upload))
        .route("/api/convert", post(convert))
        .route("/api/validate", post(validate))
        .route("/api/download/{id}", get(download))
        .with_state(Shared::default())
}

async fn index() -> &'static str {
    "POST /api/upload, /api/convert or /api/validate with Fitbit's weights as JSON; GET /api/download/{id}\n"
}

/// Keeps what Garmin imports, under a number.
async fn upload(State(files): State<Shared>, Json(weights): Json<Value>) -> Response {
    let csv = match converted(&weights) {
        Ok(csv) => csv,
        Err(what) => return refused(&what),
    };
    let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
    files.last += 1;
    let id = files.last;
    files.kept.push_back((id, csv));
    if files.kept.len() > MOST_FILES {
        files.kept.pop_front();
    }
    (StatusCode::CREATED, Json(json!({ "id": id, "download": format!("/api/download/{id}") })))
        .into_response()
}

async fn convert(Json(weights): Json<Value>) -> Response {
    match converted(&weights) {
        Ok(csv) => as_csv(csv),
        Err(what) => refused(&what),
    }
}

async fn validate(Json(weights): Json<Value>) -> Json<Value> {
    match converted(&weights) {
        Ok(csv) => Json(json!({ "valid": true, "entries": csv.lines().count() - HEAD.lines().count() })),
        Err(what) => Json(json!({ "valid": false, "error": what })),
    }
}

async fn download(State(files): State<Shared>, Path(id): Path<u64>) -> Response {
    let files = files.lock().unwrap_or_else(PoisonError::into_inner);
    match files.kept.iter().find(|(known, _)| *known == id) {
        Some((_, csv)) => as_csv(csv.clone()),
        None => (StatusCode::NOT_FOUND, Json(json!({ "error": "there is no such file" }))).into_response(),
    }
}

fn as_csv(csv: String) -> Response {
    ([(header::CONTENT_TYPE, "text/csv")], csv).into_response()
}

fn refused(what: &str) -> Response {
    (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({ "error": what }))).into_response()
}

/// Fitbit's `[{"date": "02/28/26", "weight": 180.4, "bmi": 25.1, "fat": 20.5}]` as Garmin's table.
fn converted(weights: &Value) -> Result<String, String> {
    let entries = weights.as_array().ok_or("a list of weights is expected")?;
    let mut csv = HEAD.to_owned();
    for entry in entries {
        let date = entry["date"].as_str().and_then(garmin_date).ok_or("a date is no month/day/year")?;
        let weight = entry["weight"].as_f64().ok_or("a weight is no number")?;
        let [bmi, fat] = ["bmi", "fat"].map(|name| entry[name].as_f64().unwrap_or(0.0));
        csv.push_str(&format!("\"{date}\",\"{weight:.1}\",\"{bmi:.1}\",\"{fat:.1}\"\n"));
    }
    Ok(csv)
}

/// `02/28/26` as `2026-02-28`.
fn garmin_date(text: &str) -> Option<String> {
    let mut parts = text.splitn(3, '/').map(str::parse::<u32>);
    let (month, day, year) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day) && year < 100;
    is_date.then(|| format!("20{year:02}-{month:02}-{day:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_become_a_table() {
        let weights = json!([{ "date": "02/28/26", "weight": 180.44, "bmi": 25.1, "fat": 20.5 }]);
        let csv = converted(&weights);
        assert_eq!(csv, Ok(format!("{HEAD}\"2026-02-28\",\"180.4\",\"25.1\",\"20.5\"\n")));
        for wrong in [json!({}), json!([{ "date": "28.2.26", "weight": 1 }]), json!([{ "date": "02/28/26" }])]
        {
            assert!(converted(&wrong).is_err(), "{wrong}");
        }
    }
}
