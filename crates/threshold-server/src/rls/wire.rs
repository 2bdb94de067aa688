//! Protobuf: messages are read where they lie, field by field, and written as they are made.

/// A message that breaks off, or is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The fields of a message, in their order.
pub(super) struct Fields<'a>(&'a [u8]);

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    /// A text, or another message.
    Bytes(&'a [u8]),
    /// A number of fixed length, which nothing here has.
    Fixed,
}

impl<'a> Fields<'a> {
    pub(super) const fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// The next field with its number; none at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = u32::try_from(self.varint()?).map_err(|_| Malformed)?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                Value::Bytes(self.take(length)?)
            }
            1 => self.take(8).map(|_| Value::Fixed)?,
            5 => self.take(4).map(|_| Value::Fixed)?,
            // Groups, which nobody has written for long.
            _ => return Err(Malformed),
        };
        if tag >> 3 == 0 { Err(Malformed) } else { Ok(Some((tag >> 3, value))) }
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        // Most are one byte long.
        if let [first @ 0..=0x7f, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(u64::from(*first));
        }
        let mut value = 0;
        for (place, byte) in self.0.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if place == 9 && bits > 1 {
                return Err(Malformed);
            }
            value |= bits << (7 * place);
            if byte & 0x80 == 0 {
                self.0 = &self.0[place + 1..];
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }
}

impl<'a> Value<'a> {
    /// A text; what is none is malformed.
    #[inline]
    pub(super) fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    #[inline]
    pub(super) const fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Fixed => Err(Malformed),
        }
    }

    #[inline]
    pub(super) const fn number(self) -> Result<u64, Malformed> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed => Err(Malformed),
        }
    }

    /// A number of 32 bits: what is above them is cut off, as protobuf has it.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "cut off on purpose")]
    pub(super) fn number32(self) -> Result<u32, Malformed> {
        self.number().map(|number| number as u32)
    }
}

/// Adds a field that is a number, unless it is what its absence means.
#[inline]
pub(crate) fn number(out: &mut Vec<u8>, field: u8, value: u64) {
    if value > 0 {
        out.push(field << 3);
        varint(out, value);
    }
}

/// Adds a field that is a number of eight bytes.
pub(crate) fn fixed64(out: &mut Vec<u8>, field: u8, value: u64) {
    out.push(field << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Adds a field that is a text, unless it is empty.
#[inline]
pub(crate) fn text(out: &mut Vec<u8>, field: u8, text: &[u8]) {
    if !text.is_empty() {
        bytes(out, field, text);
    }
}

/// Adds a field that is a piece of bytes.
#[inline]
pub(crate) fn bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Adds a field that is a message of two texts, its first fields.
#[inline]
pub(super) fn pair(out: &mut Vec<u8>, field: u8, first: &[u8], second: &[u8]) {
    let length = 4 + first.len() + second.len();
    match (u8::try_from(first.len()), u8::try_from(second.len()), u8::try_from(length)) {
        // Most are short: all in one go.
        (Ok(one @ 1..), Ok(two @ 1..), Ok(both @ ..0x80)) => {
            out.reserve(length + 2);
            out.extend_from_slice(&[field << 3 | 2, both, 1 << 3 | 2, one]);
            out.extend_from_slice(first);
            out.extend_from_slice(&[2 << 3 | 2, two]);
            out.extend_from_slice(second);
        }
        _ => message(out, field, |out| {
            text(out, 1, first);
            text(out, 2, second);
        }),
    }
}

/// Adds a field that is another message, which `write` writes.
#[inline]
pub(crate) fn message(out: &mut Vec<u8>, field: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(field << 3 | 2);
    let at = out.len();
    // Most are short: a byte is kept free for the length, and more are made room for where they are needed.
    out.push(0);
    write(out);
    let length = out.len() - at - 1;
    match (u8::try_from(length), out.get_mut(at)) {
        (Ok(short @ 0..=0x7f), Some(place)) => *place = short,
        _ => lengthen(out, at, length),
    }
}

/// Puts a length of several bytes where one was kept free.
#[cold]
fn lengthen(out: &mut Vec<u8>, at: usize, length: usize) {
    let content = out.split_off(at + 1);
    out.truncate(at);
    varint(out, length as u64);
    out.extend_from_slice(&content);
}

#[inline]
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        // The low seven bits, and a sign that more follow.
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(message: &[u8]) -> Result<Vec<(u32, Value<'_>)>, Malformed> {
        let (mut fields, mut all) = (Fields::of(message), Vec::new());
        while let Some(field) = fields.next()? {
            all.push(field);
        }
        Ok(all)
    }

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        number(&mut out, 1, u64::MAX);
        number(&mut out, 2, 0);
        text(&mut out, 3, b"");
        let long = "x".repeat(300);
        message(&mut out, 4, |out| text(out, 1, long.as_bytes()));
        for texts in
            [("a", "b"), ("", "b"), ("a", ""), ("a", &long), (&long[..120], "b"), (&long[..124], "b")]
        {
            pair(&mut out, 5, texts.0.as_bytes(), texts.1.as_bytes());
            let at = all(&out).unwrap().pop().unwrap();
            let read = all(at.1.bytes().unwrap()).unwrap();
            let kept = [(1, texts.0), (2, texts.1)].into_iter().filter(|(_, text)| !text.is_empty());
            let kept: Vec<_> = kept.map(|(field, text)| (field, Value::Bytes(text.as_bytes()))).collect();
            assert_eq!((at.0, read), (5, kept));
        }
        let fields = all(&out).unwrap();
        assert_eq!(fields[0], (1, Value::Number(u64::MAX)));
        let inner = fields[1].1.bytes().unwrap();
        assert_eq!((fields.len(), fields[1].0), (8, 4));
        assert_eq!(all(inner).unwrap(), [(1, Value::Bytes(long.as_bytes()))]);
    }

    #[test]
    fn what_breaks_off_or_is_no_message_is_malformed() {
        for bad in [
            &[0x08][..],
            &[0x0a, 2, 0],
            &[0x08, 0x80],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[0x00, 0],
            &[0x0b],
            &[0x09, 0, 0, 0],
        ] {
            assert_eq!(all(bad), Err(Malformed), "{bad:?}");
        }
        assert_eq!(all(&[0x0d, 1, 2, 3, 4, 0x08, 5]).unwrap(), [(1, Value::Fixed), (1, Value::Number(5))]);
    }
}
