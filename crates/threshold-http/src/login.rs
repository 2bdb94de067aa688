//! Logins that pass by: read before, recorded after, and the cookie of a known device.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use threshold::login::{Attempt, Begun, LoginForm, Named};
use threshold::{Clock, Ledger, Store};

use crate::facts::{Fields, facts};
use crate::layer::Shared;
use crate::respond::Answer;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The cookie by which a device is known.
const DEVICE: &str = "threshold_device";
/// How long browsers keep it.
const MAX_AGE: u32 = 365 * 24 * 60 * 60;

/// An attempt that goes on to the application.
pub(crate) struct Attempted {
    begun: Begun,
    form: LoginForm,
    /// True if the client speaks TLS, as far as we can tell.
    secure: bool,
}

/// What makes a request a login, and where it comes from.
pub(crate) struct Login {
    form: LoginForm,
    client: IpAddr,
    secure: bool,
    /// The token that the client's device shows.
    device: Option<String>,
}

impl<S: Store + 'static, C: Clock + 'static, L: Ledger + 'static> Shared<S, C, L> {
    /// What makes the request a login, if it is one.
    pub(crate) fn login<B>(
        &self,
        request: &Request<B>,
        peer: IpAddr,
        device: Option<String>,
    ) -> Option<Login> {
        if [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method()) {
            return None;
        }
        let rules = self.engine.rules();
        if !rules.has_login_form() {
            return None;
        }
        let fields = Fields(request.headers());
        let facts = facts(request, &fields, peer);
        let form = rules.login_form(&facts)?.clone();
        let https = || request.headers().get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
        let secure = self.settings.secure_cookies || (rules.trusts(facts.peer) && https());
        Some(Login { form, client: rules.client(&facts), secure, device })
    }

    /// Begins an attempt; gives the body, which was read for it.
    pub(crate) async fn log_in<B>(
        &self,
        login: Login,
        request: &mut Request<B>,
    ) -> Result<(Bytes, Attempted), Box<Answer>>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let Login { form, client, secure, device } = login;
        let bytes = self.read(request.body_mut()).await?;
        let account = match form.read(&bytes) {
            Named::Account(account) => Some(account),
            Named::Unclear(what) => return Err(Box::new(unclear(what))),
            _ => None,
        };
        let attempt = Attempt { account: account.as_deref(), client, device: device.as_deref() };
        let begun = self.engine.begin_attempt(&attempt).await.map_err(|_| Box::new(Answer::unavailable()))?;
        match begun {
            Ok(begun) => Ok((bytes, Attempted { begun, form, secure })),
            Err(refused) => Err(Box::new(Answer::login(refused.retry_after.unwrap_or_default()))),
        }
    }

    async fn read<B>(&self, body: B) -> Result<Bytes, Box<Answer>>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let most = self.settings.most_login_bytes;
        match Limited::new(body, most).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                let detail = format!("a login takes at most {most} bytes; send less");
                Err(Box::new(Answer::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", &detail)))
            }
            Err(_) => Err(Box::new(Answer::new(StatusCode::BAD_REQUEST, "bad_body", "the body broke off"))),
        }
    }
}

fn unclear(what: &str) -> Answer {
    Answer::new(StatusCode::BAD_REQUEST, "bad_login", what)
}

impl Attempted {
    /// Records what the application answered; gives an answer to be sent in the place of its own.
    pub(crate) async fn end<S, C, L, R>(
        self,
        shared: &Shared<S, C, L>,
        response: &mut Response<R>,
    ) -> Option<Answer>
    where
        S: Store + 'static,
        C: Clock + 'static,
        L: Ledger + 'static,
    {
        let Some(success) = self.form.succeeded(response.status().as_u16()) else {
            // What cannot be given back stays charged.
            let _ = shared.engine.abandon_attempt(self.begun).await;
            return None;
        };
        match shared.engine.end_attempt(self.begun, success).await {
            Ok(answer) if success && !answer.allowed => {
                Some(Answer::login(answer.retry_after.unwrap_or_default()))
            }
            Ok(answer) => {
                if let Some(token) = answer.device {
                    give_device(&token, self.secure, response.headers_mut());
                }
                None
            }
            // Who succeeded must not go on unrecorded; who failed has nothing to go on to.
            Err(_) if success => Some(Answer::unavailable()),
            Err(_) => None,
        }
    }
}

/// Takes the device's token out of the cookies: it is ours, and the application need not see it.
pub(crate) fn take_device(headers: &mut HeaderMap) -> Option<String> {
    if !headers.contains_key(header::COOKIE) {
        return None;
    }
    let mut token = None;
    let mut lines = Vec::new();
    for line in headers.get_all(header::COOKIE) {
        let Ok(text) = line.to_str() else {
            lines.push(line.clone());
            continue;
        };
        let is_ours = |pair: &&str| pair.trim().split_once('=').is_some_and(|(name, _)| name == DEVICE);
        let (ours, others): (Vec<&str>, Vec<&str>) = text.split(';').partition(is_ours);
        token = ours
            .first()
            .and_then(|pair| pair.trim().split_once('='))
            .map(|(_, token)| token.to_owned())
            .or(token);
        if ours.is_empty() {
            lines.push(line.clone());
        } else if let Ok(rest) = HeaderValue::from_str(others.join(";").trim())
            && !rest.is_empty()
        {
            lines.push(rest);
        }
    }
    if token.is_some() {
        headers.remove(header::COOKIE);
        for line in lines {
            headers.append(header::COOKIE, line);
        }
    }
    token
}

fn give_device(token: &str, secure: bool, headers: &mut HeaderMap) {
    let secure = if secure { "; Secure" } else { "" };
    let cookie = format!("{DEVICE}={token}; Path=/; Max-Age={MAX_AGE}; HttpOnly; SameSite=Lax{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        headers.append(header::SET_COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_devices_cookie_is_taken_out_and_the_others_stay() {
        let mut headers = HeaderMap::new();
        let lines = ["a=1; threshold_device=t; b=2", "c=3", "threshold_device=u"];
        for line in lines {
            headers.append(header::COOKIE, HeaderValue::from_static(line));
        }
        assert_eq!(take_device(&mut headers).as_deref(), Some("u"));
        let left: Vec<&str> =
            headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok()).collect();
        assert_eq!(left, ["a=1; b=2", "c=3"]);
        assert_eq!(take_device(&mut headers), None);
    }
}
