//! The client's address, with or without a port, brackets or a zone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use memchr::{memchr, memrchr};

use super::counts::Reason;

/// An address, behind which there may be a port. IPv4 within IPv6 is IPv4.
pub(super) fn address(text: &[u8]) -> Result<IpAddr, Reason> {
    if let Some(address) = ipv4(text) {
        return Ok(address.into());
    }
    let text = text.trim_ascii();
    let bare = match text.strip_prefix(b"[") {
        Some(inside) => &inside[..memchr(b']', inside).unwrap_or(inside.len())],
        // One colon is that of a port; IPv6 has two at least.
        None => match (memchr(b':', text), memrchr(b':', text)) {
            (Some(first), Some(last)) if first == last => &text[..first],
            _ => text,
        },
    };
    bare_address(bare).ok_or_else(|| instead(bare))
}

/// An address behind which there always is a port, also where IPv6 has no brackets: `2001:db8::1:443`.
pub(super) fn with_port(text: &[u8]) -> Result<IpAddr, Reason> {
    match memrchr(b':', text) {
        Some(colon) if text.first() != Some(&b'[') => {
            bare_address(&text[..colon]).ok_or_else(|| instead(&text[..colon]))
        }
        _ => address(text),
    }
}

/// The last of the addresses that proxies put one behind the other: the one that whoever wrote the log put there itself.
pub(super) fn last_of(list: &[u8]) -> Result<IpAddr, Reason> {
    address(memrchr(b',', list).map_or(list, |comma| &list[comma + 1..]))
}

fn bare_address(text: &[u8]) -> Option<IpAddr> {
    if let Some(address) = ipv4(text) {
        return Some(address.into());
    }
    // A zone says which of our own networks it is, and nothing about the client.
    let text = &text[..memchr(b'%', text).unwrap_or(text.len())];
    let address: Ipv6Addr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(address.to_canonical())
}

/// What is there instead of an address.
fn instead(text: &[u8]) -> Reason {
    let of_names = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let has_letter = text.iter().any(u8::is_ascii_alphabetic);
    if has_letter && text != b"unix" && text.iter().all(of_names) {
        Reason::HostName
    } else {
        Reason::Address
    }
}

/// Four numbers with points between them, each without a zero before it.
fn ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    if text.len() < 7 || text.len() > 15 {
        return None;
    }
    let (mut octets, mut index, mut value, mut digits) = ([0_u8; 4], 0, 0_u16, 0);
    for byte in text {
        match byte {
            b'0'..=b'9' if digits < 3 && !(digits > 0 && value == 0) => {
                (value, digits) = (value * 10 + u16::from(byte - b'0'), digits + 1);
            }
            b'.' if digits > 0 && index < 3 => {
                octets[index] = u8::try_from(value).ok()?;
                (index, value, digits) = (index + 1, 0, 0);
            }
            _ => return None,
        }
    }
    octets[3] = u8::try_from(value).ok()?;
    (index == 3 && digits > 0).then(|| octets.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_every_spelling() {
        let all = [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:5678", "192.0.2.1"),
            ("255.255.255.255", "255.255.255.255"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("[::ffff:192.0.2.1]:80", "192.0.2.1"),
            ("fe80::1%eth0", "fe80::1"),
            ("::1", "::1"),
        ];
        for (text, meant) in all {
            assert_eq!(address(text.as_bytes()), Ok(meant.parse().unwrap()), "{text}");
        }
        assert_eq!(with_port(b"2001:db8::1:443"), Ok("2001:db8::1".parse().unwrap()));
        assert_eq!(with_port(b"[2001:db8::1]:443"), Ok("2001:db8::1".parse().unwrap()));
        assert_eq!(with_port(b"192.0.2.1:443"), Ok("192.0.2.1".parse().unwrap()));
        assert_eq!(with_port(b"192.0.2.1"), Ok("192.0.2.1".parse().unwrap()));
        assert_eq!(last_of(b"10.0.0.1, 192.0.2.1"), Ok("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn what_is_no_address_says_what_it_is() {
        for name in ["example.com", "host-1.example.com:443", "localhost"] {
            assert_eq!(address(name.as_bytes()), Err(Reason::HostName), "{name}");
        }
        for none in
            ["", "-", "256.1.1.1", "1.2.3", "1.2.3.4.5", "1.2.3.04", "unix:", "unix:1", "1.2.3.4x", "::1::"]
        {
            assert_eq!(
                address(none.as_bytes()).map_err(|reason| reason == Reason::HostName),
                Err(none == "1.2.3.4x"),
                "{none}"
            );
        }
    }

    #[test]
    fn the_quick_reader_agrees_with_the_standard_one() {
        for text in ["0.0.0.0", "1.2.3.4", "01.2.3.4", "1..2.3", "1.2.3.", ".1.2.3", "1.2.3.999", "127.0.0.1"]
        {
            assert_eq!(ipv4(text.as_bytes()), text.parse().ok(), "{text}");
        }
    }
}
