//! Looking for code in code: comments and strings are no tokens of their own, so they never match.

use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One token and the line it stands on.
struct Token {
    text: String,
    line: usize,
}

/// A file's tokens in one flat row, brackets included, so that what is inside a macro counts as well.
pub(crate) struct Tokens(Vec<Token>);

impl Tokens {
    /// Nothing if the text is not Rust: `sizes` reports that.
    pub(crate) fn of(text: &str) -> Self {
        let mut row = Vec::new();
        flatten(TokenStream::from_str(text).unwrap_or_default(), &mut row);
        Self(row)
    }

    /// The lines on which this piece of Rust begins.
    pub(crate) fn lines_with(&self, code: &str) -> Vec<usize> {
        let Self(wanted) = Self::of(code);
        // `windows` panics on zero, and an empty piece is found nowhere.
        self.0
            .windows(wanted.len().max(1))
            .filter(|window| !wanted.is_empty() && window.iter().zip(&wanted).all(|(a, b)| a.text == b.text))
            .map(|window| window[0].line)
            .collect()
    }
}

fn flatten(stream: TokenStream, row: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                row.push(Token { text: open.to_owned(), line });
                flatten(group.stream(), row);
                row.push(Token { text: close.to_owned(), line: group.span_close().start().line });
            }
            other => row.push(Token { text: other.to_string(), line }),
        }
    }
}

fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_however_it_is_spaced_and_inside_macros() {
        let tokens = Tokens::of("fn f() {\n a :: b ();\n vec![a::b()];\n}");
        assert_eq!(tokens.lines_with("a::b"), [2, 3]);
    }

    #[test]
    fn comments_strings_and_longer_names_are_not_code() {
        let tokens = Tokens::of("/// a::b\nfn f() { /* a::b */ g(\"a::b\"); a::bc(); } // a::b");
        assert!(tokens.lines_with("a::b").is_empty());
    }

    #[test]
    fn nothing_is_found_in_nothing() {
        assert!(Tokens::of("").lines_with("a").is_empty());
        assert!(Tokens::of("a").lines_with("").is_empty());
    }
}
