//! Bodies: metered on their way in, and ending what a request holds on their way out.
//!
//! A declared length was charged before; an undeclared body is charged in pieces of 64 KiB ahead of what is handed on. What
//! was charged for bytes that never came is given back when the body is dropped, however it ended.

use std::fmt;
use std::future::Future;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use pin_project_lite::pin_project;
use threshold::engine::{Engine, Permits, UNDECLARED_BYTES};
use threshold::{Clock, Ledger, Store, StoreError};

use crate::later;
use crate::place::Place;
use crate::respond::Answer;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Where a body that is cut off leaves what its sender is told.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutFlag(Arc<OnceLock<Answer>>);

impl CutFlag {
    fn set(&self, answer: Answer) {
        // The first reason stands.
        let _ = self.0.set(answer);
    }

    pub(crate) fn get(&self) -> Option<Answer> {
        self.0.get().cloned()
    }
}

pin_project! {
    /// The body of a request on its way to the application.
    pub struct RequestBody<B> {
        #[pin]
        inner: Inner<B>,
        meter: Option<Box<Meter>>,
    }
}

pin_project! {
    #[project = InnerProjection]
    enum Inner<B> {
        Flowing { #[pin] body: B },
        /// It was read before, as the body of a login is.
        Read { #[pin] body: Full<Bytes> },
    }
}

/// What a metered body is held to.
pub(crate) struct Meter {
    /// The most that may come.
    most: u64,
    seen: u64,
    charged: Option<Charged>,
    cut: CutFlag,
}

/// Bytes that were charged, and who charges more.
struct Charged {
    charger: Option<Box<dyn Charge>>,
    /// How many bytes may come before more have to be charged.
    until: u64,
    /// The first byte that the last charge was for.
    since: u64,
    /// A charge under way, and what is handed on after it.
    waiting: Option<(Charging, Frame<Bytes>)>,
}

type Charging = Pin<Box<dyn Future<Output = (Box<dyn Charge>, Result<u64, Box<Answer>>)> + Send>>;

/// Charges bytes to the limits of one request.
pub(crate) trait Charge: Send {
    /// Charges bytes of a body of which `seen` came; says how many.
    fn charge(self: Box<Self>, bytes: Missing, seen: u64) -> Charging;
    /// The body ended after `seen` of the bytes that were charged last.
    fn end(self: Box<Self>, seen: u64);
}

/// The bytes that have to be charged, and those that would be charged ahead.
#[derive(Clone, Copy)]
pub(crate) struct Missing {
    least: NonZeroU64,
    ahead: NonZeroU64,
}

/// A decision that charged bytes.
pub(crate) struct Bytewise<S, C, L> {
    pub(crate) engine: Arc<Engine<S, C, L>>,
    pub(crate) decision: Place,
}

impl<S: Store + 'static, C: Clock + 'static, L: Ledger + 'static> Charge for Bytewise<S, C, L> {
    fn charge(mut self: Box<Self>, bytes: Missing, seen: u64) -> Charging {
        Box::pin(async move {
            let charged =
                self.try_charge(bytes, seen).await.unwrap_or_else(|_| Err(Box::new(Answer::unavailable())));
            (self as Box<dyn Charge>, charged)
        })
    }

    fn end(self: Box<Self>, seen: u64) {
        later::run(async move {
            let Self { engine, mut decision } = *self;
            // What cannot be given back stays charged.
            let _ = engine.refund_bytes(&mut decision, seen).await;
        });
    }
}

impl<S: Store, C: Clock, L: Ledger> Bytewise<S, C, L> {
    /// Charges what is charged ahead, or what has to be.
    async fn try_charge(
        &mut self,
        Missing { least, ahead }: Missing,
        seen: u64,
    ) -> Result<Result<u64, Box<Answer>>, StoreError> {
        for bytes in [ahead, least] {
            if self.engine.charge_bytes(&mut self.decision, bytes).await? {
                return Ok(Ok(bytes.get()));
            }
        }
        let seen = NonZeroU64::new(seen).unwrap_or(least);
        let refusal = self.engine.refuse_bytes(&self.decision, seen).await?;
        let answer = refusal.map(|refusal| Answer::out_of_bytes(&refusal, self.decision.at()));
        // What is free again by now was not a moment ago.
        Ok(Err(Box::new(answer.unwrap_or_else(Answer::unavailable))))
    }
}

impl<B> RequestBody<B> {
    /// A body as it flows, or what was `read` of it before.
    pub(crate) fn new(flowing: B, read: Option<Bytes>) -> Self {
        let inner = match read {
            Some(bytes) => Inner::Read { body: Full::new(bytes) },
            None => Inner::Flowing { body: flowing },
        };
        Self { inner, meter: None }
    }

    /// No body.
    #[must_use]
    pub fn empty() -> Self {
        Self { inner: Inner::Read { body: Full::default() }, meter: None }
    }

    /// The same body, held to `meter`.
    pub(crate) fn metered(self, meter: Option<Box<Meter>>) -> Self {
        Self { meter, ..self }
    }
}

impl Meter {
    /// Nothing is charged; `most` may come.
    pub(crate) fn new(most: u64, cut: CutFlag) -> Self {
        Self { most, seen: 0, charged: None, cut }
    }

    /// The first `charged` bytes are charged.
    pub(crate) fn charging(mut self, charger: Box<dyn Charge>, charged: u64) -> Self {
        self.charged = Some(Charged { charger: Some(charger), until: charged, since: 0, waiting: None });
        self
    }

    fn cut(&self, answer: Answer) -> BodyError {
        let error = BodyError::Cut(answer.status());
        self.cut.set(answer);
        error
    }

    /// Lets `frame` pass, once its bytes are charged.
    fn pass(&mut self, frame: Frame<Bytes>, cx: &mut Context<'_>) -> Poll<Result<Frame<Bytes>, BodyError>> {
        let length = frame.data_ref().map_or(0, |data| data.len() as u64);
        self.seen = self.seen.saturating_add(length);
        if self.seen > self.most {
            return Poll::Ready(Err(self.cut(Answer::body_too_large(self.most))));
        }
        let Some(charged) = &mut self.charged else { return Poll::Ready(Ok(frame)) };
        let missing = NonZeroU64::new(self.seen.saturating_sub(charged.until));
        match (missing, charged.charger.take()) {
            (Some(missing), Some(charger)) => {
                let ahead = missing.max(NonZeroU64::new(UNDECLARED_BYTES).unwrap_or(missing));
                let bytes = Missing { least: missing, ahead };
                charged.waiting = Some((charger.charge(bytes, self.seen), frame));
                self.poll_charge(cx)
            }
            (_, charger) => {
                charged.charger = charger;
                Poll::Ready(Ok(frame))
            }
        }
    }

    /// Goes on with a charge under way.
    fn poll_charge(&mut self, cx: &mut Context<'_>) -> Poll<Result<Frame<Bytes>, BodyError>> {
        let Some(charged) = &mut self.charged else { return Poll::Pending };
        let Some((charging, _)) = &mut charged.waiting else { return Poll::Pending };
        let (charger, result) = ready!(charging.as_mut().poll(cx));
        let frame = charged.waiting.take();
        match (result, frame) {
            (Ok(more), Some((_, frame))) => {
                charged.charger = Some(charger);
                charged.since = charged.until;
                charged.until += more;
                Poll::Ready(Ok(frame))
            }
            // Charges are kept: there is nobody to give back to.
            (Err(answer), _) => Poll::Ready(Err(self.cut(*answer))),
            (Ok(_), None) => Poll::Pending,
        }
    }
}

/// Gives back what was charged for bytes that never came.
impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(charged) = &mut self.charged
            && let Some(charger) = charged.charger.take()
            && self.seen < charged.until
        {
            charger.end(self.seen.saturating_sub(charged.since));
        }
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.project();
        if let Some(meter) = this.meter.as_mut()
            && meter.charged.as_ref().is_some_and(|charged| charged.waiting.is_some())
        {
            return meter.poll_charge(cx).map(Some);
        }
        let frame = match this.inner.project() {
            InnerProjection::Flowing { body } => {
                ready!(body.poll_frame(cx)).map(|frame| frame.map_err(|error| BodyError::Inner(error.into())))
            }
            InnerProjection::Read { body } => {
                ready!(body.poll_frame(cx)).map(|frame| frame.map_err(|never| match never {}))
            }
        };
        match (frame, this.meter.as_mut()) {
            (Some(Ok(frame)), Some(meter)) => meter.pass(frame, cx).map(Some),
            (frame, _) => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Flowing { body } => body.is_end_stream(),
            Inner::Read { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Flowing { body } => body.size_hint(),
            Inner::Read { body } => body.size_hint(),
        }
    }
}

