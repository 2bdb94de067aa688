//! Sources: the addresses that requests come from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use threshold::identify::Cidr;

/// The addresses of an actor: networks of one size within a larger one, each of them a subject.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sources {
    /// The larger one's first address, and whether it is one of IPv4.
    first: u128,
    is_v4: bool,
    /// The bits that tell the networks apart, and those within one.
    bits: u32,
    within: u32,
    /// How many of them are used.
    pub(super) used: u64,
}

/// What is wrong with the addresses of an actor.
pub(super) enum Wrong {
    Network,
    Prefix { least: u32, most: u32 },
}

impl Sources {
    /// Networks with `prefix` bits in `network`: single addresses of IPv4 and /64s of IPv6 unless told.
    pub(super) fn new(network: &str, prefix: Option<u64>) -> Result<Self, Wrong> {
        let (address, length) = network.split_once('/').ok_or(Wrong::Network)?;
        network.parse::<Cidr>().map_err(|_| Wrong::Network)?;
        let address: IpAddr = address.trim().parse().map_err(|_| Wrong::Network)?;
        let length: u32 = length.trim().parse().map_err(|_| Wrong::Network)?;
        let (bits, width, usual) = match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32, 32),
            IpAddr::V6(address) => (address.to_bits(), 128, 64.max(length)),
        };
        let prefix = prefix.map_or(usual, |prefix| u32::try_from(prefix).unwrap_or(u32::MAX));
        if prefix < length || prefix > width {
            return Err(Wrong::Prefix { least: length, most: width });
        }
        let first = bits & !low(width - length);
        let bits = (prefix - length).min(48);
        Ok(Self { first, is_v4: width == 32, bits, within: width - prefix, used: 1 << bits })
    }

    /// How many networks there are.
    pub(super) const fn room(&self) -> u64 {
        1 << self.bits
    }

    /// An address in the network of this number; which one within it is up to `chosen`.
    pub(super) fn address(&self, number: u64, chosen: u64) -> IpAddr {
        // Neighbours in number are not neighbours on the network. An odd factor takes no two to the same place.
        let place = u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) & low(self.bits);
        // With one network for all addresses there is but one place.
        let place = place.checked_shl(self.within).unwrap_or(0);
        let bits = self.first | place | (u128::from(chosen) & low(self.within));
        match self.is_v4 {
            true => Ipv4Addr::from_bits(bits as u32).into(),
            false => Ipv6Addr::from_bits(bits).into(),
        }
    }
}

/// So many ones.
const fn low(bits: u32) -> u128 {
    if bits >= 128 { u128::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_number_has_a_network_of_its_own_within_the_larger_one() {
        for (network, prefix) in [("100.64.0.0/20", None), ("2001:db8::/52", None), ("10.0.0.0/8", Some(20))]
        {
            let Ok(sources) = Sources::new(network, prefix) else { panic!("{network} is one") };
            let around: Cidr = network.parse().expect("a network");
            let all: HashSet<IpAddr> = (0..4_096).map(|number| sources.address(number, 0)).collect();
            assert_eq!((sources.room(), all.len()), (4_096, 4_096), "{network}");
            assert!((0..4_096).all(|number| around.contains(sources.address(number, u64::MAX))), "{network}");
        }
        for everything in ["0.0.0.0/0", "::/0"] {
            let Ok(sources) = Sources::new(everything, Some(0)) else { panic!("{everything} is one") };
            assert_eq!((sources.room(), sources.address(3, 7)), (1, sources.address(0, 7)));
        }
        assert!(matches!(Sources::new("10.0.0.0", None), Err(Wrong::Network)));
        assert!(matches!(Sources::new("10.0.0.0/33", None), Err(Wrong::Network)));
        assert!(matches!(Sources::new("10.0.0.0/8", Some(7)), Err(Wrong::Prefix { least: 8, most: 32 })));
    }
}
