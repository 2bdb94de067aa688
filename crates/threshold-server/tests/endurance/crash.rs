//! The server is killed, and what it acknowledged is there when it starts again.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use serde_json::Value as Json;
use threshold_testkit::figures::{Claim, size};
use threshold_testkit::folder::Folder;
use threshold_testkit::simulate::Dice;

use super::good::eventually;
use crate::support::application::Application;
use crate::support::client::Client;
use crate::support::server::Server;

/// One request a day, and who sends another is banned at once.
const POLICY: &str = r#"
[[limit]]
id = "one"
layer = "user"
per = "ip"
rate = "1/day"

[ladder]
grace = "0%"
rungs = [{ strikes = 1, log = true, ban = "24h" }]
"#;

/// What was acknowledged in all rounds.
#[derive(Default)]
struct Acknowledged {
    /// The reasons of bans that a command said it added.
    by_hand: Vec<String>,
    /// The addresses that were told that they are banned.
    by_ladder: Vec<Ipv4Addr>,
}

#[tokio::test(flavor = "multi_thread")]
async fn no_ban_that_somebody_was_told_of_is_lost_when_the_server_is_killed() {
    let claim = Claim::of("no ban that was acknowledged is lost when the server is killed");
    let (folder, rounds) = (Folder::new(), size(10, 100));
    let data = folder.path().join("data");
    let application = Application::plain().await;
    let (mut dice, mut all) = (Dice::new(9), Acknowledged::default());
    let addresses = Arc::new(AtomicU32::new(Ipv4Addr::new(127, 1, 0, 1).into()));
    for round in 0..rounds {
        let server = start(&data, application.address);
        if round > 0 {
            check(&server, &data, &all, &mut dice).await;
        }
        let after = 1 + usize::try_from(dice.roll(20)).unwrap();
        let (by_hand, by_ladder) = loaded(server, (&data, round), after, &addresses).await;
        all.by_hand.extend(by_hand);
        all.by_ladder.extend(by_ladder);
    }
    let server = start(&data, application.address);
    check(&server, &data, &all, &mut dice).await;
    for address in &all.by_ladder {
        assert!(is_banned(server.gateway, *address).await, "{address} was told that it is banned");
    }
    let acknowledged = all.by_hand.len() + all.by_ladder.len();
    assert!(all.by_hand.len() >= rounds && all.by_ladder.len() >= rounds, "hardly anything was acknowledged");
    claim.show(
        "server-kill",
        &format!("{rounds} kills, {acknowledged} acknowledged, 0 lost"),
        "0 lost",
        true,
    );
}

fn start(data: &Path, upstream: SocketAddr) -> Server {
    let upstream = format!("http://{upstream}");
    Server::with(POLICY, &["--upstream", &upstream, "--data-dir", data.to_str().unwrap()], &[])
}

/// Lets clients and an operator get so many bans acknowledged, kills the server, and gives all that was.
async fn loaded(
    mut server: Server,
    (data, round): (&Path, usize),
    after: usize,
    addresses: &Arc<AtomicU32>,
) -> (Vec<String>, Vec<Ipv4Addr>) {
    let (over, told): (Arc<AtomicBool>, Arc<AtomicUsize>) = Default::default();
    let gateway = server.gateway;
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (over, told, addresses) = (Arc::clone(&over), Arc::clone(&told), Arc::clone(addresses));
            tokio::spawn(async move {
                let mut banned = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let address = Ipv4Addr::from(addresses.fetch_add(1, Ordering::Relaxed));
                    if provoke(gateway, address).await {
                        banned.push(address);
                        told.fetch_add(1, Ordering::Relaxed);
                    }
                }
                banned
            })
        })
        .collect();
    let (data, by) = (data.to_owned(), Arc::clone(&over));
    let added = Arc::new(AtomicUsize::new(0));
    let done = Arc::clone(&added);
    let operator = tokio::task::spawn_blocking(move || {
        let mut reasons = Vec::new();
        while !by.load(Ordering::Relaxed) {
            let reason = format!("round {round} number {}", reasons.len());
            let address = format!("198.18.{round}.{}", reasons.len() % 250);
            add_ban(&data, &address, &reason);
            reasons.push(reason);
            done.store(reasons.len(), Ordering::Relaxed);
        }
        reasons
    });
    let enough = || told.load(Ordering::Relaxed) >= after && added.load(Ordering::Relaxed) > 0;
    eventually("bans are acknowledged", enough).await;
    server.signal("KILL");
    assert!(!server.ends().success());
    over.store(true, Ordering::Relaxed);
    let mut by_ladder = Vec::new();
    for client in clients {
        by_ladder.extend(client.await.unwrap());
    }
    (operator.await.unwrap(), by_ladder)
}

/// Asks from `address` once and once too often; true if it was told that this has led to a ban.
async fn provoke(gateway: SocketAddr, address: Ipv4Addr) -> bool {
    let client = Client::from(gateway, address.octets());
    for _ in 0..3 {
        match client.try_send(client.request("GET", "/", &[], "")).await {
            Ok(answer) if answer.header("x-ratelimit-banned") == "true" => return true,
            Ok(_) => {}
            // Killed in the middle of it.
            Err(_) => return false,
        }
    }
    panic!("{address} was over its limit and is not banned");
}

async fn is_banned(gateway: SocketAddr, address: Ipv4Addr) -> bool {
    Client::from(gateway, address.octets()).get("/").await.header("x-ratelimit-banned") == "true"
}

fn add_ban(data: &Path, address: &str, reason: &str) {
    let arguments = ["bans", "add", "--address", address, "--for", "24h", "--reason", reason, "--data-dir"];
    let output = Command::new(env!("CARGO_BIN_EXE_threshold")).args(arguments).arg(data).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Everything is there: the bans by hand in the list, and those of clients, of whom some are asked for.
async fn check(server: &Server, data: &Path, all: &Acknowledged, dice: &mut Dice) {
    let listed = Command::new(env!("CARGO_BIN_EXE_threshold"))
        .args(["bans", "list", "--json", "--data-dir"])
        .arg(data)
        .output()
        .unwrap();
    let listed: Json = serde_json::from_slice(&listed.stdout).unwrap();
    let listed = listed.as_array().unwrap();
    for reason in &all.by_hand {
        assert!(listed.iter().any(|ban| ban["reason"] == reason.as_str()), "{reason:?} is lost");
    }
    let count = all.by_hand.len() + all.by_ladder.len();
    assert!(listed.len() >= count, "{} of at least {count} are left", listed.len());
    for _ in 0..5 {
        let chosen = usize::try_from(dice.roll(all.by_ladder.len() as u64)).unwrap();
        let address = all.by_ladder[chosen];
        assert!(is_banned(server.gateway, address).await, "{address} was told that it is banned");
    }
}
