//! Which trace a request belongs to, as W3C's Trace Context writes it.

use http::header::HeaderValue;

/// Where in which trace a span is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) trace: u128,
    /// The span that this one is part of.
    pub(super) parent: Option<u64>,
    pub(super) span: u64,
    /// Whether it is traced.
    pub(super) sampled: bool,
}

impl Context {
    /// The span that `header` names; none if it is not as the standard has it.
    pub(super) fn read(header: &HeaderValue) -> Option<Self> {
        let text = header.to_str().ok()?;
        let mut parts = text.splitn(5, '-');
        let read @ [version, trace, span, flags] = [(); 4].map(|()| parts.next().unwrap_or_default());
        let lengths = read.map(str::len) == [2, 32, 16, 2];
        let mut digits = read.iter().flat_map(|part| part.bytes());
        // Later versions may say more behind it; the first does not.
        let known = version != "ff" && (version != "00" || parts.next().is_none());
        if !lengths || !known || !digits.all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let (trace, span) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
        let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        (trace != 0 && span != 0).then_some(Self { trace, parent: None, span, sampled })
    }

    /// Another span that is part of this one.
    pub(super) const fn child(self, span: u64) -> Self {
        Self { parent: Some(self.span), span, ..self }
    }

    /// The header that names this span.
    pub(super) fn header(self) -> HeaderValue {
        let text = format!("00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled));
        HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Option<Context> {
        Context::read(&HeaderValue::from_static(text))
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = read(text).unwrap();
        assert_eq!((context.span, context.sampled, context.parent), (0xb7ad_6b71_6920_3331, true, None));
        assert_eq!(context.header(), text);
        let child = context.child(7);
        assert_eq!(child.header(), "00-0af7651916cd43dd8448eb211c80319c-0000000000000007-01");
        assert_eq!((child.trace, child.parent), (context.trace, Some(context.span)));
        assert!(!read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00").unwrap().sampled);
        // A later version may say more.
        assert!(read("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what").is_some());
    }

    #[test]
    fn what_is_malformed_is_nothing() {
        for text in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b71692033311-01",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
