//! Ctrl-C: what was found out until then is told, and nothing is waited for.

use std::future::{Future as _, poll_fn};
use std::io::{self, Read};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// How much is read at once from what may keep us waiting, and how often somebody looks up meanwhile.
const PIECE: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_millis(100);

static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(listen);

/// True once somebody presses Ctrl-C. Where that cannot be heard, it ends the program as ever.
pub(crate) fn interruption() -> Arc<AtomicBool> {
    Arc::clone(&STOP)
}

fn listen() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&stop);
    let (ready, listens) = channel();
    let listen = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        let pressed = async {
            let mut pressed = pin!(tokio::signal::ctrl_c());
            // Once it was asked it listens.
            poll_fn(|context| {
                let asked = pressed.as_mut().poll(context);
                let _ = ready.send(());
                asked
            })
            .await
        };
        if runtime.block_on(pressed).is_ok() {
            heard.store(true, Ordering::Relaxed);
        }
    };
    if std::thread::Builder::new().name("interruption".to_owned()).spawn(listen).is_ok() {
        // It fails if nobody listens, which nobody has to be told.
        let _ = listens.recv();
    }
    stop
}

/// A file that ends when somebody interrupts.
pub(super) struct Stoppable<R> {
    pub(super) read: R,
    pub(super) stop: Arc<AtomicBool>,
}

impl<R: Read> Read for Stoppable<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) { Ok(0) } else { self.read.read(bytes) }
    }
}

/// A pipe, which may have nothing to say for hours: it is read by a thread of its own.
pub(super) struct Waiting {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    /// How much of the piece was given.
    given: usize,
    stop: Arc<AtomicBool>,
}

impl Waiting {
    pub(super) fn new(mut read: impl Read + Send + 'static) -> Self {
        let (send, pieces) = sync_channel(4);
        let run = move || {
            loop {
                let mut piece = vec![0; PIECE];
                let got = match read.read(&mut piece) {
                    Ok(0) => return,
                    Ok(length) => {
                        piece.truncate(length);
                        Ok(piece)
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let last = got.is_err();
                if send.send(got).is_err() || last {
                    return;
                }
            }
        };
        // Without the thread there is nobody to send, which reads as the end; the report says how much was read.
        let _ = std::thread::Builder::new().name("pipe".to_owned()).spawn(run);
        Self { pieces, piece: Vec::new(), given: 0, stop: interruption() }
    }
}

impl Read for Waiting {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.given == self.piece.len() {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(0);
            }
            match self.pieces.recv_timeout(PATIENCE) {
                Ok(piece) => (self.piece, self.given) = (piece?, 0),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        let length = bytes.len().min(self.piece.len() - self.given);
        bytes[..length].copy_from_slice(&self.piece[self.given..self.given + length]);
        self.given += length;
        Ok(length)
    }
}
