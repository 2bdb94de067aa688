//! Frames as bytes.

use bytes::{Bytes, BytesMut};
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame, FrameHeader};

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) last: bool,
    pub(super) mask: Option<[u8; 4]>,
    /// How many bytes the head has, and how many follow it.
    pub(super) size: usize,
    pub(super) length: u64,
}

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It begins a message.
    Begins,
    /// It goes on with one.
    GoesOn,
    /// It ends the connection.
    Close,
    /// It is none of the application's business.
    Control,
}

/// Something that is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// The head of the frame that `bytes` begin with; none if there is more to come of it.
pub(super) fn head(bytes: &[u8]) -> Result<Option<Head>, Broken> {
    let &[first, second, ref rest @ ..] = bytes else { return Ok(None) };
    let kind = match first & 0x0F {
        0x0 => Kind::GoesOn,
        0x1 | 0x2 => Kind::Begins,
        0x8 => Kind::Close,
        0x9 | 0xA => Kind::Control,
        _ => return Err(Broken),
    };
    let last = first & 0x80 != 0;
    let (long, short) = match second & 0x7F {
        126 => (2, None),
        127 => (8, None),
        short => (0, Some(u64::from(short))),
    };
    let control = matches!(kind, Kind::Close | Kind::Control);
    // No extension was agreed upon that could give these bits a meaning.
    if first & 0x70 != 0 || control && (!last || long > 0) {
        return Err(Broken);
    }
    let Some((long, rest)) = rest.split_at_checked(long) else { return Ok(None) };
    let length = short.unwrap_or_else(|| long.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    let masked = second & 0x80 != 0;
    let mask = match (masked, rest.first_chunk()) {
        (false, _) => None,
        (true, Some(mask)) => Some(*mask),
        (true, None) => return Ok(None),
    };
    let size = 2 + long.len() + if masked { 4 } else { 0 };
    Ok(Some(Head { kind, last, mask, size, length }))
}

/// Adds what `masked` hides behind `mask`.
pub(super) fn unmask(masked: &[u8], mask: [u8; 4], payload: &mut Vec<u8>) {
    let before = payload.len();
    payload.extend_from_slice(masked);
    // Four bytes at a time, which the compiler makes more of.
    let (words, rest) = payload[before..].as_chunks_mut::<4>();
    let wide = u32::from_ne_bytes(mask);
    words.iter_mut().for_each(|word| *word = (u32::from_ne_bytes(*word) ^ wide).to_ne_bytes());
    rest.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
}

/// A message of text, to a client.
pub(super) fn text(text: String) -> Bytes {
    bytes(Frame::message(text, OpCode::Data(Data::Text), true))
}

/// The end, to a client.
pub(super) fn close(code: u16, reason: &'static str) -> Bytes {
    bytes(Frame::close(Some(CloseFrame { code: CloseCode::from(code), reason: reason.into() })))
}

/// The end, to an application: clients have to mask what they send, and nobody needs this to be hidden.
pub(super) fn close_as_client(code: u16) -> Bytes {
    let header =
        FrameHeader { opcode: OpCode::Control(Control::Close), mask: Some([0; 4]), ..FrameHeader::default() };
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = header.format(2, &mut bytes);
    bytes.extend(code.to_be_bytes());
    bytes.into()
}

fn bytes(frame: Frame) -> Bytes {
    let mut bytes = Vec::with_capacity(frame.len());
    // Writing to memory does not fail.
    let _ = frame.format(&mut bytes);
    bytes.into()
}

/// The bytes of the first frame in `received`, if all of it is there.
pub(super) fn whole(received: &mut BytesMut, head: &Head) -> Option<BytesMut> {
    let length = usize::try_from(head.length).ok()?.checked_add(head.size)?;
    (received.len() >= length).then(|| received.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_when_they_are_there() {
        let frame = text("hello".to_owned());
        assert!(head(&frame[..1]).unwrap().is_none());
        let read = head(&frame).unwrap().unwrap();
        assert_eq!((read.kind, read.last, read.size, read.length), (Kind::Begins, true, 2, 5));
        let long = text("x".repeat(70_000));
        assert!(head(&long[..9]).unwrap().is_none());
        assert_eq!(head(&long).unwrap().unwrap().length, 70_000);
    }

    #[test]
    fn what_is_no_frame_is_broken() {
        for bytes in [[0xC1, 0x80], [0x83, 0x80], [0x8B, 0x80], [0x09, 0x80], [0x89, 0xFE]] {
            let bytes = [&bytes[..], &[0; 12]].concat();
            assert_eq!(head(&bytes).map(|_| ()), Err(Broken), "{bytes:x?}");
        }
    }

    #[test]
    fn heads_are_what_others_read_in_them() {
        let mut state = 1_u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bytes = [state.to_be_bytes(), (state ^ 0x5555).to_be_bytes()].concat();
            let bytes = &bytes[..(state >> 59) as usize % 16];
            let mut cursor = std::io::Cursor::new(bytes);
            let others = FrameHeader::parse(&mut cursor);
            match head(bytes) {
                Ok(Some(head)) => {
                    let (header, length) = others.unwrap().unwrap();
                    assert_eq!((head.last, head.mask, head.length), (header.is_final, header.mask, length));
                    assert_eq!(head.size as u64, cursor.position());
                }
                // They do not look at what is broken before all of it is there.
                Ok(None) => assert!(matches!(others, Ok(None)), "{bytes:x?}"),
                Err(Broken) => {}
            }
        }
    }

    #[test]
    fn masks_come_off_at_every_length() {
        let mask = [1, 2, 3, 4];
        for length in 0..40_u8 {
            let plain: Vec<u8> = (0..length).collect();
            let masked: Vec<u8> =
                plain.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
            let mut payload = Vec::new();
            unmask(&masked, mask, &mut payload);
            assert_eq!(payload, plain);
        }
    }

    #[test]
    fn the_end_is_said_to_applications_as_clients_say_it() {
        assert_eq!(&close_as_client(1001)[..], [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE9]);
        assert_eq!(&close(1013, "later")[..], [0x88, 7, 0x03, 0xF5, b'l', b'a', b't', b'e', b'r']);
    }
}
