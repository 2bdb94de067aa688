//! The date of an answer, written once a second.

use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

use threshold::{Clock as _, SystemClock};

struct Written {
    clock: SystemClock,
    second: u64,
    text: String,
}

thread_local! {
    static WRITTEN: RefCell<Written> =
        RefCell::new(Written { clock: SystemClock::new(), second: 0, text: String::new() });
}

/// Adds the date as HTTP has it.
pub(super) fn write(out: &mut Vec<u8>) {
    // A thread that ends answers nobody.
    let _ = WRITTEN.try_with(|written| {
        let mut written = written.borrow_mut();
        let second = written.clock.now().as_micros() / 1_000_000;
        if second != written.second || written.text.is_empty() {
            written.text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
            written.second = second;
        }
        out.extend_from_slice(written.text.as_bytes());
    });
}
