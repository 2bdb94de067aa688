//! What is set from outside: one setting says where counters live.

use std::fmt;

use threshold::{AlgorithmKind, Secret};

/// Whoever knows the secret can find out which addresses there are.
const SHORTEST_SECRET: usize = 16;

/// Where counters live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// In this process: for one instance, and forgotten when it ends.
    Memory,
    /// In Postgres, asked for every check.
    Postgres,
    /// In Postgres, and what it refused is known without asking for up to a second.
    Hybrid,
    /// Each instance counts contributions for itself; only money is counted in Postgres.
    Approximate,
    /// In Postgres, with Redis before it: what one instance was refused there the others learn from Redis, and counters
    /// continue on Redis while Postgres is gone.
    Redis,
}

impl Implementation {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Memory, Self::Postgres, Self::Hybrid, Self::Approximate, Self::Redis];

    /// Its name in the setting and in statistics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Postgres => "postgres",
            Self::Hybrid => "hybrid",
            Self::Approximate => "approximate",
            Self::Redis => "redis",
        }
    }
}

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a day is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// From midnight to midnight, UTC.
    #[default]
    Day,
    /// The 24 hours until now.
    Sliding,
}

impl Window {
    pub(crate) const fn algorithm(self) -> AlgorithmKind {
        match self {
            Self::Day => AlgorithmKind::CalendarWindow,
            Self::Sliding => AlgorithmKind::SlidingWindow,
        }
    }
}

/// All that is set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where counters live.
    pub implementation: Implementation,
    /// What a day is.
    pub window: Window,
    /// How many instances there are.
    pub nodes: u32,
    /// The database, where one is needed.
    pub postgres: Option<String>,
    /// Redis, where it is needed.
    pub redis: Option<String>,
    /// What addresses are hashed with; the same for all instances.
    pub secret: Option<Secret>,
}

impl Settings {
    /// Reads them from `variables`, such as the environment.
    ///
    /// # Errors
    ///
    /// If one of them cannot be understood, with what to write.
    pub fn read(variables: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let name = variables("RATE_LIMIT").unwrap_or_else(|| "memory".to_owned());
        let implementation = Implementation::ALL.into_iter().find(|known| known.name() == name);
        let implementation = implementation.ok_or_else(|| {
            let names = Implementation::ALL.map(Implementation::name).join(", ");
            format!("RATE_LIMIT={name:?} is none of {names}; write one of them")
        })?;
        let window = match variables("RATE_LIMIT_WINDOW").as_deref() {
            None | Some("day") => Window::Day,
            Some("24h") => Window::Sliding,
            Some(other) => return Err(format!("RATE_LIMIT_WINDOW={other:?} is neither day nor 24h")),
        };
        let nodes = variables("RATE_LIMIT_NODES").unwrap_or_else(|| "1".to_owned());
        let nodes = nodes.parse().ok().filter(|nodes| *nodes > 0);
        let nodes = nodes.ok_or("RATE_LIMIT_NODES must say how many instances there are, such as 3")?;
        let secret = variables("RATE_LIMIT_SECRET");
        if secret.as_ref().is_some_and(|secret| secret.len() < SHORTEST_SECRET) {
            return Err("RATE_LIMIT_SECRET is too short to be one; draw it: openssl rand -hex 16".to_owned());
        }
        let secret = secret.map(|text| Secret::from_text(&text));
        let needed = |name: &'static str, why: &str| {
            variables(name).ok_or_else(|| format!("{name} is not set, and RATE_LIMIT={implementation} {why}"))
        };
        let shared = implementation != Implementation::Memory;
        if shared && secret.is_none() {
            return Err("RATE_LIMIT_SECRET is not set; instances share it: openssl rand -hex 16".to_owned());
        }
        Ok(Self {
            implementation,
            window,
            nodes,
            postgres: shared.then(|| needed("DATABASE_URL", "counts in Postgres")).transpose()?,
            redis: (implementation == Implementation::Redis)
                .then(|| needed("REDIS_URL", "has Redis before Postgres"))
                .transpose()?,
            secret,
        })
    }
}
