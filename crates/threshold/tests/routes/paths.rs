//! Request paths: what is read, what is refused, and what a refusal says.

use threshold::route::{Path, PathErrorKind};

use super::{hits, one};

fn normal(target: &str) -> String {
    Path::read(target).unwrap().to_string()
}

#[track_caller]
fn refused(target: &str, column: usize, kind: PathErrorKind) {
    let error = Path::read(target).unwrap_err();
    assert_eq!((error.column, error.kind), (column, kind), "{target:?}");
}

#[test]
fn a_path_has_one_normal_form() {
    for target in ["/a/b", "/a/b/", "//a//b", "/./a/x/../b", "/%61/b", "/a%2fb", "\\a\\b", "/a;x/b;y?q#f"] {
        assert_eq!(normal(target), "/a/b", "{target}");
    }
    assert_eq!(normal("http://user@host:80/a/b?c"), "/a/b");
    for root in ["/", "//", "/..", "/../..", "/.", "/;x", "http://host", "http://host?x"] {
        assert_eq!(normal(root), "/", "{root}");
    }
    assert_eq!(normal("/a/../../../b"), "/b", "never above the root");
    assert_eq!(normal("/%E2%82%AC/%25zz"), "/€/%zz", "decoded once");
    assert_eq!(normal("/%ff"), "/\u{fffd}", "shown with a replacement, matched as it is");
    assert_eq!(normal("*"), "*");
}

#[test]
fn a_path_is_plain_if_every_server_reads_the_same() {
    for target in
        ["/", "/a/b/", "/a//b", "/%61%20", "/.well-known/x", "/a/...", "/a?b=../%2f;", "*", "/caf%c3%a9"]
    {
        assert!(Path::read(target).unwrap().is_plain(), "{target}");
    }
    for target in ["/a/../b", "/a%2fb", "/a\\b", "/a;b", "//a/b", "/a/%2e%2e/b", "/a%5cb", "/a/./b"] {
        assert!(!Path::read(target).unwrap().is_plain(), "{target}");
    }
}

#[test]
fn refusals_name_the_column_and_the_remedy() {
    refused("/a%zz", 3, PathErrorKind::InvalidEscape);
    refused("/a%4", 3, PathErrorKind::InvalidEscape);
    refused("/a%", 3, PathErrorKind::InvalidEscape);
    refused("/%2561", 6, PathErrorKind::DoubleEncoding);
    refused("/%25%36%31", 8, PathErrorKind::DoubleEncoding);
    refused("/a%00", 3, PathErrorKind::ControlCharacter);
    for control in ['\0', '\t', '\n', '\r', '\x1f', '\x7f'] {
        refused(&format!("/a{control}b"), 3, PathErrorKind::ControlCharacter);
    }
    refused("http://host/%zz", 13, PathErrorKind::InvalidEscape);
    for target in ["", "a", "host:443", "%2fa", "?a", "http:/a", "**"] {
        refused(target, 1, PathErrorKind::NotAPath);
    }
    let message = Path::read("/a%zz").unwrap_err().to_string();
    assert_eq!(
        message,
        "request path, column 3: `%` needs two hexadecimal digits after it; send the character `%` itself as %25"
    );
}

#[test]
fn a_refusal_does_not_repeat_what_the_client_sent() {
    assert!(!Path::read("/secret\n").unwrap_err().to_string().contains("secret"));
}

#[test]
fn eight_kibibytes_are_read_and_one_byte_more_is_not() {
    let longest = format!("/{}", "a".repeat(8 * 1024 - 1));
    assert!(hits(&one("* /*"), "GET", &longest));
    assert!(
        hits(&one("* /*"), "GET", &format!("{longest}?{}", "q".repeat(9_000))),
        "the query is not the path"
    );
    refused(&format!("{longest}a"), 8 * 1024 + 1, PathErrorKind::TooLong);
    let escaped = format!("/{}", "%2f%2e%2e".repeat(910));
    assert!(hits(&one("* /**"), "GET", &escaped));
}

#[test]
fn the_asterisk_belongs_to_everything_and_to_nothing_else() {
    assert!(hits(&one("* /**"), "OPTIONS", "*"));
    assert!(!hits(&one("POST /**"), "OPTIONS", "*"));
    for pattern in ["* /", "* /*", "* /a/**", "* /{x}"] {
        assert!(!hits(&one(pattern), "OPTIONS", "*"), "{pattern}");
    }
    assert!(hits(&one("* /*"), "OPTIONS", "/*"), "a path of one `*` is a path like others");
}
