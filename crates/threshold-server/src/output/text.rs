//! Text as people read it, whoever wrote it.

use threshold::{Span, Timestamp};

/// Stands for a character that is not shown.
const HIDDEN: char = '\u{fffd}';

/// `text` on one line, without anything that moves the cursor, colours what follows or turns it around.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_harmful(c) { HIDDEN } else { c }).collect()
}

/// A JSON document that says the same without such characters. Outside its strings it has none but ends of lines.
pub(crate) fn harmless_json(document: &str) -> String {
    let mut shown = String::with_capacity(document.len());
    for c in document.chars() {
        match c {
            '\n' => shown.push(c),
            c if is_harmful(c) => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => shown.push(c),
        }
    }
    shown
}

/// Control characters, ends of lines and paragraphs, and what changes the direction of writing: all below U+10000.
pub(crate) fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// How long it is until `end`: `in 23h 59min`, or that it is over.
pub(crate) fn left(end: Timestamp, now: Timestamp) -> String {
    const UNITS: [(Span, &str); 4] =
        [(Span::DAY, "d"), (Span::HOUR, "h"), (Span::MINUTE, "min"), (Span::SECOND, "s")];
    if end <= now {
        return "over".to_owned();
    }
    let span = end.since(now).as_micros();
    let mut parts = UNITS.iter().enumerate().map(|(index, (size, name))| {
        let within = if index == 0 { span } else { span % UNITS[index - 1].0.as_micros() };
        (within / size.as_micros(), name)
    });
    let Some((largest, name)) = parts.find(|(count, _)| *count > 0) else {
        return "in less than 1s".to_owned();
    };
    match parts.next().filter(|(count, _)| *count > 0) {
        Some((count, smaller)) => format!("in {largest}{name} {count}{smaller}"),
        None => format!("in {largest}{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_harmful_is_left() {
        let hostile = "a\u{1b}[2Jb\r\n\u{9b}31mc\u{202e}d\u{7f}\t\u{2028}é";
        assert_eq!(
            harmless(hostile),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}\u{fffd}31mc\u{fffd}d\u{fffd}\u{fffd}\u{fffd}é"
        );
    }

    #[test]
    fn documents_say_the_same() {
        let value = serde_json::json!(["a\u{1b}[2Jb\r\n\u{9b}31mc\u{202e}d\u{7f}\t\u{2028}é"]);
        let shown = harmless_json(&format!("{value:#}"));
        assert!(shown.chars().all(|c| c == '\n' || !is_harmful(c)), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn what_is_left_is_told_in_two_units() {
        let now = Timestamp::from_micros(1_000_000_000);
        for (seconds, shown) in [
            (86_400, "in 1d"),
            (86_399, "in 23h 59min"),
            (90_061, "in 1d 1h"),
            (86_460, "in 1d"),
            (61, "in 1min 1s"),
            (5, "in 5s"),
        ] {
            assert_eq!(left(now.plus(Span::from_secs(seconds)), now), shown);
        }
        assert_eq!(left(now.plus(Span::TICK), now), "in less than 1s");
        assert_eq!(left(now, now), "over");
        assert_eq!(left(now, now.plus(Span::TICK)), "over");
    }
}
