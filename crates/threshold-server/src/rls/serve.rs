//! One connection: HTTP/2, its calls and their bounds.
//!
//! All of it is one task. What arrived is read, its calls are answered one after the other, and what was answered is sent
//! together; only calls that wait for a store have a place of their own until they are done. Calls that arrived together and
//! ask the same are charged as one where all of them pass.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::num::NonZeroU64;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream as _;
use futures_util::stream::FuturesUnordered;
use h2::server::{Builder, Connection};
use h2::{Ping, PingPong};
use smallvec::SmallVec;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};

use super::Shared;
use super::call::{
    Call, Called, Code, MESSAGE, Status, answer, answer_later, answer_run, answer_run_later, converse,
    refuse, reply,
};
use super::limit::{Begun, Run};
use super::whole::Whole;
use crate::listening::Arrived;
use crate::workers::told;

/// Calls of one connection at the same time.
const STREAMS: u32 = 1_000;
/// Streams that a client takes back before they are looked at, and mistakes that make us take them back: beyond so many
/// the connection is closed.
const TAKEN_BACK: usize = 20;
const BROKEN: usize = 100;
const HEADER_BYTES: u32 = 16 * 1024;
/// How much may be sent ahead, for each call and for all: a message and its prefix always fit.
const STREAM_WINDOW: u32 = MESSAGE as u32 + 1_024;
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// What frames may take up that are not looked at yet, beside what is in them: one of each call, twice over.
const FRAMES: usize = STREAMS as usize * 512;
const SEND_BUFFER: usize = 64 * 1024;
/// Calls of one connection that go on after their first answer.
const TALKS: usize = 16;
/// How long the first frames may take.
const GREETING: Duration = Duration::from_secs(10);
/// How often a connection is looked at; a message takes no longer than two of these.
const LOOK: Duration = Duration::from_secs(10);
/// After so many looks without a call it is asked whether it is still there, after so many it is told to end, and after so
/// many it is ended, whatever is left on it.
const SILENT: u32 = 3;
const IDLE: u32 = 60;
const OVER: u32 = 66;

/// Serves who arrived.
pub(super) async fn serve(arrived: Arrived, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let Arrived { stream, place: _place, .. } = arrived;
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    let greeting = tokio::time::timeout(GREETING, builder().handshake(Whole(stream)));
    let Ok(Ok(mut connection)) = greeting.await else { return };
    let Some(pings) = connection.ping_pong() else { return };
    let mut talk = Talk::new(shared, connection, pings);
    let mut told = pin!(told(&mut stopped));
    let mut leaving = false;
    poll_fn(|cx| {
        if !leaving && told.as_mut().poll(cx).is_ready() {
            leaving = true;
            talk.connection.graceful_shutdown();
        }
        talk.poll(cx)
    })
    .await;
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER_BYTES)
        .max_pending_accept_reset_streams(TAKEN_BACK)
        .max_local_error_reset_streams(Some(BROKEN))
        .max_send_buffer_size(SEND_BUFFER)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .data_frame_budget(FRAMES);
    builder
}

/// A connection and the calls on it.
struct Talk {
    shared: Arc<Shared>,
    connection: Connection<Whole, Bytes>,
    /// Calls whose message is still to come, with the look at which they began.
    arriving: Vec<(Call, u32)>,
    /// Those whose message has just come: empty but for a moment.
    ready: Vec<Ready>,
    /// Calls that wait for their store.
    waiting: FuturesUnordered<Waiting>,
    /// Calls that go on after their first answer.
    talks: FuturesUnordered<Waiting>,
    looking: Interval,
    /// How often it was looked at, and the last time that there was a call.
    looks: u32,
    last: u32,
    pings: PingPong,
    /// True while an answer to a ping is due.
    pinged: bool,
}

/// A call and its message; none if it goes on after its first answer, and has several.
type Ready = (Call, Option<Result<Bytes, Status>>);

