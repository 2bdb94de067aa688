//! The document's tables and views, each with the numbers that the clients themselves have counted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use threshold_testkit::servers;
use tokio::task::JoinSet;

use crate::site::{Client, POLICY, Shared, Site, sum};

const SQLITE: &str = include_str!("../../sql/sqlite.sql");
const POSTGRES: &str = include_str!("../../sql/postgres.sql");
const DUCKDB: &str = include_str!("../../sql/duckdb.sql");

/// Who asks for what, how often, and how much of it passes. Each client goes one after the other.
const ASKED: [(&str, &str, &str, &str, usize, usize); 9] = [
    ("203.0.113.1", "uploads", "POST", "/api/upload", 25, 20),
    ("203.0.113.2", "uploads", "POST", "/api/upload", 5, 5),
    ("203.0.113.2", "conversions", "POST", "/api/convert", 3, 3),
    ("203.0.113.2", "downloads", "GET", "/api/download/1", 2, 2),
    ("203.0.113.2", "", "GET", "/", 4, 4),
    ("203.0.113.3", "validations", "POST", "/api/validate", 46, 30),
    ("203.0.113.3", "conversions", "POST", "/api/convert", 12, 10),
    ("203.0.113.4", "uploads", "POST", "/api/upload", 70, 20),
    ("203.0.113.5", "uploads", "POST", "/api/upload", 1, 1),
];

/// What was violated: the kind, the limit, and how many requests there were when it became that.
const VIOLATED: [(&str, &str, u64); 4] = [
    ("RATE_EXCEEDED", "uploads", 21),
    ("SUSPICIOUS_PATTERN", "validations", 45),
    ("RATE_EXCEEDED", "conversions", 11),
    ("BURST_ATTACK", "uploads", 60),
];

/// One request, as its client knows it: in milliseconds since 1970, as far as it can tell.
#[derive(Clone, Copy)]
struct Known {
    address: &'static str,
    limit: &'static str,
    sent: u64,
    answered: u64,
}

/// How far the store's clock may be from the client's, in milliseconds: it is the same machine's.
const APART: u64 = 100;

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap()
}

async fn ask(client: Client, address: &'static str) -> Vec<Known> {
    let mut log = Vec::new();
    for (_, limit, method, path, requests, passes) in ASKED.into_iter().filter(|asked| asked.0 == address) {
        let mut passed = 0;
        for _ in 0..requests {
            let sent = now() - APART;
            passed += usize::from(client.ask(method, path, address).await != 429);
            log.push(Known { address, limit, sent, answered: now() + APART });
        }
        assert_eq!(passed, passes, "{address} {limit}");
    }
    log
}

async fn ask_all(site: &Site) -> Vec<Known> {
    let addresses: BTreeSet<&str> = ASKED.iter().map(|asked| asked.0).collect();
    let mut asking = JoinSet::new();
    for address in addresses {
        asking.spawn(ask(site.client(), address));
    }
    asking.join_all().await.concat()
}

/// The clients by their hashes.
fn hashes(site: &Site, place: &[&str]) -> BTreeMap<String, &'static str> {
    let addresses: BTreeSet<&str> = ASKED.iter().map(|asked| asked.0).collect();
    let hash = |address: &'static str| {
        let found = site.analytics(&["clients", "--client", address], place);
        assert_eq!(found.len(), 1, "{address}: {found:?}");
        (found[0]["client_id"].as_str().unwrap().to_owned(), address)
    };
    addresses.into_iter().map(hash).collect()
}

/// When a window began, and when it ended, in milliseconds.
fn window(row: &Value) -> (u64, u64) {
    let text = row["window_start"].as_str().unwrap();
    let number = |from: usize, to: usize| text[from..to].parse::<u64>().unwrap();
    // The day is today or yesterday: only the time of day is needed to compare.
    let of_day = (number(11, 13) * 60 + number(14, 16)) * 60 + number(17, 19);
    (of_day * 1_000, (of_day + row["window_seconds"].as_u64().unwrap()) * 1_000)
}

/// How many of `log` were in that window for sure, and how many may have been.
fn within(log: &[Known], (begin, end): (u64, u64)) -> (u64, u64) {
    const DAY: u64 = 86_400_000;
    let inside = |at: u64| (begin..end).contains(&(at % DAY));
    let sure = log.iter().filter(|known| inside(known.sent) && inside(known.answered)).count();
    let maybe = log.iter().filter(|known| inside(known.sent) || inside(known.answered)).count();
    (sure as u64, maybe as u64)
}

