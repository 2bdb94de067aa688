//! What the protocols ask of a server, case by case: what is sent, and what must come back.
//!
//! The cases are written down from the standards themselves: those of [`http2`] from RFC 9113 (and RFC 7541 for header
//! blocks), those of [`http1`] from RFC 9112 and RFC 9110. Each names its section. Where a standard leaves a choice, every
//! answer that it allows is let pass, but never one that hands on to the application what must not be handed on.

/// A table of cases: the section, what it is about, what is sent, and what must come back.
macro_rules! cases {
    ($($section:literal $about:literal: $sent:expr => $expected:expr;)*) => {
        vec![$(($section, $about, $sent, $expected)),*]
    };
}

mod http1;
mod http2;
