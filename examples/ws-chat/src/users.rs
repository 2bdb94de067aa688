//! Tokens, and whose they are. For trying things out: real ones are kept as hashes, and not in the source.

/// Somebody who may chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The name that others see.
    pub name: &'static str,
    /// What the user pays for: a tier of the policy.
    pub tier: &'static str,
}

const USERS: [(&str, User); 4] = [
    ("demo-alice", User { name: "alice", tier: "free" }),
    ("demo-bob", User { name: "bob", tier: "free" }),
    ("demo-paula", User { name: "paula", tier: "premium" }),
    ("demo-quentin", User { name: "quentin", tier: "premium" }),
];

impl User {
    /// Whose token it is.
    #[must_use]
    pub fn of(token: &str) -> Option<Self> {
        USERS.iter().find(|(known, _)| *known == token).map(|(_, user)| *user)
    }
}
