//! Scripts: the language, what it refuses, and running it.

use std::io::{Error, ErrorKind, Result as IoResult};
use std::sync::Arc;

use plimsoll_model::target::{Action, Filling, Script, Step};
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_proto::conversation::{Answer, Progress};
use plimsoll_proto::script::{Client, EARLY_BYTES_MAX, Program, ScriptFault, leading, parse};
use proptest::prelude::*;

fn no_files(_: &str) -> IoResult<Option<Vec<u8>>> {
    Err(Error::from(ErrorKind::NotFound))
}

fn script(text: &str) -> Script {
    parse(text.as_bytes(), &mut no_files).expect("a good script")
}

/// Returns the bytes that the steps send first, if they are the same each time.
fn sent(steps: &[Step]) -> Vec<u8> {
    leading(steps).as_literal().expect("nothing to fill")
}

/// A client whose operation has just begun.
fn client(text: &str) -> Client {
    let mut client = Client::new(Arc::new(Program::new(&script(text)).expect("it compiles")));
    client.expect_operation();
    client
}

/// Returns the refusal, and its line.
fn refusal(text: &str) -> String {
    match parse(text.as_bytes(), &mut no_files).and_then(|script| Program::new(&script)) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

const fn complete(bytes: u64) -> Progress {
    Progress::Complete(Answer::plain(bytes, None))
}

/// Feeds `answer` in pieces of `size`; returns what was replied and how it ended.
fn run(
    client: &mut Client,
    answer: &[u8],
    size: usize,
) -> (Vec<u8>, Result<(usize, Progress), ScriptFault>) {
    let (mut reply, mut consumed) = (Vec::new(), 0);
    for piece in answer.chunks(size) {
        let mut input = piece.to_vec();
        loop {
            let (used, progress) = match client.handle_bytes(&input, &mut reply) {
                Ok(outcome) => outcome,
                Err(fault) => return (reply, Err(fault)),
            };
            assert!(used <= input.len());
            consumed += used;
            match progress {
                Progress::NeedMore => break,
                Progress::Sleeps(_) => {
                    client.sleep_until(Nanos(1));
                    // What is left of the piece came early.
                    input = client.wake();
                    consumed -= input.len();
                }
                ended => return (reply, Ok((consumed, ended))),
            }
        }
    }
    (reply, Ok((consumed, Progress::NeedMore)))
}

#[test]
fn steps_are_what_the_lines_say() {
    let text = "# once\nsend \"AUTH \\x41\\\"\\r\\n\"\nexpect \"+OK\\r\\n\"\n\nloop # each\n  \
                send \"a\" \"b\"\n  repeat 2\n    expect line\n  end\n  sleep 10ms\nend\n";
    let script = script(text);
    assert_eq!(sent(&script.opening), b"AUTH A\"\r\n");
    assert_eq!(script.opening[1].line, 3);
    assert_eq!(sent(&script.operation), b"ab");
    assert_eq!(script.operation.iter().map(|step| step.line).collect::<Vec<_>>(), [6, 8, 8]);
    assert_eq!(script.rest, Nanos::from_millis(10));
}

#[test]
fn files_are_sent() {
    let mut read = |path: &str| Ok(Some(path.as_bytes().repeat(2)));
    let script = parse(b"loop\nsend @a/b \"c\"\nend", &mut read).unwrap();
    assert_eq!(sent(&script.operation), b"a/ba/bc");
}

#[test]
fn places_are_filled_in_what_is_sent_and_in_what_is_expected() {
    let text = "send \"I AM %i\"\nloop\nsend \"SET \\x25s %s 1%%\" stamp\nexpect \"OK %s\"\n\
                send \"%rand_9 %t\"\nexpect \"%rand_9\"\nexpect stamp\nend";
    let script = script(text);
    let filling = Filling { connection: 4, operation: 7, began: Nanos(55), ..Filling::default() };
    let filled = |steps: &[Step]| {
        let mut bytes = Vec::new();
        leading(steps).fill(&filling, &mut bytes);
        bytes
    };
    assert_eq!(filled(&script.opening), b"I AM 4");
    let stamp = filling.stamp();
    assert_eq!(filled(&script.operation), [&b"SET %s 7 1%"[..], &stamp].concat());
    for size in [1, 3, 99] {
        let mut client = Client::new(Arc::new(Program::new(&script).unwrap()));
        client.fill_with(filling);
        client.expect_operation();
        let (reply, outcome) = run(&mut client, b"OK 7", size);
        assert_eq!(outcome, Ok((4, Progress::NeedMore)));
        let (digit, time) = reply.split_at(1);
        assert_eq!(time, b" 55");
        let answer = [digit, &stamp].concat();
        assert_eq!(run(&mut client, &answer, size).1, Ok((33, complete(37))));
        client.expect_operation();
        assert!(run(&mut client, b"OK 8", size).1.is_err());
    }
}

#[test]
fn an_operation_ends_with_its_last_expectation() {
    let text = "loop\nsend \"a\"\nexpect \"+OK\\r\\n\"\nsend \"b\"\nexpect 3\nexpect line\n\
                expect until \"<end>\"\nexpect /x[0-9]{2}/\nend";
    let answer = b"+OK\r\nabcany line\nskipped<end>..x7x42more";
    for size in 1..=answer.len() {
        let mut client = client(text);
        let (reply, outcome) = run(&mut client, answer, size);
        assert_eq!(reply, b"b");
        assert_eq!(outcome, Ok((36, complete(36))), "pieces of {size}");
        assert!(client.is_idle());
    }
}

#[test]
fn other_bytes_are_a_mismatch_and_the_line_is_told() {
    let text = "loop\nsend \"GET\"\nexpect \"+OK\\r\\n\"\nend";
    for size in [1, 2, 64] {
        let fault = run(&mut client(text), b"+NO\r\n", size).1.unwrap_err();
        assert_eq!(fault.class(), ErrorClass::ScriptMismatch);
        assert!(fault.to_string().starts_with("line 3 of the script"), "{fault}");
    }
    let fault = run(&mut client(text), b"-ERR unknown command\r\n", 64).1.unwrap_err();
    assert!(fault.to_string().ends_with("begins with \"-ERR unknown co\""), "{fault}");
    // What was sent may be a credential, and a fault is archived.
    let secret = "loop\nsend \"AUTH hunter2-sesame\\r\\n\"\nexpect \"+OK\"\nend";
    for (echo, size) in [("AUTH hunter2-sesame\r\n", 64), ("hunter2-sesame", 64), ("hunter2", 7)] {
        let fault = run(&mut client(secret), echo.as_bytes(), size).1.unwrap_err();
        assert!(fault.to_string().ends_with("begins with bytes of the script itself"), "{fault}");
    }
    // An expression that can match no more, and one that has had its bytes.
    let anchored = "loop\nsend \"a\"\nexpect /^yes/\nend";
    assert!(run(&mut client(anchored), b"no", 1).1.is_err());
    let bounded = "loop\nsend \"a\"\nexpect until \"x\" max 4\nend";
    assert!(run(&mut client(bounded), b"abc", 1).1.is_ok());
    assert!(run(&mut client(bounded), b"abcd", 1).1.is_err());
    assert!(run(&mut client(bounded), b"abcx", 1).1.is_ok());
}

#[test]
fn bytes_that_nothing_asked_for_are_told() {
    let mut client = client("loop\nsend \"a\"\nexpect 1\nend");
    let mut reply = Vec::new();
    assert_eq!(client.handle_bytes(b"ab", &mut reply), Ok((1, complete(1))));
    let fault = client.handle_bytes(b"b", &mut reply).unwrap_err();
    assert_eq!(fault.class(), ErrorClass::PeerSpokeFirst);
}

#[test]
fn an_expression_matches_as_soon_as_it_can() {
    for (pattern, answer, consumed) in [
        ("a+", "aaa", 1),
        ("^a", "ab", 1),
        ("b$", "ab", 2),
        (r"a\b", "ab", 0),
        (r"a\Bb", "ab", 2),
        ("(?i)ok", "oK!", 2),
        (r"[^\x00-\x7f]", "\u{e9}", 1),
    ] {
        let text = format!("loop\nsend \"a\"\nexpect /{pattern}/\nend");
        let (_, outcome) = run(&mut client(&text), answer.as_bytes(), 1);
        let expected = match consumed {
            0 => complete(1),
            bytes => complete(bytes),
        };
        assert!(
            matches!(outcome, Ok((_, progress)) if progress == expected),
            "{pattern} {outcome:?}"
        );
    }
}

#[test]
fn the_end_of_the_stream_can_be_expected() {
    let mut client = client("loop\nsend \"a\"\nexpect line\nexpect close\nend");
    let mut reply = Vec::new();
    assert_eq!(client.handle_eof(), None);
    assert_eq!(client.handle_bytes(b"bye\n", &mut reply), Ok((4, Progress::NeedMore)));
    assert_eq!(client.handle_eof(), Some(4));
    assert!(client.is_idle());
}

#[test]
fn what_comes_during_a_sleep_is_kept_and_bounded() {
    let text = "loop\nsend \"a\"\nexpect line\nsleep 1s\nexpect line\nend";
    let mut client = client(text);
    let mut reply = Vec::new();
    let slept = client.handle_bytes(b"one\ntw", &mut reply);
    assert_eq!(slept, Ok((6, Progress::Sleeps(Nanos::from_secs(1)))));
    client.sleep_until(Nanos(7));
    assert_eq!(client.sleeps_until(), Some(Nanos(7)));
    assert_eq!(client.handle_bytes(b"o\n!", &mut reply), Ok((3, Progress::NeedMore)));
    let early = client.wake();
    assert_eq!(client.handle_bytes(&early, &mut reply), Ok((4, complete(8))));

    client.expect_operation();
    assert!(client.handle_bytes(b"one\n", &mut reply).is_ok());
    client.sleep_until(Nanos(7));
    assert!(client.handle_bytes(&vec![b'x'; EARLY_BYTES_MAX], &mut reply).is_ok());
    assert!(client.handle_bytes(b"x", &mut reply).is_err());
}

#[test]
fn an_opening_runs_once() {
    let text = "expect \"220 \"\nexpect line\nsend \"HELO\\n\"\nexpect line\nloop\nsend \"a\"\nend";
    let script = script(text);
    assert!(sent(&script.opening).is_empty());
    let mut client = Client::new(Arc::new(Program::new(&script).unwrap()));
    client.expect_opening();
    let mut reply = Vec::new();
    assert_eq!(client.handle_bytes(b"220 hi\n", &mut reply), Ok((7, Progress::NeedMore)));
    assert_eq!(reply, b"HELO\n");
    assert_eq!(client.handle_bytes(b"250\n", &mut reply), Ok((4, Progress::Greeted)));
}

#[test]
fn a_bad_script_is_refused_with_its_line() {
    for (text, expected) in [
        ("", "line 1: there is no loop"),
        ("send \"a\"\n", "line 1: there is no loop"),
        ("loop\nsend \"a\"\n", "line 1: the block has no end"),
        ("loop\nend", "line 2: the loop is empty"),
        ("end", "line 1: there is no block to end"),
        ("loop\nsend \"a\"\nend\nsend \"b\"", "line 4: nothing follows the loop"),
        ("loop\nexpect any\nend", "the loop must send before anything else"),
        ("loop\nsent \"a\"\nend", "line 2: \"sent\" is no statement"),
        ("loop\nsend a\nend", "line 2: send is followed by"),
        ("loop\nsend \"a\nend", "line 2: the quotation mark is not closed"),
        ("loop\nsend \"\\q\"\nend", "line 2: \\q is no escape"),
        ("loop\nsend \"\\x4\"\nend", "line 2: \\x is followed by two hexadecimal digits"),
        ("loop\nsend \"a\"\"b\"\nend", "line 2: a word ends without a space"),
        ("loop\nsend @nowhere\nend", "line 2: cannot read \"nowhere\""),
        ("loop\nsend \"50%\"\nend", "line 2: % is followed by i, s, t, rand_N or another %"),
        ("loop\nsend \"a\"\nexpect \"%rand_x\"\nend", "line 3: %rand_ is followed by a number"),
        ("loop\nsend \"a\"\nexpect until \"%s\"\nend", "line 3: a marker is the same bytes"),
        ("loop\nsend \"a\"\nexpect\nend", "line 3: expect is followed by"),
        ("loop\nsend \"a\"\nexpect \"\"\nend", "line 3: 1 to 65,536 bytes can be expected"),
        ("loop\nsend \"a\"\nexpect 0\nend", "line 3: 1 to 1,073,741,824 bytes"),
        ("loop\nsend \"a\"\nexpect 2GiB\nend", "line 3: 1 to 1,073,741,824 bytes"),
        ("loop\nsend \"a\"\nexpect until \"\"\nend", "line 3: a marker has"),
        (
            "loop\nsend \"a\"\nexpect /(/\nend",
            "line 3: the expression is malformed: unclosed group",
        ),
        ("loop\nsend \"a\"\nexpect /a*/\nend", "line 3: the expression matches nothing at all"),
        ("loop\nsend \"a\"\nexpect /[ab]{9000}{9000}/\nend", "line 3: the expression"),
        ("loop\nsend \"a\"\nexpect /a\nend", "line 3: the slash of the expression"),
        ("loop\nsend \"a\"\nexpect close\nsend \"b\"\nend", "expect close is the last"),
        ("sleep 1s\nloop\nsend \"a\"\nend", "a sleep belongs into the loop"),
        ("loop\nsend \"a\"\nsleep 1s\nsend \"b\"\nend", "a sleep must follow an expect"),
        ("loop\nsend \"a\"\nexpect 1\nsleep 2h\nend", "line 4: a sleep takes"),
        ("loop\nsend \"a\"\nrepeat 3\nexpect 1\nsleep 30m\nend\nend", "sleeps for more than 1h"),
        ("loop\nsend \"a\"\nrepeat 0\nend\nend", "line 3: repeat is followed by a number from 1"),
        ("loop\nsend \"a\"\nrepeat 5000\nexpect 1\nexpect 1\nexpect 1\nend\nend", "10,000 steps"),
        ("loop\nloop\nend\nend", "line 2: a loop is not inside another block"),
    ] {
        let refused = refusal(text);
        assert!(refused.contains(expected), "{text:?}: {refused:?}");
        assert_eq!(refused.lines().count(), 1, "{refused:?}");
    }
}

#[test]
fn a_large_file_is_the_body_of_the_target() {
    let mut read = |path: &str| Ok((path != "big").then(|| path.as_bytes().to_vec()));
    let mut what = |text: &str| {
        let script = parse(text.as_bytes(), &mut read).map_err(|error| error.what)?;
        let actions = script.operation.iter().map(|step| step.action == Action::SendBody);
        Ok::<_, String>((sent(&script.operation), actions.collect::<Vec<_>>()))
    };
    assert_eq!(
        what("loop\nsend \"a\"\nsend @b @big\nexpect any\nsend \"c\"\nend"),
        Ok((b"ab".to_vec(), vec![false, false, true, false, false]))
    );
    assert_eq!(what("loop\nsend @big\nend"), Ok((b"".to_vec(), vec![true])));
    for text in [
        "send @big\nloop\nsend \"a\"\nend",
        "loop\nsend \"a\"\nexpect any\nsend @big\nend",
        "loop\nsend @big\nsend \"a\"\nend",
        "loop\nsend @big \"a\"\nend",
        "loop\nsend @big\nsend @big\nend",
    ] {
        assert!(what(text).unwrap_err().contains("16 MiB"), "{text}");
    }
}

#[test]
fn what_is_sent_is_bounded() {
    let mut read = |_: &str| Ok(Some(vec![0; 9 << 20]));
    let error = parse(b"loop\nsend @a\nsend @a\nend", &mut read).unwrap_err();
    assert_eq!(error.what, "more than 16 MiB are sent");
    let long = vec![b'#'; 2 << 20];
    assert!(parse(&long, &mut no_files).is_err());
}

/// A line of a script that may be one.
fn line() -> impl Strategy<Value = String> {
    let words = prop_oneof![
        Just("send"),
        Just("expect"),
        Just("sleep"),
        Just("repeat"),
        Just("loop"),
        Just("end"),
        Just("until"),
        Just("max"),
        Just("line"),
        Just("any"),
        Just("close"),
        Just("1"),
        Just("3"),
        Just("10ms"),
        Just("\"ab\""),
        Just("\"\\r\\n\""),
        Just("\"%i %rand_7\""),
        Just("stamp"),
        Just("/a[bc]/"),
        Just("/^b/"),
        Just("@f"),
        Just("#"),
    ];
    proptest::collection::vec(words, 0..4).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn no_text_panics(lines in proptest::collection::vec(line(), 0..12), noise in ".{0,40}") {
        let mut text = lines.join("\n");
        let _ = parse(text.as_bytes(), &mut no_files).and_then(|script| Program::new(&script));
        text.push_str(&noise);
        let _ = parse(text.as_bytes(), &mut no_files).and_then(|script| Program::new(&script));
    }

    #[test]
    fn pieces_change_nothing(
        lines in proptest::collection::vec(
            prop_oneof![
                Just("expect \"ab\""), Just("expect 3"), Just("expect line"), Just("expect /b[ac]/ max 9"),
                Just("expect until \"ca\""), Just("send \"x\""), Just("expect 1\nsleep 1s"),
            ],
            1..5,
        ),
        answer in "[abc\\n]{0,40}",
        size in 1_usize..9,
    ) {
        let text = format!("loop\nsend \"q\"\n{}\nexpect 1\nend", lines.join("\n"));
        let whole = run(&mut client(&text), answer.as_bytes(), usize::MAX);
        let pieces = run(&mut client(&text), answer.as_bytes(), size);
        match (&whole.1, &pieces.1) {
            // How much of an answer is shown depends on what had come.
            (Err(one), Err(other)) => prop_assert_eq!(one.class(), other.class()),
            (one, other) => prop_assert_eq!(one, other),
        }
        prop_assert_eq!(whole.0, pieces.0);
    }

    #[test]
    fn what_is_quoted_is_what_is_sent(bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
        let text: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let script = script(&format!("loop\nsend \"{text}\"\nexpect \"{text}\"\nend"));
        prop_assert_eq!(&sent(&script.operation), &bytes);
        let Action::Expect(expected) = &script.operation[1].action else { panic!("it expects") };
        prop_assert_eq!(expected.as_literal(), Some(bytes));
    }
}
