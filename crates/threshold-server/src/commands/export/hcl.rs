//! Terraform's language, as `terraform fmt` leaves it.

use std::fmt::Write as _;

/// What stands on the right of an equals sign.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A text; whatever is in it, it stays one.
    Text(String),
    /// Written as it is: a number, a truth value, a reference.
    Plain(String),
    /// Several on one line.
    Row(Vec<Value>),
    /// Several below each other.
    List(Vec<Body>),
    Object(Body),
}

/// Lines between braces.
pub(super) type Body = Vec<Line>;

/// A line, or several that belong together.
#[derive(Clone, Debug)]
pub(super) enum Line {
    Blank,
    Comment(String),
    Is(&'static str, Value),
    /// A block: its head, and what is in it.
    Block(String, Body),
}

/// `body` as text, from the margin on.
pub(super) fn written(body: &[Line]) -> String {
    let mut out = String::new();
    write_body(&mut out, body, 0);
    out
}

fn write_body(out: &mut String, body: &[Line], depth: usize) {
    let mut rest = body;
    while let [first, after @ ..] = rest {
        let short = rest.iter().take_while(|line| is_short(line)).count();
        if short > 0 {
            let (together, others) = rest.split_at(short);
            write_aligned(out, together, depth);
            rest = others;
            continue;
        }
        write_line(out, first, depth);
        rest = after;
    }
}

/// Attributes of one line each; those that follow each other have their equals signs below each other.
const fn is_short(line: &Line) -> bool {
    matches!(line, Line::Is(_, Value::Text(_) | Value::Plain(_) | Value::Row(_)))
}

fn write_aligned(out: &mut String, lines: &[Line], depth: usize) {
    let names =
        lines.iter().filter_map(|line| if let Line::Is(name, _) = line { Some(name.len()) } else { None });
    let width = names.max().unwrap_or(0);
    for line in lines {
        let Line::Is(name, value) = line else { continue };
        let _ = writeln!(out, "{}{name:width$} = {}", indent(depth), on_one_line(value));
    }
}

fn write_line(out: &mut String, line: &Line, depth: usize) {
    let margin = indent(depth);
    match line {
        Line::Blank => out.push('\n'),
        Line::Comment(text) if text.is_empty() => out.push_str(&format!("{margin}#\n")),
        Line::Comment(text) => out.push_str(&format!("{margin}# {text}\n")),
        Line::Block(head, body) => {
            out.push_str(&format!("{margin}{head} {{\n"));
            write_body(out, body, depth + 1);
            out.push_str(&format!("{margin}}}\n"));
        }
        Line::Is(name, Value::Object(body)) => {
            out.push_str(&format!("{margin}{name} = {{\n"));
            write_body(out, body, depth + 1);
            out.push_str(&format!("{margin}}}\n"));
        }
        Line::Is(name, Value::List(items)) => {
            out.push_str(&format!("{margin}{name} = [\n"));
            for item in items {
                out.push_str(&format!("{}{{\n", indent(depth + 1)));
                write_body(out, item, depth + 2);
                out.push_str(&format!("{}}},\n", indent(depth + 1)));
            }
            out.push_str(&format!("{margin}]\n"));
        }
        Line::Is(name, value) => out.push_str(&format!("{margin}{name} = {}\n", on_one_line(value))),
    }
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

fn on_one_line(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Plain(text) => text.clone(),
        Value::Row(values) => format!("[{}]", values.iter().map(on_one_line).collect::<Vec<_>>().join(", ")),
        // These have lines of their own.
        Value::List(_) | Value::Object(_) => String::new(),
    }
}

/// `text` between quotes, where nothing ends it early and nothing in it is a template.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // `${` and `%{` begin a template, unless their first character stands twice.
            '$' | '%' if rest.peek() == Some(&'{') => out.extend([c, c]),
            c if crate::output::is_harmful(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_a_text_whatever_is_in_it() {
        for (text, expected) in [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("${var.secret}", r#""$${var.secret}""#),
            ("%{ for a in b }", r#""%%{ for a in b }""#),
            // As HashiCorp's own writer has it.
            ("$${a}", r#""$$${a}""#),
            ("100% $5 {}", r#""100% $5 {}""#),
            ("a\r\n\tb\u{1b}\u{202e}", r#""a\r\n\tb\u001b\u202e""#),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn equals_signs_stand_below_each_other_until_something_longer_comes() {
        let plain = |text: &str| Value::Plain(text.to_owned());
        let body = vec![
            Line::Comment("first".to_owned()),
            Line::Is("a", plain("1")),
            Line::Is("long", Value::Row(vec![plain("1"), Value::Text("b".to_owned())])),
            Line::Is("object", Value::Object(vec![Line::Is("b", plain("true"))])),
            Line::Is("c", plain("2")),
            Line::Blank,
            Line::Is("list", Value::List(vec![vec![Line::Is("d", plain("3"))]])),
            Line::Block("variable \"x\"".to_owned(), vec![Line::Is("type", plain("string"))]),
        ];
        let expected = "# first\na    = 1\nlong = [1, \"b\"]\nobject = {\n  b = true\n}\nc = 2\n\n\
            list = [\n  {\n    d = 3\n  },\n]\nvariable \"x\" {\n  type = string\n}\n";
        assert_eq!(written(&body), expected);
    }
}
