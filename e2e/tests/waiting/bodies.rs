//! Request bodies that are too large to travel in a plan.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{LazyLock, mpsc};
use std::thread;

use e2e::joined::Meeting;
use e2e::plimsoll::Plimsoll;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, accept_with_config};

/// Too large for one message to an agent.
const BYTES: usize = 80_000_000;

/// Bytes after which a body repeats itself: a prime, so that no buffer begins like another one.
const PERIOD: usize = 251;

fn body() -> &'static [u8] {
    static BODY: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let period: Vec<u8> = (0..PERIOD).map(|at| (at * 7 % PERIOD) as u8).collect();
        let mut body = period.repeat(BYTES.div_ceil(PERIOD));
        body.truncate(BYTES);
        body
    });
    &BODY
}

/// The bytes behind a request's head, and whether all of them are those of [`body`].
fn read_body(reader: &mut impl Read, bytes: usize) -> (usize, bool) {
    let (mut at, mut are_right, mut buffer) = (0, true, vec![0; 1 << 20]);
    while at < bytes {
        let count = reader.read(&mut buffer).expect("the client sends");
        if count == 0 {
            break;
        }
        are_right &= body().get(at..at + count) == Some(&buffer[..count]);
        at += count;
    }
    (at, are_right)
}

/// Returns the length that a request's head gives; `None` at the end of the connection.
fn read_head(reader: &mut impl BufRead) -> Option<usize> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            return Some(length);
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
    }
}

/// Returns a server that reads bodies to their end and answers 200.
fn reader() -> (SocketAddr, Receiver<(usize, bool)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (seen, bodies) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, seen) = (stream.expect("a client"), seen.clone());
            thread::spawn(move || serve(&stream, &seen));
        }
    });
    (address, bodies)
}

