//! Bytes as they come: lines, pipelines, pieces, and what is no command.

use super::common::{Reply, Wire, command, serve};
use crate::support::server::Server;

#[test]
fn lines_are_commands_too() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    wire.send("PING\r\n\r\nECHO \"two words\"\nECHO 'it\\'s \\n'\r\nCL.THROTTLE k 0 1 60\r\n");
    assert_eq!(wire.reply().text(), "PONG");
    assert_eq!(wire.reply().text(), "two words");
    assert_eq!(wire.reply().text(), "it's \\n");
    assert_eq!(wire.reply().numbers()[0], 0);
}

#[test]
fn replies_are_these_bytes() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    wire.send("CL.THROTTLE k 1 1 60\r\nTHROTTLE t 1 1 60\r\nCLIENT GETNAME\r\nHELLO 3\r\nCLIENT GETNAME\r\nPING\r\n");
    let expected = "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n*5\r\n:1\r\n:1\r\n:0\r\n:60\r\n:0\r\n$-1\r\n%7\r\n$6\r\nserver\r\n";
    assert_eq!(wire.raw(expected.len()), expected);
}

#[test]
fn commands_may_come_in_pieces_and_all_at_once() {
    let server = serve("");
    let commands = [
        command(&["ECHO", "one\r\ntwo"]),
        command(&["CL.THROTTLE", "pieces", "1000", "1", "60"]),
        b"PING \"a b\"\r\n".to_vec(),
        command(&["THRESHOLD.PEEK", "none", "k"]),
    ]
    .concat();
    let check = |wire: &mut Wire, place: usize| {
        assert_eq!(wire.reply().text(), "one\r\ntwo", "split at {place}");
        assert_eq!(wire.reply().numbers()[..2], [0, 1_001], "split at {place}");
        assert_eq!(wire.reply().text(), "a b", "split at {place}");
        assert!(wire.reply().error().contains("there is no limit"), "split at {place}");
    };
    let mut wire = Wire::to(server.resp);
    for place in 0..commands.len() {
        wire.send(&commands[..place]);
        // So that the halves come one after the other.
        std::thread::sleep(std::time::Duration::from_millis(2));
        wire.send(&commands[place..]);
        check(&mut wire, place);
    }
    for byte in commands.chunks(1) {
        wire.send(byte);
    }
    check(&mut wire, 0);
    wire.send(commands.repeat(500));
    (0..500).for_each(|place| check(&mut wire, place));
}

#[test]
fn a_pipeline_is_answered_in_its_order() {
    let server = serve("[[limit]]\nid = \"p\"\nlayer = \"user\"\nrate = \"1000/hour\"\n");
    let mut wire = Wire::to(server.resp);
    let mut bytes = Vec::new();
    for number in 0..1_000 {
        bytes.extend(command(&["CL.THROTTLE", "order", "4999", "100", "86400"]));
        match number % 4 {
            // Those that are waited for, among those that are not.
            0 => bytes.extend(command(&["CL.THROTTLE", "order", "4999", "100", "86400", "0"])),
            1 => bytes.extend(command(&["THRESHOLD.CONSUME", "p", "order"])),
            2 => bytes.extend(command(&["ECHO", &number.to_string()])),
            _ => bytes.extend(command(&["CL.THROTTLE", "order", "x", "100", "86400"])),
        }
    }
    wire.send(bytes);
    for number in 0..1_000 {
        assert_eq!(wire.reply().numbers()[..3], [0, 5_000, 4_999 - number]);
        let reply = wire.reply();
        match number % 4 {
            0 => {
                assert_eq!(
                    reply.numbers()[2],
                    4_999 - number,
                    "a look sees all before it and none behind it"
                );
            }
            1 => assert_eq!(reply.get("remaining"), Reply::Integer(999 - number / 4)),
            2 => assert_eq!(reply.text(), number.to_string()),
            _ => assert!(reply.error().contains("max_burst")),
        }
    }
}

#[test]
fn who_has_said_everything_is_still_answered() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    wire.send("PING\r\nPING last\r\nPI");
    wire.finish();
    assert_eq!(wire.reply().text(), "PONG");
    assert_eq!(wire.reply().text(), "last");
    wire.ends();
}

#[test]
fn what_is_no_command_is_named_and_ends_the_connection() {
    let server = serve("");
    for (bytes, what) in [
        (&b"*x\r\n"[..], "invalid multibulk length"),
        (b"*1025\r\n", "at most 1024 words"),
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
        (b"*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$65537\r\n", "at most 65536 bytes"),
        (b"*1\r\n$3\r\nPING\r\n", "a word does not end where its length says"),
        (b"ECHO \"open\r\n", "unbalanced quotes"),
        (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", "this is no HTTP"),
    ] {
        let mut wire = Wire::to(server.resp);
        wire.send([b"PING\r\n", bytes, b"PING\r\n"].concat());
        assert_eq!(wire.reply().text(), "PONG");
        let reply = wire.reply();
        assert!(reply.error().starts_with("ERR ") && reply.error().contains(what), "{reply:?}");
        wire.ends();
    }
    // What is a command and makes no sense ends nothing.
    let mut wire = Wire::to(server.resp);
    for bytes in [&b"*0\r\n"[..], b"*-1\r\n", b"\r\n", b" \r\n"] {
        wire.send(bytes);
    }
    assert!(wire.ask("NOTHING").error().contains("unknown command"));
    assert_eq!(wire.ask("PING").text(), "PONG");
}

#[test]
fn sizes_are_bounded() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    let word = "x".repeat(65_000);
    assert_eq!(wire.ask(&format!("ECHO {word}")).text(), word);
    let mut many = vec!["COMMAND", "INFO"];
    many.resize(1_024, "ping");
    wire.send(command(&many));
    assert!(matches!(wire.reply(), Reply::Array(all) if all.len() == 1_022));
    // Two words of which each would do.
    let mut wire = Wire::to(server.resp);
    wire.send(command(&["ECHO", &word, &word]));
    assert!(wire.reply().error().contains("at most 65536 bytes"));
    wire.ends();
    // A line without an end.
    let mut wire = Wire::to(server.resp);
    wire.send("x".repeat(65_537));
    assert!(wire.reply().error().contains("at most 65536 bytes"));
    wire.ends();
}

#[test]
fn a_client_that_reads_nothing_is_waited_for_and_not_for_ever() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    // Half a command, and then nothing.
    wire.send("*2\r\n$4\r\nECHO\r\n$4\r\nab");
    wire.ends();
}

#[test]
fn a_server_that_stops_answers_what_has_come() {
    let mut server: Server = serve("");
    let mut wire = Wire::to(server.resp);
    assert_eq!(wire.ask("PING").text(), "PONG");
    let many = 2_000;
    wire.send(command(&["CL.THROTTLE", "last", "9999", "1", "60"]).repeat(many));
    assert_eq!(wire.reply().numbers()[2], 9_999);
    server.signal("TERM");
    // All that reached it before it heard, one after the other, and then the end.
    let mut answered = 1;
    while let Some(reply) = wire.try_reply() {
        assert_eq!(reply.numbers()[2], 9_999 - answered);
        answered += 1;
    }
    assert!(server.ends().success());
}
