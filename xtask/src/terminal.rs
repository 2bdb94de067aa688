//! Everything xtask says goes through here, so that colour is decided in one place.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]
#![expect(clippy::disallowed_methods, reason = "NO_COLOR is how a person asks for plain text")]

use std::fmt::Display;
use std::io::{IsTerminal, stdout};

/// The ANSI codes in use.
#[derive(Clone, Copy)]
enum Colour {
    Bold = 1,
    Dim = 2,
    Red = 31,
    Green = 32,
}

/// Opens a step.
pub(crate) fn heading(text: &str) {
    println!("\n{}", paint(Colour::Bold, &format!("==> {text}")));
}

/// A command about to run, as one could type it.
pub(crate) fn command(line: &str) {
    println!("{}", paint(Colour::Dim, &format!("$ {line}")));
}

/// Closes a step that went well.
pub(crate) fn done(text: &str) {
    println!("{}", paint(Colour::Green, text));
}

/// A plain line.
pub(crate) fn say(line: impl Display) {
    println!("{line}");
}

/// The last words of a run that failed.
pub(crate) fn error(failure: &impl Display) {
    eprintln!("\n{} {failure}", paint(Colour::Red, "error:"));
}

fn paint(colour: Colour, text: &str) -> String {
    if stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        format!("\x1b[{}m{text}\x1b[0m", colour as u8)
    } else {
        text.to_owned()
    }
}
