//! Attempts to log in, for services that look at passwords themselves.

use http::Request;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;
use threshold::identify::MAX_ID_BYTES;
use threshold::login::{Attempt, LoginAnswer};
use threshold_http::Answer;

use super::answer::Answered;
use super::read::{Address, Text, bad, body, given, question};
use super::write::document;
use super::{Shared, ask};

/// An attempt, and what came of it if that is known.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login<'a> {
    ip: Address,
    #[serde(borrow)]
    account: Text<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    device: Option<Text<'a>>,
    #[serde(default, deserialize_with = "given")]
    success: Option<bool>,
}

pub(super) async fn login(shared: &Shared, request: Request<Incoming>) -> Result<Answered, Box<Answer>> {
    let body = body(request).await?;
    let login: Login<'_> = question(&body)?;
    if login.account.as_str().is_empty() || login.account.as_str().len() > MAX_ID_BYTES {
        let detail = format!("`account` must have 1 to {MAX_ID_BYTES} bytes");
        return Err(bad("bad_request", &detail));
    }
    let attempt = Attempt {
        account: Some(login.account.as_str()),
        client: login.ip.0,
        device: login.device.as_ref().map(Text::as_str),
    };
    let answer = ask::attempt(&shared.engine, &attempt, login.success).await;
    Ok(told(answer.map_err(|_| Box::new(Answer::unavailable()))?))
}

fn told(answer: LoginAnswer) -> Answered {
    let LoginAnswer { allowed, retry_after, device } = answer;
    match retry_after.filter(|_| !allowed) {
        None => document(json!({ "allowed": true, "lockoutRemainingMs": 0, "device": device }).to_string()),
        Some(wait) => {
            let millis = u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
            let answer = Answer::login(wait).with("allowed", false).with("lockoutRemainingMs", millis);
            answer.with("device", serde_json::Value::Null).into_response()
        }
    }
}
