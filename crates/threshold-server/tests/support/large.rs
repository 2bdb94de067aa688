//! Bodies that are too large to be kept anywhere on their way.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hasher as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::application::Body;

const PIECE: usize = 64 * 1024;
const PIECES: usize = 320;

/// One of the pieces of a large body, each another.
fn part(number: usize) -> Bytes {
    (0..PIECE).map(|place| (place * 31 + number * 7) as u8).collect::<Vec<u8>>().into()
}

/// A body of so many pieces, and how many of them were taken.
struct Pieces {
    left: usize,
    taken: Arc<AtomicUsize>,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(part(number)))))
    }
}

/// A body of `pieces`, which counts those that were taken.
pub(crate) fn endless(pieces: usize, taken: Arc<AtomicUsize>) -> Body {
    Pieces { left: pieces, taken }.boxed()
}

/// 20 MB, made while they are sent.
pub(crate) fn large() -> Body {
    endless(PIECES, Arc::default())
}

/// What all of [`large`] comes to.
pub(crate) fn expected() -> (usize, u64) {
    let mut hasher = DefaultHasher::new();
    (0..PIECES).for_each(|number| hasher.write(&part(number)));
    (PIECES * PIECE, hasher.finish())
}

/// How many bytes came, and what they come to.
pub(crate) async fn checksum(mut body: Incoming) -> (usize, u64) {
    let (mut count, mut hasher) = (0, DefaultHasher::new());
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.unwrap().into_data() {
            count += data.len();
            hasher.write(&data);
        }
    }
    (count, hasher.finish())
}
