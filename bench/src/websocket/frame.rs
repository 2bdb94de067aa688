//! As much of RFC 6455 as short messages need: frames of at most 125 bytes, each a whole message.

use crate::Outcome;

const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
const LENGTH: u8 = 0x7f;
/// Longer ones say their length elsewhere.
const MAX: usize = 125;
/// A mask that changes every byte, so that whoever reads a message has to do the work.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A text as a client sends it.
pub(super) fn from_client(message: &str) -> Vec<u8> {
    assert!(message.len() <= MAX, "a message of {} bytes, at most {MAX}", message.len());
    let mut frame = vec![FINAL | TEXT, MASKED | message.len() as u8];
    frame.extend(MASK);
    frame.extend(masked(message.as_bytes(), MASK));
    frame
}

/// A text as a server sends it.
pub(super) fn from_server(message: &str) -> Vec<u8> {
    let mut frame = vec![FINAL | TEXT, message.len() as u8];
    frame.extend(message.as_bytes());
    frame
}

fn masked(bytes: &[u8], mask: [u8; 4]) -> impl Iterator<Item = u8> {
    bytes.iter().zip(mask.into_iter().cycle()).map(|(byte, mask)| byte ^ mask)
}

/// What became of received bytes.
#[derive(Debug, PartialEq)]
pub(super) struct Echoed {
    /// So many were whole frames.
    pub(super) used: usize,
    /// The client wants to end.
    pub(super) closed: bool,
}

/// Appends to `out` what goes back for every whole frame of a client.
pub(super) fn echo(received: &[u8], out: &mut Vec<u8>) -> Outcome<Echoed> {
    let mut used = 0;
    while let [first, second, rest @ ..] = &received[used..] {
        let (opcode, length) = (first & 0x0f, usize::from(second & LENGTH));
        if first & FINAL == 0 || second & MASKED == 0 || length > MAX {
            return Err("a frame that the echo does not know: not final, not masked or too long".into());
        }
        let Some((mask, rest)) = rest.split_first_chunk() else { break };
        let Some(payload) = rest.get(..length) else { break };
        used += 2 + mask.len() + length;
        if opcode == CLOSE {
            return Ok(Echoed { used, closed: true });
        }
        let back = if opcode == PING { PONG } else { opcode };
        out.extend([FINAL | back, length as u8]);
        out.extend(masked(payload, *mask));
    }
    Ok(Echoed { used, closed: false })
}

#[cfg(test)]
mod tests {
    use super::super::MESSAGE;
    use super::*;

    #[test]
    fn what_a_client_sends_comes_back_as_a_server_sends_it() {
        let two = from_client(MESSAGE).repeat(2);
        for length in 0..=two.len() {
            let mut out = Vec::new();
            let found = echo(&two[..length], &mut out).unwrap();
            let whole = length / (two.len() / 2);
            assert_eq!(found, Echoed { used: whole * two.len() / 2, closed: false });
            assert_eq!(out, from_server(MESSAGE).repeat(whole));
        }
    }

    #[test]
    fn other_frames_are_answered_or_complained_about() {
        let mut out = Vec::new();
        assert!(echo(&[FINAL | CLOSE, MASKED, 1, 2, 3, 4], &mut out).unwrap().closed);
        assert!(out.is_empty());
        echo(&[FINAL | PING, MASKED | 1, 1, 2, 3, 4, 1], &mut out).unwrap();
        assert_eq!(out, [FINAL | PONG, 1, 0]);
        assert!(echo(&[FINAL | TEXT, 1, b'a'], &mut out).is_err());
        assert!(echo(&[FINAL | TEXT, MASKED | 126, 0, 200], &mut out).is_err());
    }
}
