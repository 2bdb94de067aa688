//! As much of HTTP/1.1 as it takes to see where an answer ends.

use crate::Outcome;

/// Whether a whole answer was received. Anything but a plain success is an error: refusals are not what is measured.
pub(super) fn is_complete(received: &[u8]) -> Outcome<bool> {
    let Some(head) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        return Ok(false);
    };
    let text = std::str::from_utf8(&received[..head])?;
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 200") {
        return Err(format!("answered {status:?}").into());
    }
    let length = lines.find_map(content_length).ok_or("an answer without a length")?;
    match received.len() - head - 4 {
        have if have > length => Err("an answer longer than it says".into()),
        have => Ok(have == length),
    }
}

fn content_length(line: &str) -> Option<usize> {
    let (name, value) = line.split_once(':')?;
    if name.eq_ignore_ascii_case("content-length") { value.trim().parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_with_its_body() {
        let answer = b"HTTP/1.1 200 OK\r\nserver: x\r\nContent-Length: 2\r\n\r\nok";
        for length in 0..answer.len() {
            assert!(!is_complete(&answer[..length]).unwrap(), "{length}");
        }
        assert!(is_complete(answer).unwrap());
    }

    #[test]
    fn what_is_not_a_plain_success_is_an_error() {
        assert!(is_complete(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n").is_err());
        assert!(is_complete(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(is_complete(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxyz").is_err());
    }
}
