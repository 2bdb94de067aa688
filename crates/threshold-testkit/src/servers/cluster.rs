//! A Redis Cluster: three masters, and a replica of each.

use std::process::Command;

use super::process::output;
use super::redis::{Redis, RedisOptions};
use super::wait_until;

/// How many nodes it has: the first half of them masters, as long as nobody kills one.
const NODES: usize = 6;

/// A Redis Cluster of a test's own.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts one whose nodes keep nothing when they stop.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&RedisOptions::new())
    }

    /// Starts one with these options for each node, without TLS and users.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    #[must_use]
    pub fn start_with(options: &RedisOptions) -> Self {
        let options = options.clone().set("cluster-enabled", "yes").set("cluster-node-timeout", "2000");
        let nodes: Vec<Redis> = (0..NODES).map(|_| options.clone().start()).collect();
        let mut command = Command::new("redis-cli");
        command.args(["--cluster", "create"]);
        command.args(nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())));
        command.args(["--cluster-replicas", "1", "--cluster-yes"]);
        output(&mut command).expect("the nodes become a cluster");
        let cluster = Self { nodes };
        assert!(wait_until(|| cluster.is_whole()), "the cluster does not become whole");
        cluster
    }

    /// Every node knows that every slot is served, and every replica has its master's data.
    fn is_whole(&self) -> bool {
        self.nodes.iter().all(|node| {
            let well = node.cli(&["cluster", "info"]).is_ok_and(|info| info.contains("cluster_state:ok"));
            let known = node.cli(&["cluster", "nodes"]).unwrap_or_default();
            let role = node.cli(&["info", "replication"]).unwrap_or_default();
            let linked = role.contains("role:master") || role.contains("master_link_status:up");
            well && linked && known.lines().filter(|line| line.contains("slave")).count() == NODES / 2
        })
    }

    /// Where it is: `redis+cluster://127.0.0.1:PORT,127.0.0.1:PORT,…`, with every node.
    #[must_use]
    pub fn url(&self) -> String {
        let nodes: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}", nodes.join(","))
    }

    /// Its nodes: first the three that began as masters, then the three that began as replicas.
    #[must_use]
    pub fn nodes(&mut self) -> &mut [Redis] {
        &mut self.nodes
    }
}
