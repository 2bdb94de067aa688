//! Bodies: metered on their way in, and ending what a request holds on their way out.
//!
//! A declared length was charged before; an undeclared body is charged in pieces of 64 KiB ahead of what is handed on. What
//! was charged for bytes that never came is given back when the body is dropped, however it ended.

use std::fmt;
use std::future::Future;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use pin_project_lite::pin_project;
use threshold::engine::{Engine, Permits, UNDECLARED_BYTES};
use threshold::{Clock, Ledger, Store};

use crate::later;
use crate::place::Place;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a body was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It is longer than the bytes that are left.
    OutOfBytes,
    /// It is longer than any body may be.
    TooLarge,
    /// The store does not answer.
    Unavailable,
}

/// Where a body says why it was cut off.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutFlag(Arc<AtomicU8>);

impl CutFlag {
    fn set(&self, cut: Cut) {
        let code = match cut {
            Cut::OutOfBytes => 1,
            Cut::TooLarge => 2,
            Cut::Unavailable => 3,
        };
        self.0.store(code, Ordering::Release);
    }

    pub(crate) fn get(&self) -> Option<Cut> {
        match self.0.load(Ordering::Acquire) {
            1 => Some(Cut::OutOfBytes),
            2 => Some(Cut::TooLarge),
            3 => Some(Cut::Unavailable),
            _ => None,
        }
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

type Charging = Pin<Box<dyn Future<Output = (Box<dyn Charge>, Option<Cut>)> + Send>>;

/// Charges bytes to the limits of one request.
pub(crate) trait Charge: Send {
    fn charge(self: Box<Self>, more: NonZeroU64) -> Charging;
    /// The body ended after `seen` of the bytes that were charged last.
    fn end(self: Box<Self>, seen: u64);
}

/// A decision that charged bytes.
pub(crate) struct Bytewise<S, C, L> {
    pub(crate) engine: Arc<Engine<S, C, L>>,
    pub(crate) decision: Place,
}

impl<S: Store + 'static, C: Clock + 'static, L: Ledger + 'static> Charge for Bytewise<S, C, L> {
    fn charge(mut self: Box<Self>, more: NonZeroU64) -> Charging {
        Box::pin(async move {
            let cut = match self.engine.charge_bytes(&mut self.decision, more).await {
                Ok(true) => None,
                Ok(false) => Some(Cut::OutOfBytes),
                Err(_) => Some(Cut::Unavailable),
            };
            (self as Box<dyn Charge>, cut)
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

    /// The `declared` length is charged, or 64 KiB if there is none.
    pub(crate) fn charging(mut self, charger: Box<dyn Charge>, declared: Option<u64>) -> Self {
        let until = declared.unwrap_or(UNDECLARED_BYTES);
        self.charged = Some(Charged { charger: Some(charger), until, since: 0, waiting: None });
        self
    }

    fn cut(&self, cut: Cut) -> BodyError {
        self.cut.set(cut);
        BodyError::Cut(cut)
    }

    /// Lets `frame` pass, once its bytes are charged.
    fn pass(&mut self, frame: Frame<Bytes>, cx: &mut Context<'_>) -> Poll<Result<Frame<Bytes>, BodyError>> {
        let length = frame.data_ref().map_or(0, |data| data.len() as u64);
        self.seen = self.seen.saturating_add(length);
        if self.seen > self.most {
            return Poll::Ready(Err(self.cut(Cut::TooLarge)));
        }
        let Some(charged) = &mut self.charged else { return Poll::Ready(Ok(frame)) };
        let missing = NonZeroU64::new(self.seen.saturating_sub(charged.until));
        match (missing, charged.charger.take()) {
            (Some(missing), Some(charger)) => {
                let more = missing.max(NonZeroU64::new(UNDECLARED_BYTES).unwrap_or(missing));
                charged.since = charged.until;
                charged.until += more.get();
                charged.waiting = Some((charger.charge(more), frame));
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
        let waiting = self.charged.as_mut().and_then(|charged| charged.waiting.as_mut());
        let Some((charging, _)) = waiting else { return Poll::Pending };
        let (charger, cut) = ready!(charging.as_mut().poll(cx));
        let frame = self.charged.as_mut().and_then(|charged| {
            // Charges are kept if it is cut off: there is nobody to give back to.
            charged.charger = cut.is_none().then_some(charger);
            charged.waiting.take()
        });
        Poll::Ready(match (cut, frame) {
            (None, Some((_, frame))) => Ok(frame),
            (cut, _) => Err(self.cut(cut.unwrap_or(Cut::Unavailable))),
        })
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
pub enum BodyError {
    /// It was cut off here.
    #[doc(hidden)]
    Cut(#[allow(private_interfaces, reason = "told by the answer")] Cut),
    /// Its sender ended it, or the connection.
    Inner(BoxError),
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut(Cut::OutOfBytes) => f.write_str("the body is longer than the bytes that are left"),
            Self::Cut(Cut::TooLarge) => f.write_str("the body is longer than a body may be"),
            Self::Cut(Cut::Unavailable) => f.write_str("the body's bytes cannot be charged just now"),
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

/// Permits, given back when this is dropped.
pub(crate) struct Held(Option<Box<dyn FnOnce() + Send>>);

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
        Some(Self(Some(Box::new(release))))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release();
        }
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn application(body: B, held: Option<Held>) -> Self {
        Self { inner: Answering::Application { body }, held }
    }

    pub(crate) fn refusal(body: Full<Bytes>) -> Self {
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