/// `rate_limits`: every window of every client and limit.
fn requests_are_right(site: &Site, place: &[&str], log: &[Known]) {
    let hashes = hashes(site, place);
    let rows = site.analytics(&["requests"], place);
    assert!(!rows.is_empty());
    for row in &rows {
        let address = hashes[row["client_id"].as_str().unwrap()];
        let endpoint = row["endpoint"].as_str().unwrap();
        let own = log.iter().filter(|known| {
            known.address == address && (endpoint == "suspicious" || known.limit == endpoint)
        });
        let own: Vec<Known> = own.copied().collect();
        let (sure, maybe) = within(&own, window(row));
        let counted = row["request_count"].as_u64().unwrap();
        assert!(sure <= counted && counted <= maybe, "{sure} <= {counted} <= {maybe}: {row}");
    }
    let admitted: usize = ASKED.iter().map(|asked| asked.5).sum();
    let met = |limit: &'static str| move |row: &&Value| row["endpoint"] == limit;
    let all: Vec<Value> = rows.iter().filter(met("suspicious")).cloned().collect();
    assert_eq!(sum(&all, "request_count"), log.len() as u64);
    assert_eq!(sum(&all, "request_count") - sum(&all, "refused"), admitted as u64);
}

/// `rate_limit_analytics`, with exactly its columns.
fn rates_are_right(site: &Site, place: &[&str], log: &[Known]) {
    let rates = site.analytics(&["rates"], place);
    let rows = site.analytics(&["requests"], place);
    let columns = [
        "avg_requests_per_window",
        "date",
        "endpoint",
        "max_requests_per_window",
        "total_requests",
        "unique_clients",
    ];
    for limit in ["uploads", "conversions", "validations", "downloads", "suspicious"] {
        let of: Vec<Value> = rates.iter().filter(|row| row["endpoint"] == limit).cloned().collect();
        assert!(of.iter().all(|row| row.as_object().unwrap().keys().eq(columns)), "{of:?}");
        let own: Vec<Known> =
            log.iter().filter(|known| limit == "suspicious" || known.limit == limit).copied().collect();
        assert_eq!(sum(&of, "total_requests"), own.len() as u64, "{limit}");
        let clients: BTreeSet<&str> = own.iter().map(|known| known.address).collect();
        // A day ends only for tests at midnight.
        if let [day] = &of[..] {
            assert_eq!(day["unique_clients"], clients.len(), "{limit}");
            let counts = || rows.iter().filter(|row| row["endpoint"] == limit);
            let counts: Vec<u64> = counts().map(|row| row["request_count"].as_u64().unwrap()).collect();
            assert_eq!(day["max_requests_per_window"].as_u64(), counts.iter().copied().max(), "{limit}");
            let average = own.len() as f64 / counts.len() as f64;
            assert_eq!(day["avg_requests_per_window"].as_f64(), Some(average), "{limit}");
        }
    }
    let one = site.analytics(&["rates", "--client", "203.0.113.4", "--limit", "uploads"], place);
    assert_eq!(sum(&one, "total_requests"), 70);
}

/// `rate_limit_violations` and `violation_analytics`.
fn violations_are_right(site: &Site, place: &[&str]) {
    let hashes = hashes(site, place);
    let listed = site.analytics(&["violations", "--list"], place);
    let told: BTreeSet<_> = listed
        .iter()
        .map(|row| {
            let text = |name: &str| row[name].as_str().unwrap().to_owned();
            (hashes[&text("client_id")], text("violation_type"), text("endpoint"))
        })
        .collect();
    let wanted = [
        ("203.0.113.1", "RATE_EXCEEDED", "uploads"),
        ("203.0.113.3", "RATE_EXCEEDED", "conversions"),
        ("203.0.113.3", "SUSPICIOUS_PATTERN", "validations"),
        ("203.0.113.4", "BURST_ATTACK", "uploads"),
    ];
    let wanted = wanted.map(|(address, kind, limit)| (address, kind.to_owned(), limit.to_owned()));
    assert_eq!(told, BTreeSet::from(wanted));
    for row in &listed {
        assert_eq!(row["created_at"], row["timestamp"], "{row}");
        let (allowed, seconds) = match row["endpoint"].as_str().unwrap() {
            "uploads" => (20, 300),
            "validations" => (30, 300),
            _ => (10, 3_600),
        };
        assert_eq!(
            (&row["limit_exceeded"], &row["window_size"]),
            (&json!(allowed), &json!(seconds)),
            "{row}"
        );
    }
    let counted = site.analytics(&["violations"], place);
    assert_eq!(sum(&counted, "violation_count"), 4);
    for (kind, limit, count) in VIOLATED {
        let of =
            counted.iter().find(|row| row["violation_type"] == kind && row["endpoint"] == limit).unwrap();
        assert_eq!((&of["violation_count"], &of["unique_violators"]), (&json!(1), &json!(1)), "{of}");
        assert_eq!(of["avg_count_at_violation"].as_f64(), Some(count as f64), "{of}");
    }
}

