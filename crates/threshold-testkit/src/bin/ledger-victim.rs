//! A process that writes to a SQLite ledger, for tests to kill and to break its disk.
//!
//! `ledger-victim load PATH NAME` writes as fast as it can, under subjects called after NAME. `ledger-victim obey PATH`
//! does what it reads line by line: `open`, `write`, `read`, `sweep`, `close`.
//!
//! A line about something written is printed only after the ledger has acknowledged it.

use std::io::{BufRead as _, Write as _};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use threshold::engine::{Engine, Extras, Reason, Rules, Secrets};
use threshold::identify::Facts;
use threshold::policy::Policy;
use threshold_core::ledger::{
    Change, Entry, Evidence, Override, Query, Retention, SanctionKind, Strike, Written,
};
use threshold_core::standing::{Ladder, Looks, Violation};
use threshold_core::{Ledger, Secret, Span, StoreError, Subject, SubjectId, SubjectKind, Timestamp};
use threshold_store::{MemoryStore, SqliteLedger};
use threshold_testkit::strategies::start;

/// How many write at the same time.
const WRITERS: usize = 4;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["load", path, name] => load(Path::new(path), name).await,
        ["obey", path] => obey(Path::new(path)).await,
        _ => panic!("usage: ledger-victim load PATH NAME | obey PATH"),
    }
}

/// One whole line at once, so that a reader never sees a part of one.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("somebody listens");
}

fn open(path: &Path) -> Result<SqliteLedger, StoreError> {
    SqliteLedger::open(path, &secret(), None)
}

fn secret() -> Secret {
    Secret::new([7; 16])
}

async fn load(path: &Path, name: &str) {
    let ledger = open(path).expect("the ledger opens");
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (ledger, name) = (ledger.clone(), format!("{name}-{writer}"));
        writers.spawn(async move {
            for turn in 0_u64.. {
                let said = write(&ledger, &name, turn).await.expect("the ledger writes");
                said.iter().for_each(|line| say(line));
            }
        });
    }
    writers.spawn(decide(ledger, format!("{name}-engine")));
    writers.join_all().await;
}

/// Decides about users who go over a limit whose first strike is a ban; says who was told to be banned.
async fn decide(ledger: SqliteLedger, name: String) {
    let policy = "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\nuser = { header = \"x-user\" }\n\
                  [[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"1/min\"\n\
                  [ladder]\nrungs = [{ strikes = 1, ban = \"1d\" }]\n";
    let policy = Policy::read("victim.toml", policy, &|_| None).expect("a policy");
    let secrets = Secrets::new(secret());
    let rules = Rules::new(&policy, &secrets, &|_| None).expect("rules");
    let engine = Engine::with_ledger((rules, secrets), MemoryStore::new(), MemoryStore::new(), ledger);
    for turn in 0_u64.. {
        let user = format!("{name}-{turn}");
        let headers = [("x-user", user.as_str())];
        let peer = Ipv4Addr::LOCALHOST.into();
        let facts = Facts { peer, method: "GET", host: None, path: "/", bytes: None, headers: &headers };
        for _ in 0..2 {
            let decision = engine.decide(&facts, Extras::default()).await.expect("memory answers");
            if let Some(Reason::Banned { until }) = decision.refusal().map(|refusal| refusal.reason) {
                let subject = engine.subjects().user(None, &user);
                say(&format!("sanction {subject} ban {}", until.as_micros()));
            }
        }
    }
}

/// Five strikes for one user, then an operator's ban of an address, then an override; says what was acknowledged.
async fn write(ledger: &SqliteLedger, name: &str, turn: u64) -> Result<Vec<String>, StoreError> {
    let (round, step) = (turn / 7, turn % 7);
    let id = |kind| secret().subject_key().id(kind, &Subject::new(format!("{name}-{round}")));
    let at = start().plus(Span::from_secs(60 * turn));
    let operator = |change| Entry::Operator { by: "alice".to_owned(), at, change };
    let (entry, about) = match step {
        0..5 => {
            let user = id(SubjectKind::User);
            (strike(user, at), format!("strike {user} {}", at.as_micros()))
        }
        5 => {
            let (subject, kind, until) = (id(SubjectKind::Address), SanctionKind::Ban, at.plus(Span::DAY));
            let change = Change::Impose { subject, kind, until, reason: "scraping".to_owned() };
            (operator(change), format!("sanction {subject} ban {}", until.as_micros()))
        }
        _ => {
            let set = overriding(&format!("{name}-{round}"));
            let about = format!("override {} {}", set.id, set.burst_allowance);
            (operator(Change::SetOverride(set)), about)
        }
    };
    let written = ledger.write(&[entry]).await?;
    let mut said = vec![about];
    if let [Written::Struck(struck)] = &written[..] {
        said.push(format!("strikes {} {}", struck.standing.subject, struck.standing.strikes.parts().0));
        said.extend(struck.imposed.iter().map(|sanction| {
            let (kind, until) = (sanction.kind.name(), sanction.until.as_micros());
            format!("sanction {} {kind} {until}", sanction.subject)
        }));
    }
    Ok(said)
}

fn strike(subject: SubjectId, at: Timestamp) -> Entry {
    let evidence = Evidence {
        kind: Violation::RateExceeded,
        count: 101,
        allowed: 100,
        looks: Looks::default(),
        fingerprint: None,
        user_agent: None,
        details: String::new(),
    };
    let (limit, ladder) = ("logins".to_owned(), Some(Arc::new(Ladder::ready_made())));
    let (before, window, reputation) = (None, Span::MINUTE, None);
    Entry::Strike(Strike { subject, before, limit, window, at, evidence, ladder, reputation })
}

fn overriding(id: &str) -> Override {
    Override {
        id: id.to_owned(),
        limit: "logins".to_owned(),
        subject: None,
        rate: "5 per 15min burst 7".parse().expect("a rate"),
        burst_allowance: u64::MAX,
        enabled: true,
        priority: 0,
        expires: None,
    }
}

/// Each line is answered by the lines about what was written, then by `ok` or by `failed` and why.
async fn obey(path: &Path) {
    let (mut ledger, mut turn) = (None, 0);
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("orders are text");
        let done = match (line.as_str(), &ledger) {
            ("open", _) => open(path).map(|opened| {
                ledger = Some(opened);
                Vec::new()
            }),
            (_, None) => panic!("{line:?} before the ledger is open"),
            ("write", Some(ledger)) => {
                turn += 1;
                write(ledger, "ordered", turn - 1).await
            }
            ("read", Some(ledger)) => ledger.read(&Query::Changes { after: 0 }).await.map(|_| Vec::new()),
            ("sweep", Some(ledger)) => ledger.sweep(start(), &Retention::default()).await.map(|_| Vec::new()),
            ("close", Some(ledger)) => ledger.close().await.map(|()| Vec::new()),
            (order, _) => panic!("{order:?} is no order"),
        };
        match done {
            Ok(said) => {
                said.iter().for_each(|line| say(line));
                say("ok");
            }
            Err(error) => say(&format!("failed {:?} {error}", error.kind())),
        }
    }
}
