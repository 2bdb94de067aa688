//! Analytics that bound what one address can do to them: so many contributions a day to each metric, and so much money a
//! day for all.
//!
//! | module | holds |
//! | --- | --- |
//! | [`settings`] | what is set from outside, where counters live first of all |
//! | [`limits`] | the limits, and the store that the setting asks for |

pub mod limits;
pub mod settings;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use http::header::RETRY_AFTER;
use serde_json::{Value, json};
use threshold::{ConsumeError, Decision};

use limits::{CheckError, Checked, Contribution, DAILY_CENTS, Limits, METRICS, MOST_CHECKS, NoMetric};

/// The whole service.
pub fn app(limits: Arc<Limits>) -> Router {
    Router::new()
        .route("/contribute", post(contribute))
        .route("/check", post(check))
        .route("/spend", post(spend))
        .route("/stats", get(stats))
        .with_state(limits)
}

/// Drops what no longer counts, every so often, and says how much that was.
pub async fn sweep_every(limits: &Limits, every: Duration, say: impl Fn(&str)) {
    loop {
        say(&match limits.sweep().await {
            Ok(swept) => format!("swept: {} of {} entries no longer count", swept.dropped, swept.seen),
            Err(error) => format!("not swept: {error}"),
        });
        tokio::time::sleep(every).await;
    }
}

/// `{"metric": "template_view"}`: one contribution of whoever is connected.
async fn contribute(
    State(limits): State<Arc<Limits>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Json(wish): Json<Value>,
) -> Response {
    let Some(metric) = wish["metric"].as_str() else {
        return bad("there is no \"metric\"; send {\"metric\": \"template_view\"}");
    };
    let address = peer.ip().to_string();
    match limits.check(&[Contribution { address: &address, metric }]).await {
        Ok(checked) => checked.first().map_or_else(|| bad("nothing was asked"), one),
        Err(error) => failed(error),
    }
}

/// `{"keys": [{"address": "192.0.2.1", "metric": "page_view"}, …]}`: many at once, each judged by itself.
async fn check(State(limits): State<Arc<Limits>>, Json(wish): Json<Value>) -> Response {
    let keys = wish["keys"].as_array();
    let read = |key: &'static str| move |entry: &Value| entry[key].as_str().map(str::to_owned);
    let pairs = keys.map(|keys| keys.iter().map(|key| Some((read("address")(key)?, read("metric")(key)?))));
    let Some(pairs) = pairs.and_then(Iterator::collect::<Option<Vec<_>>>) else {
        return bad("send {\"keys\": [{\"address\": \"192.0.2.1\", \"metric\": \"page_view\"}]}");
    };
    let wanted: Vec<_> = pairs.iter().map(|(address, metric)| Contribution { address, metric }).collect();
    match limits.check(&wanted).await {
        Ok(checked) => {
            Json(json!({"results": checked.iter().map(shown).collect::<Vec<_>>()})).into_response()
        }
        Err(error) => failed(error),
    }
}

/// `{"cents": 12}`: money of everyone's day.
async fn spend(State(limits): State<Arc<Limits>>, Json(wish): Json<Value>) -> Response {
    let Some(cents) = wish["cents"].as_u64() else {
        return bad("there is no \"cents\"; send {\"cents\": 12}");
    };
    match limits.spend(cents).await {
        Ok(decision) => spent(cents, &decision),
        Err(error @ ConsumeError::ZeroCost) => bad(&error.to_string()),
        Err(error) => unavailable(&error.to_string()),
    }
}

async fn stats(State(limits): State<Arc<Limits>>) -> Response {
    match limits.stats().await {
        Ok(stats) => Json(json!({
            "activeEntries": stats.active,
            "todayEntries": stats.today,
            "implementation": stats.implementation.name(),
        }))
        .into_response(),
        Err(error) => unavailable(&error.to_string()),
    }
}

fn one(checked: &Checked) -> Response {
    match checked.retry_after {
        None if checked.allowed => Json(shown(checked)).into_response(),
        None => (StatusCode::TOO_MANY_REQUESTS, Json(shown(checked))).into_response(),
        Some(seconds) => {
            let after = [(RETRY_AFTER, seconds.max(1).to_string())];
            (StatusCode::TOO_MANY_REQUESTS, after, Json(shown(checked))).into_response()
        }
    }
}

fn shown(checked: &Checked) -> Value {
    let mut shown = json!({
        "allowed": checked.allowed,
        "remaining": checked.remaining,
        "source": checked.source.name(),
    });
    if let Some(seconds) = checked.retry_after {
        shown["retryAfter"] = seconds.into();
    }
    shown
}

fn spent(cents: u64, decision: &Decision) -> Response {
    let body = json!({
        "allowed": decision.allowed(),
        "remainingCents": decision.remaining(),
        "source": decision.source().name(),
    });
    match decision.retry_after() {
        None if decision.allowed() => Json(body).into_response(),
        Some(wait) => {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let after = [(RETRY_AFTER, seconds.max(1).to_string())];
            (StatusCode::TOO_MANY_REQUESTS, after, Json(body)).into_response()
        }
        None => {
            let error = format!("{cents} cents are more than the {DAILY_CENTS} of a day; send less at once");
            (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({ "error": error }))).into_response()
        }
    }
}

fn failed(error: CheckError) -> Response {
    match error {
        CheckError::NoMetric(NoMetric(name)) => {
            let metrics = METRICS.map(|(metric, _)| metric).join(", ");
            bad(&format!("{name:?} is no metric; use one of {metrics}"))
        }
        CheckError::TooMany => bad(&format!("at most {MOST_CHECKS} keys at once; send the rest after")),
        CheckError::Store(error) => unavailable(&error.to_string()),
    }
}

fn bad(error: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response()
}

fn unavailable(error: &str) -> Response {
    let body = Json(json!({ "error": error }));
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], body).into_response()
}
