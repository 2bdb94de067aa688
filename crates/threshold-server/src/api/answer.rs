//! Which question is asked, and by whom it may be.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use threshold_http::Answer;

use super::keys::admit;
use super::{Settings, Shared, check, consume, forward_auth, login, openapi};
use crate::keys::Caller;

/// What is answered.
pub(super) type Answered = Response<Full<Bytes>>;

/// A question, and who is at the other end of its connection.
pub(super) struct Asked {
    pub(super) request: Request<Incoming>,
    pub(super) peer: IpAddr,
}

/// What can be asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    Check,
    Consume,
    Peek,
    Refund,
    Login,
    ForwardAuth,
    OpenApi,
    Docs,
}

const POST: &[Method] = &[Method::POST];
const READ: &[Method] = &[Method::GET, Method::HEAD];
const FORWARD: &[Method] = &[Method::GET, Method::HEAD, Method::POST];

impl Question {
    /// By its path, and the methods that it takes.
    fn find(path: &str) -> Option<(Self, &'static [Method])> {
        Some(match path {
            "/v1/check" => (Self::Check, POST),
            "/v1/consume" => (Self::Consume, POST),
            "/v1/peek" => (Self::Peek, POST),
            "/v1/refund" => (Self::Refund, POST),
            "/v1/login" => (Self::Login, POST),
            "/v1/forward-auth" => (Self::ForwardAuth, FORWARD),
            "/openapi.json" => (Self::OpenApi, READ),
            "/docs" => (Self::Docs, READ),
            _ => return None,
        })
    }
}

/// Answers one question.
pub(super) async fn answer(shared: &Arc<Shared>, asked: Asked) -> Answered {
    let settings = shared.settings.load_full();
    match route(shared, &settings, asked).await {
        Ok(answered) => answered,
        Err(answer) if answer.status() == StatusCode::UNAUTHORIZED => unauthorized(*answer),
        Err(answer) => answer.into_response(),
    }
}

/// What is told to who shows no key.
pub(super) fn unauthorized(answer: Answer) -> Answered {
    let mut response = answer.into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

async fn route(shared: &Arc<Shared>, settings: &Settings, asked: Asked) -> Result<Answered, Box<Answer>> {
    let (question, methods) = Question::find(asked.request.uri().path()).ok_or_else(nothing_here)?;
    if !methods.contains(asked.request.method()) {
        return Ok(wrong_method(methods));
    }
    let public = matches!(question, Question::OpenApi | Question::Docs);
    let caller = match public {
        true => Caller::NOBODY,
        // The client's own credentials come along with a request that a proxy asks about.
        false => admit(&settings.keys, asked.request.headers(), question != Question::ForwardAuth)?,
    };
    match question {
        Question::Check => check::check(shared, settings, asked.request).await,
        Question::Consume => consume::consume(shared, caller, asked.request).await,
        Question::Peek => consume::peek(shared, asked.request).await,
        Question::Refund => consume::refund(shared, caller, asked.request).await,
        Question::Login => login::login(shared, asked.request).await,
        Question::ForwardAuth => forward_auth::forward_auth(shared, settings, asked).await,
        Question::OpenApi => Ok(openapi::document()),
        Question::Docs => Ok(openapi::page()),
    }
}

fn nothing_here() -> Box<Answer> {
    let detail = "there is nothing here; /openapi.json lists what can be asked";
    Box::new(Answer::new(StatusCode::NOT_FOUND, "not_found", detail))
}

fn wrong_method(methods: &[Method]) -> Answered {
    let allowed = methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
    let detail = format!("only {allowed} is answered here");
    let answer = Answer::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &detail);
    let mut response = answer.into_response();
    if let Ok(allowed) = HeaderValue::from_str(&allowed) {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}
