//! Headers that say who asks.

use std::net::IpAddr;

use threshold::identify::{Cidr, ClientIp, Facts, Identifier, IdentityRules};

const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const STRANGER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 7));
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9));

/// Reads `bytes` as what somebody sent in each header that may name a client: a stranger is never believed, and whatever
/// stands there already, what the proxy adds behind it is.
///
/// # Panics
///
/// If one of these does not hold.
pub fn forwarded(bytes: &[u8]) {
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    for (rule, name, added) in [
        (ClientIp::XForwardedFor, "x-forwarded-for", "203.0.113.9"),
        (ClientIp::Forwarded, "forwarded", "for=203.0.113.9"),
        (ClientIp::CfConnectingIp, "cf-connecting-ip", ""),
        (ClientIp::Header("x-client".to_owned()), "x-client", ""),
    ] {
        let identifier = identifier(rule);
        let sent: Vec<(&str, Vec<u8>)> = lines.iter().map(|line| (name, line.to_vec())).collect();
        assert_eq!(client(&identifier, STRANGER, &sent), STRANGER);
        let read = client(&identifier, PROXY, &sent);
        assert_eq!(read, read.to_canonical());
        if !added.is_empty() {
            let with = [&sent[..], &[(name, added.into())]].concat();
            assert_eq!(client(&identifier, PROXY, &with), CLIENT, "a line of its own");
            let longer =
                sent.iter().enumerate().map(|(place, (name, value))| match place + 1 == sent.len() {
                    true => (*name, [value, &b", "[..], added.as_bytes()].concat()),
                    false => (*name, value.clone()),
                });
            assert_eq!(client(&identifier, PROXY, &longer.collect::<Vec<_>>()), CLIENT, "behind the others");
        }
    }
}

fn identifier(client_ip: ClientIp) -> Identifier {
    let trusted_proxies = vec![Cidr::new(PROXY, 32).expect("this is a network")];
    let rules = IdentityRules { trusted_proxies, client_ip, ..IdentityRules::default() };
    Identifier::new(rules).expect("these are rules")
}

fn client(identifier: &Identifier, peer: IpAddr, headers: &Vec<(&str, Vec<u8>)>) -> IpAddr {
    let facts = Facts { peer, method: "GET", host: None, path: "/", bytes: None, headers };
    identifier.client(&facts).0
}
