//! The commonest requests on the shortest way: `GET` and `HEAD` by HTTP/1.1 as nearly all clients send them, read, handed
//! on and answered as bytes.
//!
//! The limits, the application and what is said to either are those of the long way; only the map of headers between them
//! is left out, and the machinery of a server for everything. Whatever is not plain goes the long way, by hyper, and so
//! does all that follows it on the same connection.

mod see;
mod write;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{BufMut as _, BytesMut};
use http::{HeaderValue, Method, Response};
use http_body_util::Either;
use threshold::identify::Facts;
use threshold_http::Answer;
use threshold_http::body::{Held, ResponseBody};
use threshold_http::respond::Notes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::body::{Ending, ProxyBody};
use super::ear::Word;
use super::headers::{X_REQUEST_ID, digits};
use super::proxy::{Client, answer_in_time, respond};
use super::settings::Settings;
use super::upstream::{Outgoing, Sent};
use crate::heads::write_line;
use crate::rewound::Rewound;
use see::Asked;

/// What is read at once, and the most that is kept of what a client sends before it was answered.
const READ: usize = 8 * 1024;
/// How much is written before it is sent, and the most room that is kept for that.
const OUT: usize = 64 * 1024;

/// Answers plain requests that come by `stream`; gives it back once something else comes, and nothing if it has ended.
pub(super) async fn converse<I>(stream: I, client: &Arc<Client>) -> Option<Rewound<I>>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let mut talking = pin!(talk(stream, client));
    let ear = &client.connection.ear;
    poll_fn(|cx| match talking.as_mut().poll(cx) {
        Poll::Ready(left) => Poll::Ready(left),
        // Who is told to leave leaves, whatever it is at.
        Poll::Pending => ear.poll_word(cx, Word::LastRequest).map(|_| None),
    })
    .await
}

async fn talk<I>(mut stream: I, client: &Arc<Client>) -> Option<Rewound<I>>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let connection = &client.connection;
    let (mut received, mut out) = (BytesMut::new(), Vec::new());
    loop {
        if received.is_empty() {
            receive(&mut stream, &mut received, client).await?;
        }
        // One request goes by one set of settings, whatever happens to them meanwhile.
        let settings = client.worker.settings.load_full();
        let Some(asked) = take(&mut received, client, &settings) else {
            return Some(Rewound { received, stream });
        };
        let mut flight = connection.begin();
        let asking =
            Asking { client, settings: &settings, asked: &asked, target: asked.target(), host: asked.host() };
        let said = as_long_as_asked(asking.answer(&mut out), (&mut stream, &mut received)).await?;
        let last = match said {
            Said::Whole { last, held: _held } => {
                write::send(&mut stream, &mut out).await.ok()?;
                flight.ended();
                last
            }
            Said::Other(response) => {
                let (to_head, last) = (asked.method == Method::HEAD, is_last(client));
                let response = response.map(|body| Ending::new(body, flight));
                write::any((&mut stream, &mut received), response, (to_head, last), &mut out).await.ok()?;
                last
            }
        };
        if last {
            let _ = stream.shutdown().await;
            return None;
        }
    }
}

/// Takes the next request, if it is plain.
fn take(received: &mut BytesMut, client: &Client, settings: &Settings) -> Option<Asked> {
    let peer = client.introduction.peer();
    let forged = |name: &str| {
        let known = settings.untrusted.iter().any(|other| name.eq_ignore_ascii_case(other.as_str()));
        known && !settings.trusts(peer)
    };
    Asked::take(received, settings.numbers.max_header_bytes as usize, forged)
}

/// Whether the connection ends with the answer that is due.
fn is_last(client: &Client) -> bool {
    client.connection.connections().is_draining() || client.connection.ear.word() > Word::GoOn
}

/// Waits for the begin of a request; none if there will be none.
async fn receive<I>(stream: &mut I, received: &mut BytesMut, client: &Client) -> Option<()>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    if received.capacity() < READ / 2 {
        received.reserve(READ);
    }
    let read = poll_fn(|cx| match pin!(stream.read_buf(received)).poll(cx) {
        Poll::Ready(read) => Poll::Ready(read),
        Poll::Pending => client.connection.ear.poll_word(cx, Word::GoOn).map(|_| Ok(0)),
    });
    let more = read.await.is_ok_and(|count| count > 0);
    if !more {
        let _ = stream.shutdown().await;
    }
    more.then_some(())
}

