//! Cases of `data/client-addresses.txt`, and what holds for any headers at all.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::prelude::{any, prop, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};
use proptest::{prop_assert, prop_assert_eq};
use threshold::identify::{Cidr, ClientIp, Identifier, IdentityRules};

use crate::{NOW, facts, ip};

const CASES: &str = include_str!("../data/client-addresses.txt");

/// The header lines of a case, as the wire would carry them.
type Lines = Vec<(String, Vec<u8>)>;

struct Case {
    expected: IpAddr,
    peer: IpAddr,
    trusted: Vec<Cidr>,
    rule: ClientIp,
    headers: Lines,
}

fn cases() -> impl Iterator<Item = (usize, Case)> {
    let lines = CASES.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    lines.map(|(index, line)| (index + 1, case(line)))
}

fn case(line: &str) -> Case {
    let columns: Vec<&str> = line.splitn(5, '\t').collect();
    let &[expected, peer, trusted, rule, headers] = columns.as_slice() else {
        panic!("five columns: {line:?}");
    };
    Case {
        expected: ip(expected),
        peer: ip(peer).to_canonical(),
        trusted: trusted
            .split(',')
            .filter(|text| !text.is_empty())
            .map(|text| text.parse().unwrap())
            .collect(),
        rule: client_ip(rule),
        headers: headers.split(" | ").filter(|line| !line.is_empty()).map(header).collect(),
    }
}

fn client_ip(rule: &str) -> ClientIp {
    match rule {
        "peer" => ClientIp::Peer,
        "forwarded" => ClientIp::Forwarded,
        "x-forwarded-for" => ClientIp::XForwardedFor,
        "cf-connecting-ip" => ClientIp::CfConnectingIp,
        other => ClientIp::Header(other.strip_prefix("header ").expect("a rule").to_owned()),
    }
}

fn header(line: &str) -> (String, Vec<u8>) {
    let (name, value) = line.split_once(':').expect("a name and a value");
    (name.to_owned(), value.into())
}

fn client(case: &Case) -> IpAddr {
    let rules = IdentityRules {
        trusted_proxies: case.trusted.clone(),
        client_ip: case.rule.clone(),
        ..IdentityRules::default()
    };
    let facts = facts(&case.peer.to_string(), &case.headers);
    Identifier::new(rules).unwrap().identify(&facts, NOW).client
}

fn is_forged(address: IpAddr) -> bool {
    let forged: [Cidr; 2] = ["6.6.6.0/24".parse().unwrap(), "2001:db8:666::/48".parse().unwrap()];
    forged.iter().any(|network| network.contains(address))
}

#[test]
fn no_forged_address_is_ever_believed() {
    let (mut count, mut strangers) = (0, 0);
    for (line, case) in cases() {
        let found = client(&case);
        assert!(!is_forged(found), "line {line}: believed {found}");
        assert_eq!(found, case.expected, "line {line}");
        if !case.trusted.iter().any(|network| network.contains(case.peer)) {
            assert_eq!(found, case.peer, "line {line}: the peer is no proxy");
            strangers += 1;
        }
        count += 1;
    }
    assert!(count >= 500, "only {count} cases");
    assert!(strangers >= 50, "only {strangers} cases without a trusted peer");
}

#[test]
fn a_wider_trust_is_the_only_way_to_another_answer() {
    // The same cases with nobody trusted: everybody is the peer.
    for (line, mut case) in cases() {
        case.trusted.clear();
        assert_eq!(client(&case), case.peer, "line {line}");
    }
}

fn rule() -> impl Strategy<Value = ClientIp> {
    prop_oneof![
        Just(ClientIp::Forwarded),
        Just(ClientIp::XForwardedFor),
        Just(ClientIp::CfConnectingIp),
        Just(ClientIp::Header("x-real-ip".to_owned())),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["Forwarded", "x-forwarded-for", "CF-Connecting-IP", "X-Real-IP", "Cookie"])
        .prop_map(str::to_owned)
}

/// Any bytes, and texts made of the pieces that mean something.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let pieces = vec![
        "for=",
        "FOR=",
        "\"",
        "\\",
        ",",
        ";",
        " ",
        "\t",
        "[",
        "]",
        ":",
        "=",
        "10.0.0.1",
        "6.6.6.6",
        "2001:db8::1",
        "::ffff:10.1.1.1",
        "80",
        "_x",
        "unknown",
        "by=",
        "%",
        "é",
    ];
    prop_oneof![
        vec(any::<u8>(), 0..200),
        vec(prop::sample::select(pieces), 0..40).prop_map(|pieces| pieces.concat().into_bytes()),
    ]
}

proptest! {
    #[test]
    fn a_stranger_is_itself_whatever_it_sends(
        rule in rule(), headers in vec((name(), value()), 0..6), peer in any::<IpAddr>(),
    ) {
        let trusted: Cidr = "10.0.0.0/8".parse().unwrap();
        if !trusted.contains(peer) {
            let peer = peer.to_canonical();
            let case = Case { expected: peer, peer, trusted: vec![trusted], rule, headers };
            prop_assert_eq!(client(&case), peer);
        }
    }

    #[test]
    fn what_a_proxy_added_last_wins_over_anything_before_it(
        forged in vec(value(), 0..6), client_address in any::<IpAddr>(), quoted in any::<bool>(),
    ) {
        let trusted: Cidr = "10.0.0.0/8".parse().unwrap();
        let address = client_address.to_canonical();
        let written = match address {
            IpAddr::V6(address) => format!("for=\"[{address}]\""),
            IpAddr::V4(address) if quoted => format!("for=\"{address}:80\""),
            IpAddr::V4(address) => format!("for={address}"),
        };
        // The last line may continue what was sent.
        let mut lines = forged;
        let mut last = lines.pop().map(|mut line| { line.push(b','); line }).unwrap_or_default();
        last.extend(written.bytes());
        lines.push(last);
        let headers = lines.into_iter().map(|line| ("forwarded".to_owned(), line)).collect();
        let peer = ip("10.0.0.1");
        let case = Case { expected: address, peer, trusted: vec![trusted], rule: ClientIp::Forwarded, headers };
        let found = client(&case);
        prop_assert!(found == address || trusted.contains(address), "{found} instead of {address}");
    }
}
