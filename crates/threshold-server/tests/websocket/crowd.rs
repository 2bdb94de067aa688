//! Many connections at the same time, judged by their own counts.

use std::collections::BTreeMap;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::tungstenite::Message;

use super::common::{IDENTITY, code, connect};
use crate::support::echo::{Echo, Socket};
use crate::support::server::Server;
use crate::support::wire::soon;

const USERS: usize = 20;
const CONNECTIONS: usize = 10;
/// Messages of each connection: their type, how many, and how many of them a user has in a day.
const MESSAGES: [(&str, usize, usize); 3] = [("Chat", 20, 50), ("Compute", 4, 4), ("Unheard", 10, 30)];

const LIMITS: &str = r#"
[[limit]]
id = "chat"
layer = "user"
messages = ["Chat"]
per = ["user", "type"]
rate = "50/day"

[[limit]]
id = "compute"
layer = "endpoint"
messages = ["Compute"]
per = ["user", "type"]
costs = { Compute = 5 }
rate = "20/day"

[[limit]]
id = "all"
layer = "user"
messages = "*"
per = ["user", "type"]
cost = 5
costs = { Chat = 1 }
rate = "150/day"
"#;

/// How many passed and how many were refused, by type.
type Counts = BTreeMap<String, (usize, usize)>;

#[tokio::test(flavor = "multi_thread")]
async fn each_user_and_type_has_exactly_its_limit_over_two_hundred_connections() {
    let echo = Echo::start().await;
    let upstream = format!("http://{}", echo.address);
    let limits = format!("{IDENTITY}{LIMITS}");
    let mut server = Server::with(&limits, &["--upstream", &upstream], &[("THRESHOLD_DEBUG", "true")]);
    let mut talking = Vec::new();
    for user in 0..USERS {
        for _ in 0..CONNECTIONS {
            let socket = connect(&server, &format!("user-{user}")).await;
            talking.push((user, tokio::spawn(talk(socket))));
        }
    }
    let mut users = vec![Counts::new(); USERS];
    for (user, talk) in talking {
        for (kind, (passed, refused)) in talk.await.unwrap() {
            let count = users[user].entry(kind).or_default();
            *count = (count.0 + passed, count.1 + refused);
        }
    }
    let mut all_refused = 0;
    for (user, counts) in users.iter().enumerate() {
        for (kind, each, allowed) in MESSAGES {
            let (passed, refused) = counts[kind];
            assert_eq!((passed, refused), (allowed, each * CONNECTIONS - allowed), "{kind} of user {user}");
            all_refused += refused;
        }
    }
    // One event for each refusal.
    server.tells("message_refused", all_refused);
    assert_eq!(echo.heard.lock().unwrap().len(), USERS * (50 + 4 + 30));
}

/// Sends everything at once, and counts what comes back.
async fn talk(socket: Socket) -> Counts {
    let (mut to, mut from) = socket.split();
    let sending = async {
        for (kind, many, _) in MESSAGES {
            for _ in 0..many {
                to.feed(Message::text(format!(r#"{{"type":"{kind}","id":"{kind}"}}"#))).await.unwrap();
            }
        }
        to.flush().await.unwrap();
    };
    let total: usize = MESSAGES.iter().map(|(_, many, _)| many).sum();
    let hearing = async {
        let mut counts = Counts::new();
        for _ in 0..total {
            let Message::Text(text) = soon(from.next()).await.unwrap().unwrap() else { panic!("no text") };
            let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
            let refused = !code(&answer).is_empty();
            let kind = if refused { &answer["meta"]["correlationId"] } else { &answer["type"] };
            let count = counts.entry(kind.as_str().unwrap().to_owned()).or_default();
            *count = (count.0 + usize::from(!refused), count.1 + usize::from(refused));
        }
        counts
    };
    tokio::join!(sending, hearing).1
}
