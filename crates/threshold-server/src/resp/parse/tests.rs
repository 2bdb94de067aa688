use super::*;

fn words(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Words::new();
    assert_eq!(parse(bytes, COMMAND_BYTES, &mut words), Parsed::Command(bytes.len()), "{}", shown(bytes));
    words.into_iter().map(Cow::into_owned).collect()
}

fn seen(bytes: &[u8]) -> Parsed {
    parse(bytes, COMMAND_BYTES, &mut Words::new())
}

fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[test]
fn arrays_are_read_in_place() {
    assert_eq!(words(b"*1\r\n$4\r\nPING\r\n"), [b"PING"]);
    assert_eq!(words(b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n"), [&b"ECHO"[..], b""]);
    assert_eq!(words(b"*2\r\n$4\r\nECHO\r\n$4\r\na\r\nb\r\n"), [&b"ECHO"[..], b"a\r\nb"]);
    assert_eq!(words(b"*02\r\n$+1\r\na\r\n$001\r\nb\r\n"), [b"a", b"b"]);
    let long = "x".repeat(1_000);
    let bytes = format!("*2\r\n$4\r\nECHO\r\n$1000\r\n{long}\r\n");
    assert_eq!(words(bytes.as_bytes()), [b"ECHO", long.as_bytes()]);
    for nothing in [&b"*0\r\n"[..], b"*-1\r\n", b"\r\n", b"\n", b"  \t \r\n"] {
        assert!(words(nothing).is_empty());
    }
}

#[test]
fn lines_have_words_and_quotes() {
    assert_eq!(words(b"PING\r\n"), [b"PING"]);
    assert_eq!(words(b"  ECHO   hi \n"), [&b"ECHO"[..], b"hi"]);
    assert_eq!(words(b"ECHO \"two words\"\r\n"), [&b"ECHO"[..], b"two words"]);
    assert_eq!(words(b"ECHO 'it\\''\r\n"), [&b"ECHO"[..], b"it'"]);
    assert_eq!(words(b"ECHO \"\\x41\\n\\\"\\q\\xzz\"\r\n"), [&b"ECHO"[..], b"A\n\"qxzz"]);
    assert_eq!(words(b"ECHO a\"b c\"\r\n"), [&b"ECHO"[..], b"ab c"]);
    assert_eq!(words(b"ECHO '' \"\"\r\n"), [&b"ECHO"[..], b"", b""]);
    assert_eq!(words("ECHO \u{e9}\r\n".as_bytes()), [b"ECHO", "\u{e9}".as_bytes()]);
}

#[test]
fn what_cannot_be_read_is_named() {
    for (bytes, lost) in [
        (&b"*x\r\n"[..], Lost::Count),
        (b"*1025\r\n", Lost::Count),
        (b"*99999999999999999999\r\n", Lost::Count),
        (b"*1\n$4\r\nPING\r\n", Lost::Count),
        (b"*11111111111111111111111111111111", Lost::Count),
        (b"*1\r\n:5\r\n", Lost::Mark(b':')),
        (b"*1\r\n*1\r\n$1\r\na\r\n", Lost::Mark(b'*')),
        (b"*1\r\n$x\r\n", Lost::Length),
        (b"*1\r\n$-1\r\n", Lost::Length),
        (b"*1\r\n$65537\r\n", Lost::Length),
        (b"*1\r\n$3\r\nPING\r\n", Lost::End),
        (b"*1\r\n$4\r\nPING\n\n", Lost::End),
        (b"ECHO \"open\r\n", Lost::Quotes),
        (b"ECHO \"a\"b\r\n", Lost::Quotes),
        (b"ECHO \"a\\\r\n", Lost::Quotes),
    ] {
        assert_eq!(seen(bytes), Parsed::Lost(lost), "{}", shown(bytes));
    }
    assert_eq!(seen(&vec![b'a'; COMMAND_BYTES]), Parsed::Lost(Lost::Large(COMMAND_BYTES)));
    assert_eq!(seen(&b"a ".repeat(WORDS + 1)), Parsed::Partial(2 * (WORDS + 1) + 1));
    assert_eq!(seen(&[&b"a ".repeat(WORDS + 1)[..], b"\n"].concat()), Parsed::Lost(Lost::Count));
    let sum = "$30000\r\n".to_owned() + &"x".repeat(30_000) + "\r\n";
    let three = format!("*3\r\n{sum}{sum}{sum}");
    assert_eq!(seen(three.as_bytes()), Parsed::Lost(Lost::Large(COMMAND_BYTES)));
    assert_eq!(
        parse(b"*1\r\n$2000\r\n", 1_024, &mut Words::new()),
        Parsed::Lost(Lost::Length),
        "strangers say less"
    );
}

#[test]
fn every_part_of_a_command_waits_for_the_rest() {
    for bytes in [&b"*2\r\n$4\r\nECHO\r\n$12\r\nhello, world\r\n"[..], b"ECHO \"a b\" c\r\n"] {
        for length in 0..bytes.len() {
            let Parsed::Partial(least) = seen(&bytes[..length]) else {
                panic!("{}", shown(&bytes[..length]))
            };
            assert!((length + 1..=bytes.len()).contains(&least), "{least} at {length}");
        }
    }
}

/// Commands as clients write them.
fn written(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for command in commands {
        bytes.extend(format!("*{}\r\n", command.len()).bytes());
        for word in command {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
    }
    bytes
}

/// Reads like a connection does, from pieces of these lengths.
fn read_in_pieces(bytes: &[u8], lengths: &[usize]) -> Vec<Vec<Vec<u8>>> {
    let (mut commands, mut here, mut from) = (Vec::new(), Vec::new(), 0);
    let mut lengths = lengths.iter().copied().cycle();
    while from < bytes.len() {
        let to = (from + lengths.next().unwrap_or(1).max(1)).min(bytes.len());
        here.extend_from_slice(&bytes[from..to]);
        from = to;
        loop {
            let mut words = Words::new();
            let Parsed::Command(used) = parse(&here, COMMAND_BYTES, &mut words) else { break };
            commands.push(words.into_iter().map(Cow::into_owned).collect());
            here.drain(..used);
        }
    }
    assert!(here.is_empty(), "nothing is left over");
    commands
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_however_it_comes(
            commands in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8), 1..8),
            lengths in prop::collection::vec(1usize..64, 1..8),
        ) {
            let bytes = written(&commands);
            prop_assert_eq!(read_in_pieces(&bytes, &lengths), commands);
        }

        #[test]
        fn whatever_comes_is_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            fuzz(&bytes);
        }

        #[test]
        fn what_is_nearly_a_command_too(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "*", "$", "1", "2", "4", "-1", "PING", "\r\n", "\n", "\r", " ", "\"", "'", "\\", "x", ":", "\0", "é",
            ]), 0..60),
        ) {
            fuzz(pieces.concat().as_bytes());
        }
    }
}
