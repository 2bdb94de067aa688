//! Many at once: never more than the limit, by the clients' own log.

use std::net::SocketAddr;

use threshold_testkit::folder::Folder;
use threshold_testkit::servers;

use super::common::{Reply, Wire, command, serve};
use crate::support::server::Server;

const CONNECTIONS: usize = 50;
const PIPELINE: usize = 16;
const CALLS: usize = 1_000;

/// Sends 1,000 calls over 50 connections, up to 16 in one pipeline, and counts what was admitted.
fn admitted(addresses: &[SocketAddr], call: &[u8], is_admitted: fn(&[i64]) -> bool) -> usize {
    let each = CALLS / CONNECTIONS;
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                let address = addresses[number % addresses.len()];
                scope.spawn(move || {
                    let mut wire = Wire::to(address);
                    let (mut left, mut admitted) = (each, 0);
                    while left > 0 {
                        let some = left.min(PIPELINE);
                        wire.send(call.repeat(some));
                        admitted += (0..some).filter(|_| is_admitted(&wire.reply().numbers())).count();
                        left -= some;
                    }
                    admitted
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    })
}

fn both_manners(addresses: &[SocketAddr]) {
    let cell = command(&["CL.THROTTLE", "crowd:cell", "99", "100", "86400"]);
    assert_eq!(admitted(addresses, &cell, |numbers| numbers[0] == 0), 100);
    let crab = command(&["THROTTLE", "crowd:crab", "100", "100", "86400"]);
    assert_eq!(admitted(addresses, &crab, |numbers| numbers[0] == 1), 100);
}

#[test]
fn a_thousand_calls_at_a_limit_of_a_hundred_admit_a_hundred() {
    both_manners(&[serve("").resp]);
}

#[test]
fn two_nodes_on_one_redis_admit_a_hundred_together() {
    let folder = Folder::new();
    let store = format!("{}?prefix={}&timeout=10000", servers::redis(), servers::fresh_prefix());
    let policy = "[store]\nsecret = \"a secret that both of them have\"\nnodes = 2\n";
    let nodes = [1, 2].map(|number| {
        let ledger = format!("sqlite://{}", folder.path().join(format!("{number}.sqlite")).display());
        Server::with(policy, &["--store", &store, "--ledger", &ledger], &[])
    });
    both_manners(&nodes.each_ref().map(|node| node.resp));
    // What one node was charged, the other one knows.
    let [one, two] = nodes.each_ref().map(|node| node.resp);
    let pipeline = command(&["CL.THROTTLE", "in-turn", "999", "1000", "86400"]).repeat(100);
    for (turn, address) in [one, two, one].into_iter().enumerate() {
        let mut wire = Wire::to(address);
        wire.send(&pipeline);
        for place in 0..100 {
            let numbers = wire.reply().numbers();
            assert_eq!(numbers[0], 0);
            let spent = i64::try_from(turn * 100 + place + 1).unwrap();
            // Some come back while it runs.
            assert!((1_000 - spent..=1_001 - spent).contains(&numbers[2]), "{turn} {place}: {numbers:?}");
        }
    }
}

#[test]
fn a_reset_in_a_pipeline_has_its_turn() {
    let store = format!("{}?prefix={}&timeout=10000", servers::redis(), servers::fresh_prefix());
    let policy = "[store]\nsecret = \"a secret of some length\"\n\n[[limit]]\nid = \"uploads\"\nlayer = \"endpoint\"\n\
                  rate = \"100/day\"\nper = \"everyone\"\n";
    let folder = Folder::new();
    let ledger = format!("sqlite://{}", folder.path().join("ledger.sqlite").display());
    for server in [serve(policy), Server::with(policy, &["--store", &store, "--ledger", &ledger], &[])] {
        let mut wire = Wire::to(server.resp);
        for round in 0..20 {
            let key = format!("key{round}");
            let pair = [
                command(&["THRESHOLD.CONSUME", "uploads", &key, "100"]),
                command(&["THRESHOLD.RESET", "uploads", &key]),
            ];
            wire.send(pair.concat().repeat(5));
            for _ in 0..5 {
                assert_eq!(wire.reply().get("allowed"), Reply::Integer(1), "charged before it was forgotten");
                assert_eq!(wire.reply().text(), "OK");
            }
        }
    }
}