fn serve(stream: &TcpStream, seen: &mpsc::Sender<(usize, bool)>) {
    let mut reader = BufReader::new(stream);
    while let Some(length) = read_head(&mut reader) {
        let _ = seen.send(read_body(&mut reader, length));
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let mut stream = stream;
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

/// Returns all bytes in the files of a folder.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    entries.map(|entry| entry.metadata().expect("it is there").len()).sum()
}

#[test]
fn a_body_is_shared_by_processes_and_threads_and_stays_out_of_the_archive() {
    let (address, bodies) = reader();
    let url = format!("http://{address}/");
    let flags = ["load", &url, "--body", "big", "--rate", "0", "-n", "4", "-c", "4", "-t", "2"];
    let more = ["--processes", "2", "--no-ui", "--out", "run", "--json", "out.json"];
    let run = Plimsoll::new([&flags[..], &more].concat()).with_file("big", body()).start();
    let seen: Vec<_> = bodies.iter().take(4).collect();
    assert_eq!(seen, [(BYTES, true); 4]);
    let archive = run.folder().join("run");
    let finished = run.finish();
    finished.written(0).assert_all_ok(4);
    let archived = bytes_in(&archive);
    assert!(archived < 2_000_000, "the archive has {archived} bytes");
}

#[test]
fn a_body_goes_beside_the_plan_to_agents_that_share_no_memory() {
    let ((address, bodies), meeting) = (reader(), Meeting::new(2, 3_600));
    let flags = ["--rate", "0", "-n", "4", "-c", "4", "--body", "big"];
    let agents = meeting.agents(2);
    let url = format!("http://{address}/");
    let load = meeting.load(&url, 2, &flags).with_file("big", body()).start();
    assert_eq!(bodies.iter().take(4).collect::<Vec<_>>(), [(BYTES, true); 4]);
    load.finish().written(0).assert_all_ok(4);
    for agent in agents {
        assert_eq!(agent.finish().code, Some(0));
    }
}

#[test]
fn targets_name_a_large_body_and_standard_input_has_one() {
    let (address, bodies) = reader();
    let targets = format!("POST http://{address}/a\n@big\n\nPUT http://{address}/b\n@big\n");
    let flags = ["load", "--rate", "0", "-n", "2", "-c", "1", "--no-ui", "--json", "out.json"];
    let run = Plimsoll::new([&flags[..], &["--targets", "list"]].concat());
    let run = run.with_file("list", targets).with_file("big", body()).start();
    assert_eq!(bodies.iter().take(2).collect::<Vec<_>>(), [(BYTES, true); 2]);
    run.finish().written(0).assert_all_ok(2);
    let url = format!("http://{address}/");
    let run =
        Plimsoll::new([&flags[..], &[&url, "--body", "-"]].concat()).with_input(body()).start();
    assert_eq!(bodies.iter().take(2).collect::<Vec<_>>(), [(BYTES, true); 2]);
    run.finish().written(0).assert_all_ok(2);
}

#[test]
fn a_script_sends_a_large_file() {
    let (address, bodies) = reader();
    let head = format!("POST / HTTP/1.1\\r\\nContent-Length: {BYTES}\\r\\n\\r\\n");
    let script = format!("loop\nsend \"{head}\" @big\nexpect until \"\\r\\n\\r\\n\"\nend\n");
    let url = format!("tcp://{address}");
    let flags = ["load", &url, "--script", "s", "--rate", "0", "-n", "2", "-c", "1", "--no-ui"];
    let run = Plimsoll::new([&flags[..], &["--json", "out.json"]].concat());
    let run = run.with_file("s", script).with_file("big", body()).start();
    assert_eq!(bodies.iter().take(2).collect::<Vec<_>>(), [(BYTES, true); 2]);
    run.finish().written(0).assert_all_ok(2);
}

#[test]
fn a_message_of_websocket_is_masked_while_it_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let server = thread::spawn(move || {
        let mut right = Vec::new();
        for _ in 0..2 {
            let (stream, _) = listener.accept().expect("a client");
            let config = WebSocketConfig::default()
                .max_message_size(Some(BYTES))
                .max_frame_size(Some(BYTES));
            let mut socket = accept_with_config(stream, Some(config)).expect("it opens");
            socket.get_ref().peek(&mut [0]).expect("the message begins");
            // Answered behind the message, which it must not break.
            socket.send(Message::Ping(b"there?"[..].into())).expect("it is taken");
            let message = socket.read().expect("a message");
            let is_body = message.clone().into_data() == body();
            let pong = socket.read().expect("a pong");
            let is_pong = pong == Message::Pong(b"there?"[..].into());
            right.push(message.is_binary() && is_body && is_pong);
            socket.send(Message::text("done")).expect("it is taken");
        }
        right
    });
    let url = format!("ws://{address}/");
    for fragment in ["2GB", "70000"] {
        let flags =
            ["--rate", "0", "-n", "1", "-c", "1", "--body", "big", "--ws-fragment", fragment];
        let finished = Plimsoll::load(&url, &flags).with_file("big", body()).run();
        finished.summary(0).assert_all_ok(1);
    }
    assert_eq!(server.join().expect("it ends"), [true, true]);
}

#[test]
fn an_answer_that_comes_before_the_body_is_sent_counts() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            let _ = read_head(&mut BufReader::new(&stream));
            let _ =
                stream.write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n");
            // Closed with unread bytes: a RST follows the answer.
        }
    });
    let url = format!("http://{address}/");
    let flags = ["--rate", "0", "-n", "6", "-c", "2", "--body", "big"];
    let finished = Plimsoll::load(&url, &flags).with_file("big", body()).run();
    let summary = finished.summary(99);
    assert_eq!(summary.counts("status").get("413"), Some(&6), "{summary:?}");
}

#[test]
fn a_body_of_one_byte_too_many_is_refused_by_name() {
    let run = Plimsoll::new(["load", "http://127.0.0.1:9/", "--body", "big"]);
    let run = run.with_file("big", "");
    let file = File::options().write(true).open(run.folder().join("big")).expect("it was written");
    // A hole.
    file.set_len((1 << 30) + 1).expect("a sparse file");
    let finished = run.run();
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("larger than 1 GiB"), "{}", finished.stderr);
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
}

#[test]
fn text_that_looks_like_a_file_is_not_sent() {
    let finished = Plimsoll::new(["load", "http://127.0.0.1:9/", "--data", "@body.json"]).run();
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("--body body.json"), "{}", finished.stderr);
}