type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Talk {
    fn new(shared: Arc<Shared>, connection: Connection<Whole, Bytes>, pings: PingPong) -> Self {
        let mut looking = tokio::time::interval(LOOK);
        looking.set_missed_tick_behavior(MissedTickBehavior::Delay);
        looking.reset();
        let (waiting, talks) = (FuturesUnordered::new(), FuturesUnordered::new());
        let (looks, last, pinged) = (0, 0, false);
        let (arriving, ready) = (Vec::new(), Vec::new());
        Self { shared, connection, arriving, ready, waiting, talks, looking, looks, last, pings, pinged }
    }

    /// Sends what was answered, reads what arrived and answers it; ready when the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // This reads and writes as well.
        loop {
            match self.connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    let call = Call::begin(&self.shared, request, respond);
                    self.arriving.extend(call.map(|call| (call, self.looks)));
                }
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        let mut answered = self.poll_arriving(cx);
        for calls in [&mut self.waiting, &mut self.talks] {
            while let Poll::Ready(Some(())) = Pin::new(&mut *calls).poll_next(cx) {
                answered = true;
            }
        }
        if self.poll_look(cx).is_ready() {
            return Poll::Ready(());
        }
        if answered {
            // Others that have something to read go first, so that the answers of all leave close together: a client on
            // several connections is woken once for them.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Goes on with the calls whose message is still to come; true if one was answered.
    fn poll_arriving(&mut self, cx: &mut Context<'_>) -> bool {
        let came = Cell::new(None);
        let has_come = |(call, _): &mut (Call, u32)| {
            if matches!(call.called, Called::Watch | Called::Reflection) {
                return true;
            }
            let Poll::Ready(message) = call.messages.poll_only(cx) else { return false };
            came.set(Some(message));
            true
        };
        let mut ready = std::mem::take(&mut self.ready);
        ready.extend(self.arriving.extract_if(.., has_come).map(|(call, _)| (call, came.take())));
        let answered = ready.iter().any(|(_, message)| message.is_some());
        if answered {
            self.last = self.looks;
        }
        // In the order in which they came; the last is taken out most easily.
        ready.reverse();
        while let Some((call, message)) = ready.pop() {
            match message {
                None => self.begin_talk(call),
                Some(Ok(message)) if call.called == Called::ShouldRateLimit => {
                    let is_like = |(_, other): &Ready| matches!(other, Some(Ok(other)) if *other == message);
                    let others = ready.iter().rev().take_while(|other| is_like(other)).count();
                    let run = ready.drain(ready.len() - others..).rev().map(|(call, _)| call);
                    self.decide_run(std::iter::once(call).chain(run).collect(), message);
                }
                Some(message) => self.decide(call, message),
            }
        }
        self.ready = ready;
        answered
    }

    /// Begins a call that goes on after its first answer.
    fn begin_talk(&mut self, mut call: Call) {
        if self.talks.len() >= TALKS {
            let what = format!("there are {TALKS} such calls on this connection already; end one");
            return refuse(&mut call.respond, &Status::new(Code::ResourceExhausted, what));
        }
        self.talks.push(Box::pin(converse(Arc::clone(&self.shared), call)));
    }

    /// Answers calls whose message is the same, now or when their store has.
    fn decide_run(&mut self, run: SmallVec<[Call; 1]>, message: Bytes) {
        let times = NonZeroU64::new(run.len() as u64).filter(|times| times.get() > 1);
        let begun = match times {
            Some(times) => answer_run(&self.shared, &message, times),
            None => Ok(Run::Apart),
        };
        match begun {
            Ok(Run::Passed(answer)) => {
                run.into_iter().for_each(|mut call| reply(&mut call.respond, Ok(answer.clone())));
            }
            Ok(Run::Waits(place)) => {
                let responds = run.into_iter().map(|mut call| {
                    call.messages.release();
                    call.respond
                });
                let (shared, responds) = (Arc::clone(&self.shared), responds.collect());
                self.waiting.push(Box::pin(answer_run_later(shared, (message, place), responds)));
            }
            Ok(Run::Apart) => run.into_iter().for_each(|call| self.decide(call, Ok(message.clone()))),
            Err(status) => run.into_iter().for_each(|mut call| refuse(&mut call.respond, &status)),
        }
    }

    /// Answers a call whose message is there, now or when its store has.
    fn decide(&mut self, call: Call, message: Result<Bytes, Status>) {
        let Call { called, mut respond, mut messages } = call;
        match message.and_then(|message| answer(&self.shared, called, &message)) {
            Ok(Begun::Answered(answer)) => reply(&mut respond, Ok(answer)),
            Ok(Begun::Waits(place)) => {
                messages.release();
                let later = answer_later(Arc::clone(&self.shared), place, respond);
                self.waiting.push(Box::pin(later));
            }
            Err(status) => refuse(&mut respond, &status),
        }
    }

    /// Looks at the connection now and then; ready if it has to end.
    fn poll_look(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.pinged && self.pings.poll_pong(cx).is_ready() {
            self.pinged = false;
        }
        while self.looking.poll_tick(cx).is_ready() {
            self.looks += 1;
            let looks = self.looks;
            let late = |(_, since): &mut (Call, u32)| looks.saturating_sub(*since) > 2;
            for (mut call, _) in self.arriving.extract_if(.., late) {
                let status = Status::new(Code::DeadlineExceeded, "the message did not come in time");
                refuse(&mut call.respond, &status);
            }
            let silent = self.looks - self.last;
            if self.waiting.is_empty() && silent > IDLE {
                self.connection.graceful_shutdown();
            }
            if silent > OVER {
                return Poll::Ready(());
            }
            if silent.is_multiple_of(SILENT) && silent > 0 {
                if self.pinged {
                    return Poll::Ready(());
                }
                self.pinged = self.pings.send_ping(Ping::opaque()).is_ok();
            }
        }
        Poll::Pending
    }
}