/// `client_reputation`, and the third view, which the document only counts.
fn clients_are_right(site: &Site, place: &[&str], log: &[Known]) {
    let hashes = hashes(site, place);
    let clients = site.analytics(&["clients"], place);
    assert_eq!(clients.len(), hashes.len(), "{clients:?}");
    for row in &clients {
        let address = hashes[row["client_id"].as_str().unwrap()];
        let own = log.iter().filter(|known| known.address == address).count();
        let (violations, score, risk) = match address {
            "203.0.113.3" => (2, 50, "MEDIUM"),
            "203.0.113.1" | "203.0.113.4" => (1, 90, "LOW"),
            _ => (0, 100, "LOW"),
        };
        assert_eq!(row["total_requests"], own, "{address}");
        assert_eq!((&row["violation_count"], &row["reputation_score"]), (&json!(violations), &json!(score)));
        assert_eq!(row["risk_level"], risk, "{address}");
        assert_eq!(row["last_violation"].is_string(), violations > 0, "{row}");
        let time = |name: &str| row[name].as_str().map(str::to_owned);
        assert!(time("first_seen").is_some() && time("first_seen") <= time("last_request"), "{row}");
        assert_eq!(time("updated_at"), time("last_request").max(time("last_violation")), "{row}");
    }
}

/// `rate_limit_config`: what the document updates in a table is an override.
fn config_is_right(site: &Site, place: &[&str]) {
    let set =
        ["overrides", "add", "careful", "--limit", "uploads", "--rate", "5 per 5min", "--priority", "10"];
    let whom = ["--address", "203.0.113.5", "--config", "policy.toml"];
    let ran = site.run(&[&set[..], &whom, place].concat());
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let everyone = ["overrides", "add", "fewer", "--limit", "downloads", "--rate", "9/day"];
    let ran = site.run(&[&everyone[..], &["--config", "policy.toml"], place].concat());
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let ran = site.run(&[&["overrides", "list", "--json"], place].concat());
    let listed: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&listed[0]["limit"], &listed[0]["rate"]), (&json!("uploads"), &json!("5 per 5min")));
}

async fn tables_are_right(site: &Site, place: &[&str]) {
    let log = ask_all(site).await;
    site.counted(place, log.len() as u64).await;
    requests_are_right(site, place, &log);
    rates_are_right(site, place, &log);
    violations_are_right(site, place);
    clients_are_right(site, place, &log);
    config_is_right(site, place);
    no_address_is_in_the_archive(&site.in_archive("analytics"));
}

