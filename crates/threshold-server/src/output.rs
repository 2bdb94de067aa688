//! Where text goes, and whether it is coloured: only on a terminal, and only if `NO_COLOR` is not set.

mod table;
mod text;

use std::io::{self, IsTerminal, Write};

use crate::config;

pub(crate) use table::table;
pub(crate) use text::{harmless, harmless_json, is_harmful, left};

/// The standard output and the standard error.
pub(crate) struct Output {
    coloured: bool,
    coloured_errors: bool,
    /// Why something could not be written to the standard output.
    unwritten: Option<io::Error>,
}

/// How a piece of text is set off.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Style {
    Heading,
    Good,
    Warning,
    Error,
    Quiet,
}

impl Output {
    pub(crate) fn standard() -> Self {
        // Set to anything but nothing, as https://no-color.org says.
        let wanted = config::variable("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            coloured: wanted && io::stdout().is_terminal(),
            coloured_errors: wanted && io::stderr().is_terminal(),
            unwritten: None,
        }
    }

    /// Whether colours are wanted on the standard output.
    pub(crate) const fn is_coloured(&self) -> bool {
        self.coloured
    }

    /// Prints a line. What keeps it from being written is kept for [`unwritten`](Self::unwritten).
    pub(crate) fn line(&mut self, text: &str) {
        let mut stdout = io::stdout().lock();
        if let Err(error) = writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
            self.unwritten.get_or_insert(error);
        }
    }

    /// Why a line is not where it was to go, if one is not. Nobody who listens no more has to be told.
    pub(crate) fn unwritten(&self) -> Option<&io::Error> {
        self.unwritten.as_ref().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
    }

    /// Prints a line to the standard error.
    pub(crate) fn error(&mut self, text: &str) {
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Prints a line to the standard error, behind what it is: an error, a warning, a note.
    pub(crate) fn labelled(&mut self, style: Style, label: &str, text: &str) {
        let label = self.styled_error(style, &format!("{label}:"));
        self.error(&format!("{label} {text}"));
    }

    /// `text` as the standard output shows it.
    pub(crate) fn styled(&self, style: Style, text: &str) -> String {
        if self.coloured { style.paint(text) } else { text.to_owned() }
    }

    /// `text` as the standard error shows it.
    pub(crate) fn styled_error(&self, style: Style, text: &str) -> String {
        if self.coloured_errors { style.paint(text) } else { text.to_owned() }
    }
}

impl Style {
    fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Heading => "1",
            Self::Good => "32",
            Self::Warning => "33",
            Self::Error => "31",
            Self::Quiet => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_only_where_they_are_wanted() {
        let plain = Output { coloured: false, coloured_errors: false, unwritten: None };
        assert_eq!(plain.styled(Style::Heading, "a"), "a");
        assert_eq!(plain.styled_error(Style::Error, "a"), "a");
        let coloured = Output { coloured: true, coloured_errors: true, unwritten: None };
        assert_eq!(coloured.styled(Style::Heading, "a"), "\u{1b}[1ma\u{1b}[0m");
        assert_eq!(coloured.styled_error(Style::Error, "a"), "\u{1b}[31ma\u{1b}[0m");
    }
}
