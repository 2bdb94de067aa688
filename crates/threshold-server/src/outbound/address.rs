//! Which addresses are on the internet, and which are somebody's own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is that is not on the internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Private {
    pub(crate) what: &'static str,
    /// True if no name stands for it: whoever wants it reached names the address itself.
    pub(crate) never_by_name: bool,
}

const fn own(what: &'static str) -> Private {
    Private { what, never_by_name: false }
}

const fn never(what: &'static str) -> Private {
    Private { what, never_by_name: true }
}

/// What `address` is, if it is not on the internet.
pub(crate) fn private(address: IpAddr) -> Option<Private> {
    match address {
        IpAddr::V4(address) => private_v4(address),
        IpAddr::V6(address) => private_v6(address),
    }
}

fn private_v4(address: Ipv4Addr) -> Option<Private> {
    match address.octets() {
        [0, ..] => Some(never("an unspecified address")),
        [127, ..] => Some(own("this machine")),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some(own("a private address")),
        [100, 64..=127, ..] => Some(own("an address shared by a provider's customers")),
        // Clouds hand out credentials at 169.254.169.254 and its neighbours, and at one address of Oracle's and Alibaba's.
        [169, 254, ..] => Some(never("a link-local address, where clouds tell their metadata")),
        [192, 0, 0, _] => Some(never("an address for protocols")),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Some(never("an address for documentation")),
        [192, 88, 99, _] => Some(never("an address of relays")),
        [198, 18..=19, ..] => Some(never("an address for measurements")),
        [224..=239, ..] => Some(never("a multicast address")),
        [240..=255, ..] => Some(never("a reserved address")),
        _ => None,
    }
}

/// Of IPv6 only what is given out is on the internet, but for what in there is for other purposes.
fn private_v6(address: Ipv6Addr) -> Option<Private> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let within = || embedded(g, h);
    match (a, b) {
        // IPv4 in one of its disguises: mapped, compatible, translated by NAT64, by 6to4.
        (0, 0) if (c, d, e, f) == (0, 0, 0, 0xffff) => within(),
        (0, 0) if (c, d, e, f, g, h) == (0, 0, 0, 0, 0, 0) => Some(never("an unspecified address")),
        (0, 0) if (c, d, e, f, g, h) == (0, 0, 0, 0, 0, 1) => Some(own("this machine")),
        (0x64, 0xff9b) if (c, d, e, f) == (0, 0, 0, 0) => within(),
        (0x2002, _) => embedded(b, c),
        (0xfe80..=0xfebf, _) => Some(never("a link-local address")),
        // Amazon's metadata is at fd00:ec2::254, and others of theirs beside it.
        (0xfd00, 0x0ec2) => Some(never("an address where clouds tell their metadata")),
        (0xfc00..=0xfdff, _) => Some(own("a private address")),
        (0xff00..=0xffff, _) => Some(never("a multicast address")),
        (0x2001, 0x0db8) | (0x3fff, 0..=0x0fff) => Some(never("an address for documentation")),
        (0x2001, 0..=0x01ff) => Some(never("an address for protocols")),
        (0x2000..=0x3fff, _) => None,
        _ => Some(never("a reserved address")),
    }
}

/// An IPv4 address within another is as good as itself.
fn embedded(high: u16, low: u16) -> Option<Private> {
    private_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_the_internet_is_let_through() {
        for address in [
            "1.1.1.1",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::1",
        ] {
            assert_eq!(private(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn what_is_not_is_known_in_every_disguise() {
        for address in [
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.127.255.255",
            "100.100.100.200",
            "169.254.169.254",
            "169.254.170.2",
            "192.0.0.192",
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "198.18.0.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::7f00:1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd12:3456::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "5f00::1",
            "4000::1",
        ] {
            assert!(private(address.parse().unwrap()).is_some(), "{address}");
        }
    }

    #[test]
    fn metadata_is_never_reached_by_a_name() {
        for address in
            ["169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "0.0.0.0"]
        {
            assert!(private(address.parse().unwrap()).unwrap().never_by_name, "{address}");
        }
        for address in ["127.0.0.1", "10.0.0.1", "::1", "fd12::1"] {
            assert!(!private(address.parse().unwrap()).unwrap().never_by_name, "{address}");
        }
    }
}
