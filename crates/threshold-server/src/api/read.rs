//! JSON on its way in: bounded, and with a remedy for whatever is wrong with it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use threshold::policy::nearest;
use threshold_http::Answer;

/// The largest number: beyond it, many programs that speak JSON mistake one number for another.
const LARGEST: u64 = (1 << 53) - 1;
/// The largest body.
pub(super) const BODY_BYTES: usize = 1024 * 1024;
/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a caller may go on sending what nobody wants: closing at once would take its answer away before it is read.
const LINGER: Duration = Duration::from_secs(2);

/// The body of a question, read whole.
pub(crate) async fn body(request: Request<Incoming>) -> Result<Bytes, Box<Answer>> {
    let kind = json_only(request.headers());
    let mut body = request.into_body();
    let read = match kind {
        Ok(()) => all(&mut body).await,
        Err(answer) => Err(answer),
    };
    if read.is_err() {
        let _ = tokio::time::timeout(LINGER, discard(&mut body)).await;
    }
    read
}

async fn all(body: &mut Incoming) -> Result<Bytes, Box<Answer>> {
    if body.size_hint().lower() > BODY_BYTES as u64 {
        return Err(too_large());
    }
    // The first piece is the whole body as a rule, and is here already.
    let first = match next(body).await? {
        Some(first) if body.is_end_stream() => return bounded(first),
        first => first.unwrap_or_default(),
    };
    let mut all = BytesMut::from(first);
    let rest = async {
        while let Some(piece) = next(body).await? {
            all.extend_from_slice(&piece);
            if all.len() > BODY_BYTES {
                return Err(too_large());
            }
        }
        Ok(())
    };
    match tokio::time::timeout(BODY_TIMEOUT, rest).await {
        Ok(read) => read?,
        Err(_) => return Err(late()),
    }
    bounded(all.freeze())
}

/// Takes what nobody wants, and drops it.
async fn discard(body: &mut Incoming) {
    while let Some(Ok(_)) = body.frame().await {}
}

fn bounded(body: Bytes) -> Result<Bytes, Box<Answer>> {
    if body.len() > BODY_BYTES { Err(too_large()) } else { Ok(body) }
}

/// The next piece of a body.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Box<Answer>> {
    loop {
        let frame = match tokio::time::timeout(BODY_TIMEOUT, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return Ok(None),
            Ok(Some(Err(_))) => return Err(bad("bad_body", "the body broke off; send it again")),
            Err(_) => return Err(late()),
        };
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

/// Pages of strangers can make a browser send anything but this without asking first.
fn json_only(headers: &HeaderMap) -> Result<(), Box<Answer>> {
    if headers.get(header::CONTENT_TYPE).is_some_and(|kind| is_json(kind.as_bytes())) {
        return Ok(());
    }
    let detail = "the body must be JSON; send `Content-Type: application/json`";
    Err(Box::new(Answer::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)))
}

/// Whether a body of this kind is JSON.
pub(super) fn is_json(kind: &[u8]) -> bool {
    let essence = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(b"application/json")
}

/// Reads `body` as a question.
pub(crate) fn question<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Box<Answer>> {
    let read: Result<Object<T>, _> = serde_json::from_slice(body);
    read.map(|Object(question)| question).map_err(|error| bad("bad_request", &explained(&error.to_string())))
}

/// A field that is there. What there is none of is left out: `null` may be somebody's mistake, and would pass unseen.
pub(crate) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A number of at least `least`.
pub(super) fn whole(name: &str, least: u64, number: u64) -> Result<u64, Box<Answer>> {
    if (least..=LARGEST).contains(&number) {
        return Ok(number);
    }
    Err(bad("bad_request", &format!("`{name}` must be a whole number from {least} to {LARGEST}")))
}

/// What serde says, with a remedy where it names the fields that there are.
fn explained(error: &str) -> String {
    if error.starts_with("invalid type: null") {
        return format!("{error}; leave out what there is none of");
    }
    let Some((what, expected)) = error.split_once(", expected ") else {
        return format!("{error}; the document at …/openapi.json says what can be sent");
    };
    let wrong = what.strip_prefix("unknown field `").and_then(|rest| rest.strip_suffix('`'));
    let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    match wrong {
        Some(wrong) => {
            let place = expected.find(" at line").map_or("", |at| &expected[at..]);
            match nearest(wrong, &known) {
                Some(near) => format!("there is no field `{wrong}`{place}; did you mean `{near}`?"),
                None => format!("there is no field `{wrong}`{place}; there are {}", known.join(", ")),
            }
        }
        None => format!("{error}; the document at …/openapi.json says what can be sent"),
    }
}

/// Something that makes no sense.
pub(crate) fn bad(error: &str, detail: &str) -> Box<Answer> {
    Box::new(Answer::new(StatusCode::BAD_REQUEST, error, detail))
}

/// Something that reads well and cannot be done.
pub(crate) fn unprocessable(error: &str, detail: &str) -> Box<Answer> {
    Box::new(Answer::new(StatusCode::UNPROCESSABLE_ENTITY, error, detail))
}

fn too_large() -> Box<Answer> {
    Box::new(Answer::body_too_large(BODY_BYTES as u64))
}

fn late() -> Box<Answer> {
    let detail = "the body took too long; send it at once";
    Box::new(Answer::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", detail))
}

/// Something whose fields are named: without this, a list would do as well, by the order of the fields.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Named<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Named<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Named(PhantomData))
    }
}

/// Text, taken from where it stands if it can be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyText;
        impl<'de> Visitor<'de> for AnyText {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(AnyText)
    }
}

/// An address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address(pub(super) IpAddr);

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?;
        let address = text.as_str().parse();
        address.map(Self).map_err(|_| {
            de::Error::custom("`ip` is no address; write one such as \"192.0.2.7\" or \"2001:db8::7\"")
        })
    }
}

/// Header fields, by name: a text or several.
#[derive(Debug, Default)]
pub(super) struct Lines<'a>(pub(super) Vec<(Text<'a>, Bytes)>);

/// The most header fields.
const MOST_LINES: usize = 200;

impl<'de: 'a, 'a> Deserialize<'de> for Lines<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Lines<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("header fields by name, each a text or a list of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Lines<'de>, A::Error> {
                let mut lines = Vec::new();
                while let Some(name) = map.next_key::<Text<'de>>()? {
                    let Values(values) = map.next_value()?;
                    lines.extend(values.into_iter().map(|value| (name.clone(), value)));
                    if lines.len() > MOST_LINES {
                        return Err(de::Error::custom("there are more than 200 header fields; send fewer"));
                    }
                }
                Ok(Lines(lines))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// The values of one header field.
struct Values(Vec<Bytes>);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrSeveral;
        impl<'de> Visitor<'de> for OneOrSeveral {
            type Value = Values;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Values, E> {
                Ok(Values(vec![Bytes::copy_from_slice(text.as_bytes())]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Values, A::Error> {
                let mut values = Vec::new();
                while let Some(text) = list.next_element::<Text<'de>>()? {
                    values.push(Bytes::copy_from_slice(text.as_str().as_bytes()));
                    if values.len() > MOST_LINES {
                        return Err(de::Error::custom("there are more than 200 header fields; send fewer"));
                    }
                }
                Ok(Values(values))
            }
        }
        deserializer.deserialize_any(OneOrSeveral)
    }
}
