//! One connection of a client of Redis.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use threshold::engine::Engine;
use threshold::{Clock, Ledger, Store};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::Shared;
use super::round::{Next, Round, finish};
use super::session::Session;
use crate::listening::Arrived;
use crate::workers::told;

/// How much is read at once at first, and at most.
const READ: usize = 8 * 1024;
const READ_MOST: usize = 64 * 1024;
/// How long a connection is kept without a command; it may be twice that. Clients keep theirs in pools.
const KEPT: Duration = Duration::from_secs(300);
/// How long the rest of a command may take, and how long a client may take to read.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a client may go on sending what nobody reads: closing at once would take its answer away.
const LINGER: Duration = Duration::from_secs(1);

/// Serves who arrived.
pub(super) async fn serve(arrived: Arrived, shared: Arc<Shared>, stopped: watch::Receiver<bool>) {
    let Arrived { stream, peer, place: _place } = arrived;
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    let session = Session::new(shared.ids.fetch_add(1, Ordering::Relaxed) + 1, peer);
    converse(&*shared.engine, &shared, (stream, session), stopped).await;
}

/// Answers the commands that come on a connection until it ends.
fn converse<'a, S: Store, C: Clock, L: Ledger>(
    engine: &'a Engine<S, C, L>,
    shared: &'a Shared,
    connection: (TcpStream, Session),
    stopped: watch::Receiver<bool>,
) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
    // Made into what may be sent here, where the compiler sees that it may: for any store, not for a given one.
    Box::pin(talk(engine, shared, connection, stopped))
}

async fn talk<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
    shared: &Shared,
    (mut stream, mut session): (TcpStream, Session),
    mut stopped: watch::Receiver<bool>,
) {
    let (mut received, mut out) = (Vec::with_capacity(READ), Vec::new());
    let mut told = pin!(told(&mut stopped));
    let mut patience = pin!(tokio::time::sleep(KEPT));
    // Whether something came since the last time, whether a command has begun to come, and how many bytes it needs at least.
    let (mut busy, mut begun, mut needed) = (false, false, 1);
    loop {
        make_room(&mut received);
        let mut last = false;
        tokio::select! {
            biased;
            () = told.as_mut() => {
                // What has reached us already is still answered.
                last = true;
                let _ = stream.try_read_buf(&mut received);
            }
            read = stream.read_buf(&mut received) => match read {
                Ok(0) | Err(_) => return,
                Ok(_) => busy = true,
            },
            () = patience.as_mut() => {
                if begun || !std::mem::take(&mut busy) {
                    return;
                }
                patience.set(tokio::time::sleep(KEPT));
            }
        }
        let before = received.len();
        if before >= needed {
            match answer(engine, shared, (&mut stream, &mut session), &mut received, &mut out).await {
                Next::End => return hang_up(stream).await,
                Next::Read(least) => needed = least,
                Next::GoOn => {}
            }
        }
        if last {
            return hang_up(stream).await;
        }
        // Commands that come one behind the other may end anywhere; one alone has to come to its end.
        let waits = received.len() == before && before > 0;
        if waits != begun {
            begun = waits;
            patience.set(tokio::time::sleep(if begun { PATIENCE } else { KEPT }));
        }
    }
}

/// Answers what has come; [`Next::End`] if nothing more will be.
async fn answer<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
    shared: &Shared,
    (stream, session): (&mut TcpStream, &mut Session),
    received: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Next {
    loop {
        let (used, next, waiting) = {
            let settings = shared.settings.load();
            Round::new(engine, (shared, &settings), (session, out)).begin(received)
        };
        if !waiting.is_empty() {
            finish(waiting, out).await;
        }
        // What is left is a part of one command, as a rule.
        received.drain(..used);
        if !out.is_empty() {
            if send(stream, out).await.is_none() {
                return Next::End;
            }
            out.clear();
            // What one large pipeline took is not kept.
            out.shrink_to(READ_MOST);
        }
        if next != Next::GoOn {
            return next;
        }
    }
}

/// Sends `out`; none if the client is gone, or takes nothing of it for too long.
async fn send(stream: &mut TcpStream, mut out: &[u8]) -> Option<()> {
    while !out.is_empty() {
        let sent = tokio::time::timeout(PATIENCE, stream.write(out)).await.ok()?.ok()?;
        out = out.get(sent..).filter(|_| sent > 0)?;
    }
    Some(())
}

/// Makes room for what comes: as much again for who has filled it, and no more than needed for who is idle.
fn make_room(received: &mut Vec<u8>) {
    if received.is_empty() && received.capacity() > READ_MOST {
        *received = Vec::new();
    }
    if received.capacity() - received.len() < READ / 8 {
        received.reserve_exact(received.len().clamp(READ, READ_MOST));
    }
}

/// Ends a connection so that its last answer is read.
async fn hang_up(mut stream: TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut rest = [0; 1_024];
    let discard = async { while matches!(stream.read(&mut rest).await, Ok(some) if some > 0) {} };
    let _ = tokio::time::timeout(LINGER, discard).await;
}