/// Why a body ended before its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum BodyError {
    /// It was cut off here, and its sender is answered with this status.
    Cut(StatusCode),
    /// Its sender ended it, or the connection.
    Inner(BoxError),
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut(status) => write!(f, "the body was cut off: {status}"),
            Self::Inner(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for BodyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Cut(_) => None,
            Self::Inner(error) => Some(&**error),
        }
    }
}

pin_project! {
    /// The body of an answer: the application's, or a refusal's.
    pub struct ResponseBody<B> {
        #[pin]
        inner: Answering<B>,
        // Dropped with the body, which is when the request has ended.
        held: Option<Held>,
    }
}

pin_project! {
    #[project = AnsweringProjection]
    enum Answering<B> {
        Application { #[pin] body: B },
        Refusal { #[pin] body: Full<Bytes> },
    }
}

/// The permits that a request holds, given back when the last of its clones is dropped.
///
/// It is dropped with the body of the answer. Whoever goes on after that, as an upgraded connection does, takes it from the
/// request's extensions and keeps it.
#[derive(Clone)]
pub struct Held(#[expect(dead_code, reason = "it is there to be dropped")] Arc<Release>);

struct Release(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Held {
    pub(crate) fn new<S, C, L>(engine: &Arc<Engine<S, C, L>>, permits: Permits) -> Option<Self>
    where
        S: Store + 'static,
        C: Clock + 'static,
        L: Ledger + 'static,
    {
        let engine = (!permits.is_empty()).then(|| Arc::clone(engine))?;
        let release = move || {
            later::run(async move {
                // They lapse by themselves if the store cannot be told.
                let _ = engine.release_permits(&permits).await;
            });
        };
        Some(Self(Arc::new(Release(Some(Box::new(release))))))
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release();
        }
    }
}

impl<B> ResponseBody<B> {
    /// The application's body, and what its request holds until it is sent.
    #[must_use]
    pub fn application(body: B, held: Option<Held>) -> Self {
        Self { inner: Answering::Application { body }, held }
    }

    /// A body that is not the application's.
    #[must_use]
    pub fn refusal(body: Full<Bytes>) -> Self {
        Self { inner: Answering::Refusal { body }, held: None }
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().inner.project() {
            AnsweringProjection::Application { body } => body.poll_frame(cx),
            AnsweringProjection::Refusal { body } => {
                body.poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(|never| match never {})))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Answering::Application { body } => body.is_end_stream(),
            Answering::Refusal { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Answering::Application { body } => body.size_hint(),
            Answering::Refusal { body } => body.size_hint(),
        }
    }
}

/// Nothing, for applications that answer without a body.
impl<B: Default> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::application(B::default(), None)
    }
}
