//! The real servers that tests start: they answer, they come back, and nothing of them is left behind.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use threshold_testkit::servers::{
    self, Postgres, PostgresOptions, Redis, RedisCluster, RedisOptions, Sentinel,
};

fn listens(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn lives(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

/// Where a process works: a server's own folder.
fn folder_of(process: u32) -> PathBuf {
    std::fs::read_link(format!("/proc/{process}/cwd")).expect("it runs")
}

fn comes_true(mut what: impl FnMut() -> bool) -> bool {
    (0..600).any(|_| {
        what() || {
            std::thread::sleep(Duration::from_millis(50));
            false
        }
    })
}

#[test]
fn a_redis_answers_and_is_gone_when_dropped() {
    let redis = Redis::start();
    assert_eq!(redis.cli(&["set", "a", "1"]).unwrap(), "OK\n");
    let (process, port, folder) = (redis.process_id(), redis.port(), folder_of(redis.process_id()));
    assert!(lives(process) && listens(port) && folder.exists());
    drop(redis);
    assert!(!lives(process) && !listens(port) && !folder.exists());
}

#[test]
fn a_durable_redis_comes_back_with_what_it_answered() {
    let mut redis = Redis::durable();
    for turn in 0..3 {
        redis.cli(&["rpush", "turns", &turn.to_string()]).unwrap();
        redis.kill();
        assert!(redis.cli(&["ping"]).is_err());
        redis.start_again();
    }
    assert_eq!(redis.cli(&["lrange", "turns", "0", "-1"]).unwrap(), "0\n1\n2\n");
    redis.start_again();
    assert_eq!(redis.cli(&["llen", "turns"]).unwrap(), "3\n");
}

#[test]
fn a_redis_with_tls_and_a_user_lets_nobody_else_in() {
    let redis = RedisOptions::new().tls().user("alice", "secret", "~a* +get +ping").start();
    assert!(redis.url().starts_with("rediss://alice:secret@127.0.0.1:"), "{}", redis.url());
    let ask = |words: &[&str]| {
        let authority = redis.certificates().authority();
        let port = redis.port().to_string();
        let mut command = Command::new("redis-cli");
        command.args(["-p", &port, "--tls", "--cacert"]).arg(authority).arg("--no-auth-warning").args(words);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(ask(&["--user", "alice", "--pass", "secret", "ping"]), "PONG\n");
    assert!(ask(&["--user", "alice", "--pass", "secret", "get", "b"]).contains("NOPERM"));
    assert!(ask(&["ping"]).contains("NOAUTH"));
}

#[test]
fn a_cluster_is_whole_and_gone_when_dropped() {
    let mut cluster = RedisCluster::start();
    assert_eq!(cluster.url().matches(',').count(), 5);
    let processes: Vec<u32> = cluster.nodes().iter().map(Redis::process_id).collect();
    let masters = cluster
        .nodes()
        .iter()
        .filter(|node| node.cli(&["info", "replication"]).unwrap().contains("role:master"));
    assert_eq!(masters.count(), 3);
    drop(cluster);
    assert!(processes.into_iter().all(|process| !lives(process)));
}

#[test]
fn sentinels_put_the_replica_in_the_place_of_a_killed_master() {
    let mut watched = Sentinel::start(3);
    assert_eq!(watched.master_port(), watched.master().port());
    watched.master().kill();
    let replica = watched.replica().port();
    assert!(comes_true(|| watched.master_port() == replica), "nobody took over");
    assert!(comes_true(|| watched.replica().cli(&["set", "a", "1"]).is_ok_and(|said| said == "OK\n")));
}

#[test]
fn a_postgres_answers_comes_back_and_is_gone_when_dropped() {
    let mut postgres = Postgres::start();
    postgres.sql("create table turns (turn int)");
    for turn in 0..2 {
        postgres.sql(&format!("insert into turns values ({turn})"));
        postgres.kill();
        assert!(!listens(postgres.port()));
        postgres.start_again();
    }
    postgres.stop();
    postgres.start_again();
    assert_eq!(postgres.sql("select turn from turns order by turn"), "0\n1\n");
    let (process, port, folder) = (postgres.process_id(), postgres.port(), folder_of(postgres.process_id()));
    drop(postgres);
    // Its data is one folder below its own.
    assert!(!lives(process) && !listens(port) && !folder.parent().unwrap().exists());
}

#[test]
fn a_postgres_with_tls_and_settings_has_them() {
    let postgres = PostgresOptions::new().tls().set("max_connections", "7").start();
    assert_eq!(postgres.sql("show max_connections"), "7\n");
    assert_eq!(postgres.sql("select ssl from pg_stat_ssl where pid = pg_backend_pid()"), "t\n");
    assert!(postgres.certificates().authority().is_file());
}

#[test]
fn a_fresh_database_is_empty_and_dropped_afterwards() {
    let database = servers::fresh_database();
    assert!(database.url().starts_with(servers::postgres().rsplit_once('/').unwrap().0));
    let name = database.sql("select current_database()");
    let other = servers::fresh_database();
    let count = format!("select count(*) from pg_database where datname = '{}'", name.trim());
    assert_eq!(other.sql(&count), "1\n");
    drop(database);
    assert_eq!(other.sql(&count), "0\n");
}

/// The servers of a run, as `cargo xtask test` starts them; the numbers of the ports they said.
fn run_servers() -> (Child, Vec<u16>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_test-servers"));
    let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(run.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let lines: Vec<String> = lines.take_while(|line| line != "ready").collect();
    let names: Vec<&str> = lines.iter().map(|line| line.split('=').next().expect("a name")).collect();
    let wanted = ["POSTGRES", "REDIS", "REDIS_DURABLE", "REDIS_CLUSTER", "WORKERD"];
    let wanted = wanted.map(|name| format!("THRESHOLD_TEST_{name}"));
    assert_eq!(names, wanted);
    let port = |line: &String| {
        let port = line.rsplit(':').next().and_then(|rest| rest.split('/').next());
        port.and_then(|port| port.parse().ok()).expect("a URL with a port")
    };
    (run, lines.iter().map(port).collect())
}

#[test]
fn the_servers_of_a_run_go_when_its_input_ends() {
    let (mut run, ports) = run_servers();
    assert!(ports.iter().all(|port| listens(*port)));
    drop(run.stdin.take());
    assert!(run.wait().unwrap().success());
    assert!(!ports.iter().any(|port| listens(*port)));
}

#[test]
fn no_server_outlives_a_killed_process() {
    let (mut run, ports) = run_servers();
    let shells = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.id())).unwrap();
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(comes_true(|| !ports.iter().any(|port| listens(*port))), "a server goes on");
    let shells: Vec<u32> = shells.split_whitespace().map(|shell| shell.parse().unwrap()).collect();
    assert!(comes_true(|| !shells.iter().any(|shell| lives(*shell))), "a shell goes on");
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap().map(|entry| entry.unwrap().file_name());
    let own = format!("threshold-{}-", run.id());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with(&own)).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
