//! Hosts: those of patterns, and those that requests name.

use super::error::Flaw;

/// The longest name of a host. What is longer names none.
const MAX_HOST: usize = 253;

/// A host as a pattern names it, in lower case and without a dot at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Exact(String),
    /// Every host that ends with a dot and this.
    Below(String),
}

/// Reads the host of a pattern.
pub(super) fn parse(text: &str) -> Result<Host, Flaw> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let start = text.len() - name.len();
    let name = name.strip_suffix('.').unwrap_or(name);
    check(name).map_err(|flaw| flaw.moved_by(start))?;
    let name = name.to_ascii_lowercase();
    Ok(if start == 0 { Host::Exact(name) } else { Host::Below(name) })
}

fn check(name: &str) -> Result<(), Flaw> {
    if name.is_empty() {
        return Err(Flaw::new(
            0,
            "the host is empty",
            "write one such as \"auth.example.com\", or none for every host",
        ));
    }
    if name.len() > MAX_HOST {
        let what = format!("a host has at most {MAX_HOST} bytes");
        return Err(Flaw::new(MAX_HOST, what, "write a shorter one, such as \"*.example.com\""));
    }
    if let Some(address) = name.strip_prefix('[') {
        return check_address(address).map_err(|flaw| flaw.moved_by(1));
    }
    if let Some(at) = name.find("://") {
        return Err(Flaw::new(at, "a host has no scheme", "leave it out: \"example.com\""));
    }
    if let Some((at, character)) = name.char_indices().find(|(_, c)| !is_host_character(*c)) {
        return Err(wrong_character(at, character));
    }
    let empty_label = if name.starts_with('.') { Some(0) } else { name.find("..").map(|at| at + 1) };
    let flaw =
        |at| Flaw::new(at, "a label of the host is empty", "write a host such as \"auth.example.com\"");
    empty_label.map_or(Ok(()), |at| Err(flaw(at)))
}

/// What follows the `[` of an IPv6 address.
fn check_address(text: &str) -> Result<(), Flaw> {
    let inside = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
    let length = text.find(|c| !inside(c)).unwrap_or(text.len());
    match &text[length..] {
        "]" => Ok(()),
        rest if rest.starts_with("]:") => Err(wrong_character(length + 1, ':')),
        _ => Err(Flaw::new(
            length,
            "the address does not end here with `]`",
            "write it like \"[2001:db8::1]\"",
        )),
    }
}

const fn is_host_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn wrong_character(at: usize, character: char) -> Flaw {
    match character {
        '*' => Flaw::new(
            at,
            "`*` stands only for whole labels at the start",
            "write \"*.example.com\", or no host at all for every host",
        ),
        ':' => Flaw::new(at, "the port does not matter", "leave it out: \"example.com\""),
        other => {
            let what = format!("{other:?} is not allowed in a host");
            Flaw::new(at, what, "write only its name, such as \"auth.example.com\"")
        }
    }
}

/// The name in what a request calls its host: no user, no port, no dot at the end.
pub(super) fn name(host: &[u8]) -> &[u8] {
    let host = host.trim_ascii();
    let host = host.iter().rposition(|byte| *byte == b'@').map_or(host, |at| &host[at + 1..]);
    let end = if host.starts_with(b"[") { after(host, b']') } else { before(host, b':') };
    let mut name = &host[..end];
    while let Some(shorter) = name.strip_suffix(b".") {
        name = shorter;
    }
    if name.len() > MAX_HOST { b"" } else { name }
}

fn before(host: &[u8], mark: u8) -> usize {
    host.iter().position(|byte| *byte == mark).unwrap_or(host.len())
}

fn after(host: &[u8], mark: u8) -> usize {
    host.iter().position(|byte| *byte == mark).map_or(host.len(), |at| at + 1)
}

/// What may stand behind the `*.` of a pattern that matches `name`.
pub(super) fn parents(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let dots = name.iter().enumerate().filter(|(at, byte)| *at > 0 && **byte == b'.');
    dots.map(|(at, _)| &name[at + 1..])
}
