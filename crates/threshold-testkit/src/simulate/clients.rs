//! Who lives in the simulated world, and what they send.

use std::net::IpAddr;

use super::Dice;

/// How a client behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stays far below every limit, alone in its tenant.
    Honest,
    /// Sends as much as it can.
    Greedy,
    /// Sends as much as it can, and every time under another claimed tenant, address or spelling of the path.
    Forger,
}

/// One client.
#[derive(Clone, Debug)]
pub struct Client {
    /// How it behaves.
    pub kind: Kind,
    /// Where it connects from.
    pub peer: IpAddr,
    /// The tenant it really belongs to, if it has one.
    pub tenant: Option<&'static str>,
    /// The user it is, if it has logged in.
    pub user: Option<&'static str>,
}

/// What a client sends.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, String)>,
    /// True for what counts as a write.
    pub(super) write: bool,
}

/// Everybody: an honest one in a tenant of its own, greedy ones that share a tenant, and a forger without any.
pub(super) fn everybody() -> Vec<Client> {
    let client = |kind, peer: &str, tenant, user| Client {
        kind,
        peer: peer.parse().expect("an address"),
        tenant,
        user,
    };
    vec![
        client(Kind::Honest, "192.0.2.1", Some("quiet"), Some("hanna")),
        client(Kind::Greedy, "198.51.100.1", Some("busy"), Some("gina")),
        client(Kind::Greedy, "198.51.100.2", Some("busy"), Some("gus")),
        client(Kind::Greedy, "2001:db8:1:2::3", Some("busy"), None),
        client(Kind::Forger, "203.0.113.9", None, None),
    ]
}

impl Client {
    /// The next request.
    pub(super) fn sends(&self, dice: &mut Dice) -> Sent {
        let all =
            [("GET", "/api/posts"), ("POST", "/api/posts"), ("GET", "/api/ai/draft"), ("GET", "/elsewhere")];
        let (method, path) = *dice.pick(if self.kind == Kind::Honest { &all[..1] } else { &all });
        let mut headers = Vec::new();
        headers.extend(self.tenant.map(|tenant| ("x-tenant", tenant.to_owned())));
        headers.extend(self.user.map(|user| ("x-user", user.to_owned())));
        let mut path = path.to_owned();
        if self.kind == Kind::Forger {
            headers.push(("x-tenant", format!("forged-{}", dice.roll(1_000))));
            headers.push(("x-user", "hanna".to_owned()));
            headers.push(("x-forwarded-for", format!("10.0.0.{}", dice.roll(250))));
            path = spelled(&path, dice);
        }
        Sent { method, path, headers, write: method == "POST" }
    }
}

/// The same path in another spelling.
fn spelled(path: &str, dice: &mut Dice) -> String {
    match dice.roll(6) {
        0 => path.replacen('/', "//", 1),
        1 => path.to_ascii_uppercase(),
        2 => format!("{path}/"),
        3 => path.replace('p', "%70"),
        4 => format!("/./x/..{path}"),
        _ => path.to_owned(),
    }
}