/// Whether the client is gone. What it sends meanwhile is kept, up to a point.
fn poll_gone<I>(stream: &mut I, received: &mut BytesMut, cx: &mut Context<'_>) -> Poll<()>
where
    I: AsyncRead + Unpin,
{
    while received.len() < READ {
        match pin!(stream.read_buf(received)).poll(cx) {
            Poll::Ready(Ok(1..)) => {}
            Poll::Ready(_) => return Poll::Ready(()),
            Poll::Pending => return Poll::Pending,
        }
    }
    Poll::Pending
}

/// What comes of `answering`, unless the client goes first.
async fn as_long_as_asked<I, T>(
    answering: impl Future<Output = T>,
    (stream, received): (&mut I, &mut BytesMut),
) -> Option<T>
where
    I: AsyncRead + Unpin,
{
    let mut answering = pin!(answering);
    poll_fn(|cx| match answering.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => poll_gone(stream, received, cx).map(|()| None),
    })
    .await
}

/// What is to be sent to a client.
enum Said {
    /// What was written; the request holds something until that is sent, and may be the last.
    Whole {
        held: Option<Held>,
        last: bool,
    },
    Other(Box<Response<ResponseBody<ProxyBody>>>),
}

/// A plain request on its way.
#[derive(Clone, Copy)]
struct Asking<'a> {
    client: &'a Client,
    settings: &'a Settings,
    asked: &'a Asked,
    target: &'a str,
    host: &'a str,
}

impl Asking<'_> {
    /// Decides, hands on, and answers: into `out`, if the answer is plain as well.
    async fn answer(self, out: &mut Vec<u8>) -> Said {
        let (notes, held) = match self.settings.layer.pass(&self.facts()).await {
            Ok(passed) => passed,
            Err(answer) => return Said::Other(refusal(*answer)),
        };
        let id = digits(self.client.worker.ids.next());
        let mut sent = match self.hand_on(&id).await {
            Ok(sent) => sent,
            Err(answer) => return self.other(answer.into_response().map(Either::Right), &id, (notes, held)),
        };
        let last = is_last(self.client);
        if let Sent::Alone(head) = &mut sent
            && write::whole(head, &notes, &id, last, out)
        {
            return Said::Whole { held, last };
        }
        let response = match self.client.worker.trouble.tell(Some(sent.answered())) {
            Ok(answered) => respond(self.settings, answered, None),
            Err(answer) => answer.into_response().map(Either::Right),
        };
        self.other(response, &id, (notes, held))
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            peer: self.client.introduction.peer(),
            method: self.asked.method.as_str(),
            host: Some(self.host),
            path: self.target,
            bytes: Some(0),
            headers: &self.asked.lines,
        }
    }

    /// What the application says to the request, in time.
    async fn hand_on(&self, id: &[u8]) -> Result<Sent, Box<Answer>> {
        let Settings { upstreams, numbers, .. } = self.settings;
        let path = self.target.split_once('?').map_or(self.target, |(path, _)| path);
        let targets = upstreams.choose(&self.asked.method, Some(self.host), path);
        let targets = targets.ok_or_else(|| Box::new(super::proxy::no_application()))?;
        let worker = &self.client.worker;
        let outgoing = Outgoing::written(self.asked.method.clone(), self.head(id));
        let sending = pin!(worker.pool.send(targets, outgoing, numbers.connect_timeout.into()));
        worker.trouble.tell(answer_in_time(sending, numbers.response_timeout.into(), None).await)
    }

    /// What the application is sent.
    fn head(&self, id: &[u8]) -> BytesMut {
        let mut head = BytesMut::with_capacity(1024);
        for piece in [self.asked.method.as_str(), " ", self.target, " HTTP/1.1\r\n"] {
            head.put_slice(piece.as_bytes());
        }
        for (name, value) in self.asked.lines.iter() {
            // It names nothing, or the request would not be plain.
            if !name.eq_ignore_ascii_case(b"connection") {
                write_line(name, value, &mut head);
            }
        }
        head.put_slice(&self.client.introduction.lines(self.host.as_bytes()));
        write_line(X_REQUEST_ID.as_str().as_bytes(), id, &mut head);
        head.put_slice(b"\r\n");
        head
    }

    /// An answer that is not plain, with what is said of it here.
    fn other(
        &self,
        mut response: Response<ProxyBody>,
        id: &[u8],
        (notes, held): (Notes, Option<Held>),
    ) -> Said {
        if let Ok(id) = HeaderValue::from_bytes(id) {
            response.headers_mut().insert(X_REQUEST_ID, id);
        }
        notes.add_to(response.headers_mut());
        Said::Other(Box::new(response.map(|body| ResponseBody::application(body, held))))
    }
}

fn refusal(answer: Answer) -> Box<Response<ResponseBody<ProxyBody>>> {
    Box::new(answer.into_response().map(ResponseBody::refusal))
}
