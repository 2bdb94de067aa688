//! Networks: an address and how many of its leading bits count.

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network of addresses, written as `10.0.0.0/8`, `2001:db8::/32` or as one address.
///
/// An IPv4 network inside IPv6 (`::ffff:10.0.0.0/104`) is that IPv4 network, as addresses are unwrapped too;
/// no IPv6 network, not even `::/0`, contains an IPv4 address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// The address as bits, the first one on the left whatever the family, so that one mask serves both.
    bits: u128,
    mask: u128,
    family: Family,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Family {
    V4,
    V6,
}

/// Why a text or a pair of address and prefix is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CidrError {
    /// Not an address with a prefix.
    #[error("{0:?} is not a network; write one such as \"10.0.0.0/8\" or \"2001:db8::/32\"")]
    Unreadable(String),
    /// More bits than the address has.
    #[error("{address}/{prefix} has a prefix longer than its address; use at most /{most}")]
    Prefix {
        /// The address.
        address: IpAddr,
        /// The prefix.
        prefix: u8,
        /// How long it may be.
        most: u8,
    },
    /// An address inside the network instead of the network: one of the two numbers is a slip.
    #[error(
        "{address}/{prefix} has bits set behind its prefix; write {network} if you mean the whole network"
    )]
    HostBits {
        /// The address.
        address: IpAddr,
        /// The prefix.
        prefix: u8,
        /// The network it is in.
        network: Cidr,
    },
}

impl Cidr {
    /// The network of all addresses that share the first `prefix` bits of `address`.
    pub fn new(address: IpAddr, prefix: u8) -> Result<Self, CidrError> {
        let most = length(address);
        if prefix > most {
            return Err(CidrError::Prefix { address, prefix, most });
        }
        let unwrapped = address.to_canonical();
        // Bits in front of an IPv4 address inside IPv6 are the same for all of them.
        let Some(prefix) = prefix.checked_sub(most - length(unwrapped)) else {
            return Err(CidrError::Unreadable(format!("{address}/{prefix}")));
        };
        let (bits, family) = bits(unwrapped);
        let network = Self { bits: bits & mask(prefix), mask: mask(prefix), family };
        if network.bits == bits {
            return Ok(network);
        }
        Err(CidrError::HostBits { address: unwrapped, prefix, network })
    }

    /// Whether `address` is in the network. IPv4 inside IPv6 is unwrapped first.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (bits, family) = bits(address.to_canonical());
        family == self.family && bits & self.mask == self.bits
    }

    /// How many leading bits count.
    #[must_use]
    pub fn prefix(&self) -> u8 {
        // At most 128.
        self.mask.count_ones() as u8
    }

    /// The first address.
    #[must_use]
    pub fn network(&self) -> IpAddr {
        match self.family {
            Family::V4 => Ipv4Addr::from_bits((self.bits >> 96) as u32).into(),
            Family::V6 => Ipv6Addr::from_bits(self.bits).into(),
        }
    }
}

/// Many networks, asked about together: one look for each length of prefix among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Networks(Vec<(Family, u128, HashSet<u128>)>);

impl Networks {
    pub(crate) fn new(all: &[Cidr]) -> Self {
        let mut groups: Vec<(Family, u128, HashSet<u128>)> = Vec::new();
        for Cidr { bits, mask, family } in all {
            match groups.iter_mut().find(|group| (group.0, group.1) == (*family, *mask)) {
                Some((_, _, networks)) => drop(networks.insert(*bits)),
                None => groups.push((*family, *mask, HashSet::from([*bits]))),
            }
        }
        Self(groups)
    }

    /// Whether `address` is in one of them.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let (bits, family) = bits(address.to_canonical());
        self.0.iter().any(|(of, mask, networks)| *of == family && networks.contains(&(bits & mask)))
    }
}

fn length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn bits(address: IpAddr) -> (u128, Family) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, Family::V4),
        IpAddr::V6(address) => (address.to_bits(), Family::V6),
    }
}

/// The first `prefix` bits set.
pub(super) fn mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0)
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let unreadable = || CidrError::Unreadable(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| unreadable())?;
        let prefix = match prefix {
            // The standard parser takes a plus sign and leading zeros.
            Some(digits) if digits.starts_with(['+', '0']) && digits != "0" => return Err(unreadable()),
            Some(digits) => digits.parse().map_err(|_| unreadable())?,
            None => length(address),
        };
        Self::new(address, prefix)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network(), self.prefix())
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cidr({self})")
    }
}
