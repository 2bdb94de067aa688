//! The commands that clients send beside those that decide.

use super::common::{Reply, Wire, ok, serve};

#[test]
fn everybody_is_answered() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    assert_eq!(wire.ask("PING"), Reply::Simple("PONG".to_owned()));
    assert_eq!(wire.ask("ping hello").text(), "hello");
    assert_eq!(wire.ask("ECHO hello").text(), "hello");
    assert_eq!(wire.ask("SELECT 0"), ok());
    assert!(wire.ask("SELECT 1").error().starts_with("ERR DB index is out of range"));
    assert!(wire.ask("ECHO").error().contains("write ECHO message"));
    assert!(wire.ask("PING a b").error().contains("write PING [message]"));
    assert!(wire.ask("GET k").error().starts_with("ERR unknown command 'GET'"));
    assert!(wire.ask(&"A".repeat(100)).error().contains("AAA...'"));
    assert!(wire.ask("AUTH key").error().contains("without any keys configured"));
    assert!(wire.ask("INFO").text().contains("redis_version:7"));
    assert_eq!(wire.ask("QUIT"), ok());
    wire.ends();
}

#[test]
fn a_client_says_who_it_is() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    assert_eq!(wire.ask("CLIENT GETNAME"), Reply::Null);
    assert_eq!(wire.ask("CLIENT SETNAME worker-7"), ok());
    assert_eq!(wire.ask("client getname").text(), "worker-7");
    assert_eq!(wire.ask("CLIENT SETINFO LIB-NAME redis-py"), ok());
    assert_eq!(wire.ask("CLIENT SETINFO lib-ver 8.1.0"), ok());
    assert!(wire.ask("CLIENT SETINFO LIB-WHAT 1").error().contains("LIB-WHAT"));
    assert_eq!(wire.ask("CLIENT NO-EVICT on"), ok());
    assert_eq!(wire.ask("CLIENT NO-TOUCH off"), ok());
    assert_eq!(wire.ask("CLIENT REPLY ON"), ok());
    let Reply::Integer(id) = wire.ask("CLIENT ID") else { panic!("no number") };
    for line in ["CLIENT INFO", "CLIENT LIST"] {
        let said = wire.ask(line).text();
        assert!(said.starts_with(&format!("id={id} addr=127.0.0.1:")), "{said}");
        assert!(said.contains("name=worker-7") && said.contains("lib-name=redis-py lib-ver=8.1.0"), "{said}");
    }
    assert!(wire.ask("CLIENT SETNAME a\nb").error().contains("cannot contain spaces"));
    for line in ["CLIENT", "CLIENT KILL 1", "CLIENT SETNAME", "CLIENT REPLY OFF"] {
        assert!(wire.ask(line).error().starts_with("ERR unknown subcommand"), "{line}");
    }
    assert_eq!(wire.ask("RESET"), Reply::Simple("RESET".to_owned()));
    assert_eq!(wire.ask("CLIENT GETNAME"), Reply::Null);
}

#[test]
fn hello_chooses_the_version() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    let hello = wire.ask("HELLO");
    assert!(matches!(hello, Reply::Array(_)), "{hello:?}");
    assert_eq!((hello.get("server").text(), hello.get("proto")), ("threshold".to_owned(), Reply::Integer(2)));
    let hello = wire.ask("HELLO 3 SETNAME me");
    assert!(matches!(hello, Reply::Map(_)), "{hello:?}");
    assert_eq!((hello.get("proto"), hello.get("role").text()), (Reply::Integer(3), "master".to_owned()));
    assert_eq!(wire.ask("CLIENT GETNAME").text(), "me");
    assert!(wire.ask("HELLO 4").error().starts_with("NOPROTO"));
    assert!(wire.ask("HELLO three").error().starts_with("NOPROTO"));
    assert!(wire.ask("HELLO 2 WHAT").error().contains("'WHAT'"));
    assert!(wire.ask("HELLO 2 AUTH a b").error().contains("without any keys configured"));
    // What failed changed nothing.
    assert!(matches!(wire.ask("HELLO"), Reply::Map(_)));
    // The reply of redis-cell is a list in both.
    assert_eq!(wire.ask("CL.THROTTLE k 0 1 60").numbers()[0], 0);
    assert!(matches!(wire.ask("RESET"), Reply::Simple(_)));
    assert!(matches!(wire.ask("HELLO"), Reply::Array(_)), "RESET goes back to the older version");
}

#[test]
fn what_there_is_can_be_asked_for() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    let Reply::Array(all) = wire.ask("COMMAND") else { panic!("no list") };
    assert_eq!(wire.ask("COMMAND COUNT"), Reply::Integer(i64::try_from(all.len()).unwrap()));
    let Reply::Array(names) = wire.ask("COMMAND LIST") else { panic!("no list") };
    assert!(names.contains(&Reply::Bulk(b"cl.throttle".to_vec())));
    for one in &all {
        assert!(matches!(one, Reply::Array(fields) if fields.len() == 10), "as Redis 7 has it: {one:?}");
    }
    let Reply::Array(some) = wire.ask("COMMAND INFO CL.THROTTLE nothing") else { panic!("no list") };
    let Reply::Array(known) = &some[0] else { panic!("no entry") };
    assert_eq!(
        (known[0].text(), &known[1], &known[3]),
        ("cl.throttle".to_owned(), &Reply::Integer(-5), &Reply::Integer(1))
    );
    assert_eq!(some[1], Reply::Null);
    assert!(wire.ask("COMMAND DOCS throttle").get("throttle").get("summary").text().contains("throttlecrab"));
    assert!(wire.ask("COMMAND WHAT").error().contains("'WHAT'"));
    // Every command that is listed is one.
    for name in names {
        let name = name.text();
        if !["quit", "reset"].contains(&name.as_str()) {
            let reply = wire.ask(&name);
            assert!(
                !matches!(&reply, Reply::Error(text) if text.contains("unknown command")),
                "{name}: {reply:?}"
            );
        }
    }
    assert_eq!(wire.ask("CONFIG GET save").get("save").text(), "");
    assert_eq!(wire.ask("CONFIG GET appendonly save").get("appendonly").text(), "no");
    assert_eq!(wire.ask("CONFIG GET nothing"), Reply::Array(Vec::new()));
    assert!(wire.ask("CONFIG SET save 1").error().contains("only CONFIG GET"));
    assert!(wire.ask("CONFIG GET").error().contains("only CONFIG GET"));
    wire.ask("HELLO 3");
    assert!(matches!(wire.ask("CONFIG GET *"), Reply::Map(_)));
}
