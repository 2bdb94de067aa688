//! A weather service: CORS → log → errors → limits of addresses and of all → authentication → limits of users → forecast.
//!
//! | module | holds |
//! | --- | --- |
//! | [`chain`] | what a request passes beside the limits |

pub mod chain;

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
use threshold::{Clock, MemoryStore, NodeSettings, NodeStore, SharedStore, Store, random_secret};
use threshold_http::ThresholdLayer;
use threshold_http::respond::Shown;

use chain::{authenticate, cors, log, refusal, set_aside, show_both, uniform_errors};

/// Where the program says what happens: one line of JSON each time.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Where counters live.
pub struct Counters<C> {
    /// Those of the limits in the policies; both policies share it.
    pub store: SharedStore,
    /// Those of limits at the edge; there are none here, but every engine has the place, and its clock.
    pub edge: MemoryStore<C>,
}

/// What stands between this service and its store: while that fails, each limit does what its policy says, and the log says
/// when it went and when it came back.
pub fn node<S: Store + 'static, C: Clock + 'static>(
    (store, clock): (S, C),
    memories: [MemoryStore<C>; 2],
    lines: Log,
) -> SharedStore {
    let node = NodeStore::with_clock(store, NodeSettings::default(), clock, memories);
    Arc::new(node.telling(move |transition| {
        let line = json!({
            "event": "component_changed",
            "component": transition.component.name(),
            "state": transition.state.name(),
            "reason": transition.reason,
        });
        lines(&line.to_string());
    }))
}

/// The whole service. `variables` are the values that the policies leave open.
///
/// # Errors
///
/// If a policy cannot be used, with every reason.
pub fn app<C>(
    counters: &Counters<C>,
    variables: &dyn Fn(&str) -> Option<String>,
    lines: Log,
) -> Result<Router, Box<dyn Error>>
where
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
fn limits<C>(
    counters: &Counters<C>,
    (name, text): (&str, &str),
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<ThresholdLayer<SharedStore, C>, Box<dyn Error>>
where
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
