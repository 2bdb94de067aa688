//! A chat over WebSockets whose messages have limits.
//!
//! | module | holds |
//! | --- | --- |
//! | [`chat`] | a connection, and what its messages do |
//! | [`rooms`] | who hears whom |
//! | [`users`] | tokens, and whose they are |

pub mod chat;
pub mod rooms;
pub mod users;

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use axum::serve::ListenerExt as _;
use serde_json::json;
use threshold::engine::{Engine, Rules, Secrets};
use threshold::policy::Policy;
use threshold::{Clock, MemoryStore, Store, random_secret};
use threshold_http::Client;
use threshold_http::websocket::{Exceeded, MessageLimiter};
use tokio::net::TcpListener;

use chat::{Chat, Work};
use users::User;

/// Where the program says what happens: one line of JSON each time.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Where counters live.
pub struct Counters<S, C> {
    /// Those of the limits in the policy.
    pub store: S,
    /// Those of limits at the edge; there are none here, but every engine has the place, and its clock.
    pub edge: MemoryStore<C>,
}

/// How many times the largest message is read before a connection breaks off. What is larger than one message is refused
/// with an error that its sender can read, as long as somebody bears to receive it.
const READ_AT_MOST: usize = 4;

/// The whole service. `variables` are the values that the policy leaves open, `work` is what `Compute` does.
///
/// # Errors
///
/// If the policy cannot be used, with every reason.
pub fn app<S, C>(
    counters: Counters<S, C>,
    variables: &dyn Fn(&str) -> Option<String>,
    log: Log,
    work: Work,
) -> Result<Router, Box<dyn Error>>
where
    S: Store + 'static,
    C: Clock + 'static,
{
    let policy = Policy::read("policy.toml", include_str!("../policy.toml"), &variables)?;
    let secrets = Secrets::new(random_secret());
    let rules = Rules::new(&policy, &secrets, &variables)?;
    let engine = Engine::new(rules, secrets, counters.store, counters.edge);
    let limiter = MessageLimiter::new(Arc::new(engine))
        .reading(&policy.websocket.unwrap_or_default())
        .on_limit_exceeded(move |exceeded| {
            log(&line(&exceeded));
            std::future::ready(())
        });
    let chat = Arc::new(Chat::new(limiter, work));
    Ok(Router::new().route("/", get(page)).route("/chat", get(open::<S, C>)).with_state(chat))
}

/// Serves `app` until the listener breaks.
///
/// # Errors
///
/// The listener's own.
pub async fn serve(listener: TcpListener, app: Router) -> std::io::Result<()> {
    // An answer and what is said in the room go out one after the other: the second must not wait until the client's system
    // has confirmed the first.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
}

/// What is written about a message that was refused.
fn line(exceeded: &Exceeded) -> String {
    let refused = json!({
        "event": "limit_exceeded", "type": exceeded.kind, "clientId": exceeded.client_id,
        "messageType": exceeded.message_type, "limitId": exceeded.limit_id,
        "observed": exceeded.observed, "limit": exceeded.limit, "retryAfterMs": exceeded.retry_after_ms,
    });
    refused.to_string()
}

async fn page() -> Html<&'static str> {
    Html(include_str!("page.html"))
}

async fn open<S, C>(
    State(chat): State<Arc<Chat<S, C>>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Query(asked): Query<HashMap<String, String>>,
    upgrade: WebSocketUpgrade,
) -> Response
where
    S: Store + 'static,
    C: Clock + 'static,
{
    let Some(user) = asked.get("token").and_then(|token| User::of(token)) else {
        return (StatusCode::UNAUTHORIZED, "say who you are: /chat?token=demo-alice\n").into_response();
    };
    let client = Client::new(peer.ip()).with_user(user.name).with_tier(user.tier);
    let most = usize::try_from(chat.max_bytes()).unwrap_or(usize::MAX).saturating_mul(READ_AT_MOST);
    let upgrade = upgrade.max_message_size(most).max_frame_size(most);
    upgrade.on_upgrade(move |socket| async move { chat.serve(socket, user, client).await })
}