fn no_address_is_in_the_archive(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            no_address_is_in_the_archive(&path);
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(9).any(|some| some == b"203.0.113"), "{}", path.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_table_and_view_is_answered_on_sqlite() {
    let site = Site::start(POLICY, &[]);
    tables_are_right(&site, &["--data-dir", "fitbit2garmin-data"]).await;
    let ledger = rusqlite::Connection::open(site.file("fitbit2garmin-data/ledger.sqlite")).unwrap();
    ledger.execute_batch(SQLITE).unwrap();
    let row = |sql: &str| -> Vec<String> {
        let mut statement = ledger.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    sql_is_right("", row);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_table_and_view_is_answered_on_postgres_with_redis_as_cache() {
    let database = servers::fresh_database();
    let shared = Shared::new(&database);
    let site = Site::start(POLICY, &shared.arguments());
    tables_are_right(&site, &shared.place()).await;
    database.sql(POSTGRES);
    sql_is_right("fitbit2garmin.", |sql| database.sql(sql).lines().map(str::to_owned).collect());
}

/// The archive's tables and views by SQL, for whoever reads Parquet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_archives_tables_and_views_are_answered_by_duckdb() {
    let (site, place) = (Site::start(POLICY, &[]), ["--data-dir", "fitbit2garmin-data"]);
    let log = ask_all(&site).await;
    site.counted(&place, log.len() as u64).await;
    let archive = site.in_archive("").display().to_string();
    let views = DUCKDB.replace("fitbit2garmin-data/archive/", &archive);
    assert_ne!(views, DUCKDB, "the archive is where the views look for it");
    let rows = |sql: &str| duckdb(&site, &views, sql);
    let told = |rows: Vec<Value>, names: &[&str]| -> BTreeSet<String> {
        let text = |row: &Value| names.iter().map(|name| row[name].to_string() + " ").collect::<String>();
        rows.iter().map(text).collect()
    };
    for (view, command, names) in [
        ("rate_limits", "requests", &["client_id", "endpoint", "request_count", "refused"][..]),
        (
            "rate_limit_analytics",
            "rates",
            &[
                "endpoint",
                "date",
                "total_requests",
                "unique_clients",
                "avg_requests_per_window",
                "max_requests_per_window",
            ],
        ),
        ("client_requests", "clients", &["client_id", "total_requests"]),
    ] {
        let ours = told(site.analytics(&[command], &place), names);
        assert!(!ours.is_empty());
        assert_eq!(told(rows(&format!("SELECT * FROM {view}")), names), ours, "{view}");
    }
    let windows = rows("SELECT DISTINCT endpoint, window_size FROM rate_limits WHERE endpoint = 'uploads'");
    assert_eq!(windows, [json!({ "endpoint": "uploads", "window_size": 300 })]);
    let times = rows("SELECT count(*) AS wrong FROM rate_limits WHERE NOT created_at <= updated_at");
    assert_eq!(times, [json!({ "wrong": 0 })]);
}

/// What DuckDB answers, after `views` were made.
fn duckdb(site: &Site, views: &str, sql: &str) -> Vec<Value> {
    // As JSON from DuckDB itself: for times, Python would need another package.
    const SCRIPT: &str = "import duckdb, sys\n\
        db = duckdb.connect()\n\
        db.execute(sys.argv[1])\n\
        rows = db.execute('SELECT to_json(t)::VARCHAR FROM (' + sys.argv[2] + ') AS t').fetchall()\n\
        print('[' + ','.join(row[0] for row in rows) + ']')";
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/archive/bin/python");
    assert!(python.exists(), "DuckDB is missing; `cargo xtask test` installs it");
    let mut command = Command::new(python);
    let ran = command.current_dir(site.file("")).args(["-c", SCRIPT, views, sql]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice::<Value>(&ran.stdout).unwrap().as_array().unwrap().clone()
}

/// The same by SQL, from whatever answers each query with one text for each row.
fn sql_is_right(schema: &str, rows: impl Fn(&str) -> Vec<String>) {
    let listed = rows(&format!(
        "SELECT violation_type || ' ' || endpoint || ' ' || violation_count || ' ' || unique_violators || ' ' || \
         CAST(avg_count_at_violation AS INTEGER) FROM {schema}violation_analytics ORDER BY 1"
    ));
    let mut wanted = VIOLATED.map(|(kind, limit, count)| format!("{kind} {limit} 1 1 {count}"));
    wanted.sort();
    assert_eq!(listed, wanted);
    let listed = rows(&format!(
        "SELECT reputation_score || ' ' || risk_level || ' ' || violation_count FROM {schema}client_reputation ORDER BY 1"
    ));
    assert_eq!(listed, ["50 MEDIUM 2", "90 LOW 1", "90 LOW 1"]);
    let listed = rows(&format!(
        "SELECT endpoint || ' ' || max_requests || ' ' || window_size || ' ' || rate || ' ' || priority \
         FROM {schema}rate_limit_config ORDER BY priority DESC"
    ));
    assert_eq!(listed, ["uploads 5 300 5 per 5min 10", "downloads 9 86400 9/day 0"]);
    let listed = rows(&format!(
        "SELECT count(DISTINCT client_id) || ' ' || min(limit_exceeded) || ' ' || max(window_size) \
         FROM {schema}rate_limit_violations"
    ));
    assert_eq!(listed, ["3 10 3600"]);
}
