//! A Redis master, its replica, and the Sentinels that watch both.

use super::redis::{Redis, RedisOptions};
use super::wait_until;

/// The name under which Sentinels know the master.
const MASTER: &str = "threshold";

/// A watched Redis of a test's own.
#[derive(Debug)]
pub struct Sentinel {
    sentinels: Vec<Redis>,
    master: Redis,
    replica: Redis,
}

impl Sentinel {
    /// Starts a master, a replica and this many Sentinels.
    ///
    /// # Panics
    ///
    /// If they do not come up.
    #[must_use]
    pub fn start(sentinels: usize) -> Self {
        let master = Redis::start();
        let follow = format!("127.0.0.1 {}", master.port());
        let replica = RedisOptions::new().set("replicaof", &follow).start();
        let watch = || {
            let most = sentinels / 2 + 1;
            RedisOptions::new()
                .sentinel()
                .set("sentinel monitor", &format!("{MASTER} 127.0.0.1 {} {most}", master.port()))
                .set("sentinel down-after-milliseconds", &format!("{MASTER} 1000"))
                .set("sentinel failover-timeout", &format!("{MASTER} 3000"))
                .start()
        };
        let sentinels = (0..sentinels).map(|_| watch()).collect();
        let watched = Self { sentinels, master, replica };
        assert!(wait_until(|| watched.is_whole()), "the Sentinels do not find each other and the replica");
        watched
    }

    fn is_whole(&self) -> bool {
        let others = format!("num-other-sentinels\n{}\n", self.sentinels.len() - 1);
        self.sentinels.iter().all(|sentinel| {
            let known = sentinel.cli(&["sentinel", "master", MASTER]).unwrap_or_default();
            known.contains("num-slaves\n1\n") && known.contains(&others)
        })
    }

    /// Where the Sentinels are, and whom to ask them for: `redis+sentinel://127.0.0.1:PORT,…/threshold`.
    #[must_use]
    pub fn url(&self) -> String {
        let sentinels: Vec<String> =
            self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
        format!("redis+sentinel://{}/{MASTER}", sentinels.join(","))
    }

    /// The port of the server that the Sentinels hold for the master now.
    ///
    /// # Panics
    ///
    /// If no Sentinel answers.
    #[must_use]
    pub fn master_port(&self) -> u16 {
        let ask = |sentinel: &Redis| sentinel.cli(&["sentinel", "get-master-addr-by-name", MASTER]).ok();
        let said = self.sentinels.iter().find_map(ask).expect("a Sentinel answers");
        said.trim().lines().last().and_then(|port| port.parse().ok()).expect("an address and a port")
    }

    /// Has the replica become the master, as an operator would.
    ///
    /// # Panics
    ///
    /// If the first Sentinel cannot be reached.
    pub fn fail_over(&self) {
        let said = self.sentinels[0].cli(&["sentinel", "failover", MASTER]).expect("a Sentinel answers");
        assert_eq!(said.trim(), "OK");
    }

    /// The server that began as the master.
    #[must_use]
    pub fn master(&mut self) -> &mut Redis {
        &mut self.master
    }

    /// The server that began as the replica.
    #[must_use]
    pub fn replica(&mut self) -> &mut Redis {
        &mut self.replica
    }
}
