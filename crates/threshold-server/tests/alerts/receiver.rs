//! A webhook as somebody else would write it: it believes what is signed and nothing else.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use http_body_util::BodyExt as _;
use serde_json::Value as Json;

use crate::support::application::{Application, bare};
use crate::support::client::Client;
use crate::support::server::Server;

pub(super) const SECRET: &str = "a secret that both sides know";
/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Something that was posted.
#[derive(Clone, Debug)]
pub(super) struct Post {
    pub(super) path: String,
    pub(super) delivery: String,
    pub(super) signature: Option<String>,
    pub(super) text: String,
}

impl Post {
    pub(super) fn json(&self) -> Json {
        serde_json::from_str(&self.text).unwrap()
    }

    /// As the guide says it: the time and the body, signed with the secret.
    pub(super) fn is_signed(&self) -> bool {
        let Some(signature) = &self.signature else { return false };
        let (time, hex) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
        let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        let signed = format!("{time}.{}", self.text);
        hmac::verify(&key, signed.as_bytes(), &bytes.collect::<Vec<_>>()).is_ok()
    }
}

/// A webhook that answers with one status after the other, and with the last for ever.
pub(super) struct Receiver {
    pub(super) application: Application,
    posts: Arc<Mutex<Vec<Post>>>,
}

impl Receiver {
    pub(super) async fn start(statuses: &'static [u16]) -> Self {
        let posts: Arc<Mutex<Vec<Post>>> = Arc::default();
        let kept = Arc::clone(&posts);
        let application = Application::start(move |request| {
            let kept = Arc::clone(&kept);
            async move {
                let (head, body) = request.into_parts();
                let header = |name: &str| Some(head.headers.get(name)?.to_str().unwrap().to_owned());
                let body = body.collect().await.unwrap().to_bytes();
                let post = Post {
                    path: head.uri.path().to_owned(),
                    delivery: header("threshold-delivery").unwrap(),
                    signature: header("threshold-signature"),
                    text: String::from_utf8(body.to_vec()).unwrap(),
                };
                let mut posts = kept.lock().unwrap();
                posts.push(post);
                bare(statuses[(posts.len() - 1).min(statuses.len() - 1)])
            }
        });
        Self { application: application.await, posts }
    }

    pub(super) fn posts(&self) -> Vec<Post> {
        self.posts.lock().unwrap().clone()
    }

    /// The posts, once there are enough for `enough`.
    pub(super) async fn until(&self, enough: impl Fn(&[Post]) -> bool) -> Vec<Post> {
        let begun = Instant::now();
        loop {
            let posts = self.posts();
            if enough(&posts) {
                return posts;
            }
            assert!(begun.elapsed() < PATIENCE, "it never came: {posts:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// One request a day for each address, and a ban for whoever wants more; more than a few bans are an alarm.
pub(super) fn policy(alerts: &str) -> String {
    format!(
        "[[limit]]\nid = \"one\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"1/day\"\n\
         [ladder]\nrungs = [{{ strikes = 1, ban = \"1h\" }}]\n\
         [[alert]]\nid = \"bans\"\nmetric = \"bans\"\nper = \"4s\"\nwarning = 2\ncritical = 5\nclear_for = \"1s\"\n\
         [alerts]\nevery = \"1s\"\n{alerts}"
    )
}

/// A table of a webhook at `address`.
pub(super) fn webhook(address: &str, more: &str) -> String {
    format!("[[alerts.webhook]]\nurl = \"{address}\"\n{more}\n")
}

/// Has so many addresses banned, at the same time.
pub(super) async fn ban(server: &Server, addresses: u8) {
    let mut asking = tokio::task::JoinSet::new();
    for last in 1..=addresses {
        let client = Client::from(server.gateway, [127, 0, 1, last]);
        asking.spawn(async move {
            for _ in 0..3 {
                client.get("/").await;
            }
        });
    }
    asking.join_all().await;
}
