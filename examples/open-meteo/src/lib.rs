//! A weather service: CORS → log → errors → limits of addresses and of all → authentication → limits of users → forecast.
//!
//! | module | holds |
//! | --- | --- |
//! | [`chain`] | what a request passes beside the limits |
//! | [`fail_open`] | a store that lets requests pass while it fails |

pub mod chain;
pub mod fail_open;

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;

use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Html;
use axum::routing::get;
use axum::{Json, Router};
use http::Extensions;
use serde_json::{Value, json};
use threshold::engine::{Engine, Rules, Secrets};
use threshold::policy::Policy;
use threshold::{Clock, MemoryStore, Store, random_secret};
use threshold_http::ThresholdLayer;
use threshold_http::respond::Shown;

use chain::{authenticate, cors, log, refusal, set_aside, show_both, uniform_errors};

/// Where the program says what happens: one line of JSON each time.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Where counters live.
pub struct Counters<S, C> {
    /// Those of the limits in the policies; both policies share it.
    pub store: S,
    /// Those of limits at the edge; there are none here, but every engine has the place, and its clock.
    pub edge: MemoryStore<C>,
}

/// The whole service. `variables` are the values that the policies leave open.
///
/// # Errors
///
/// If a policy cannot be used, with every reason.
pub fn app<S, C>(
    counters: &Counters<S, C>,
    variables: &dyn Fn(&str) -> Option<String>,
    lines: Log,
) -> Result<Router, Box<dyn Error>>
where
    S: Store + Clone + 'static,
    C: Clock + Clone + 'static,
{
    let everybody = limits(counters, ("policy.toml", include_str!("../policy.toml")), variables)?;
    let users =
        limits(counters, ("users.toml", include_str!("../users.toml")), variables)?.peer_by(this_process);
    // What is added last comes first. Around routes only: what is not there needs no token.
    let behind_authentication = Router::new()
        .route("/v1/forecast", get(forecast))
        .route_layer(users)
        .route_layer(from_fn(authenticate));
    let app = Router::new()
        .route("/", get(page))
        .merge(behind_authentication)
        .layer(from_fn(set_aside))
        .layer(everybody)
        .layer(from_fn(show_both))
        .layer(from_fn(uniform_errors))
        .layer(from_fn_with_state(lines, log))
        .layer(from_fn(cors));
    Ok(app)
}

/// The layer of one policy, which refuses in this service's own format.
fn limits<S, C>(
    counters: &Counters<S, C>,
    (name, text): (&str, &str),
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<ThresholdLayer<S, C>, Box<dyn Error>>
where
    S: Store + Clone + 'static,
    C: Clock + Clone + 'static,
{
    let policy = Policy::read(name, text, &variables)?;
    let secrets = Secrets::new(random_secret());
    let rules = Rules::new(&policy, &secrets, &variables)?;
    let engine = Engine::new(rules, secrets, counters.store.clone(), counters.edge.clone());
    Ok(ThresholdLayer::new(Arc::new(engine)).showing(Shown { legacy: false }).respond_by(refusal))
}

/// Behind authentication it is this process that speaks for the user.
fn this_process(_: &Extensions) -> Option<IpAddr> {
    Some(IpAddr::from([127, 0, 0, 1]))
}

async fn page() -> Html<&'static str> {
    Html(include_str!("page.html"))
}

/// Always the same five days: the weather is not what this example is about.
async fn forecast() -> Json<Value> {
    Json(json!({
        "place": "Berlin",
        "latitude": 52.52,
        "longitude": 13.41,
        "daily": {
            "day": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"],
            "temperature_max_celsius": [21.4, 23.0, 19.8, 17.2, 18.9],
            "temperature_min_celsius": [12.1, 13.5, 13.0, 10.4, 9.7],
            "rain_mm": [0.0, 0.2, 6.4, 2.1, 0.0],
        },
    }))
}
