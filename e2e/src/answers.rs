//! A corpus of answers, legal ones and others, and a server that sends them: `assets/answers/PROTOCOL.txt`. The first
//! of these files, `http1.txt`, defines the format. The path of a request names the case whose bytes answer it.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Time between two parts of an answer: longer than a client needs to read the first.
const PAUSE: Duration = Duration::from_millis(30);
/// Longest request.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// One answer.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Name of the case, and path of its URL.
    pub name: String,
    /// `true` if the request is a HEAD.
    pub is_head: bool,
    /// Requests on one connection.
    pub times: u32,
    /// Outcome in plimsoll: `ok`, or the class of each operation.
    pub plimsoll: String,
    /// Reason for an outcome that plimsoll alone has.
    pub argued: Option<String>,
    /// Parts of the answer, with a pause between them.
    parts: Vec<Vec<u8>>,
    end: End,
}

/// The server's action behind an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    /// Waits for the next request.
    #[default]
    Stay,
    /// Sends a FIN.
    Close,
    /// Sends a RST.
    Reset,
}

/// Returns the folder of the corpus.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/answers")
}

/// Reads the corpus of a protocol; panics at the first line that is not as the file says that it should be.
pub fn corpus(protocol: &str) -> Vec<Case> {
    let path = folder().join(format!("{protocol}.txt"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut cases: Vec<Case> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(words) = line.strip_prefix("name: ") {
            cases.push(named(words));
            continue;
        }
        let read = cases.last_mut().and_then(|case| read_line(case, line));
        assert!(read.is_some(), "{}:{}: {line}", path.display(), index + 1);
    }
    cases
}

fn named(words: &str) -> Case {
    let mut words = words.split(' ');
    let name = words.next().unwrap_or_default().to_owned();
    let mut case = Case { name, times: 1, parts: vec![Vec::new()], ..Case::default() };
    for word in words {
        match word {
            "HEAD" => case.is_head = true,
            "twice" => case.times = 2,
            _ => panic!("{}: {word}", case.name),
        }
    }
    case
}

fn read_line(case: &mut Case, line: &str) -> Option<()> {
    if line == "~" {
        case.parts.push(Vec::new());
        return Some(());
    }
    if let Some((count, text)) = line.split_once("> ")
        && let Ok(count) = if count.is_empty() { Ok(1) } else { count.parse::<usize>() }
    {
        case.parts.last_mut()?.extend_from_slice(&unescaped(text)?.repeat(count));
        return Some(());
    }
    match line.split_once(": ")? {
        ("plimsoll", outcome) => outcome.clone_into(&mut case.plimsoll),
        ("argued", why) => case.argued = Some(why.to_owned()),
        ("end", "stay") => case.end = End::Stay,
        ("end", "close") => case.end = End::Close,
        ("end", "reset") => case.end = End::Reset,
        _ => return None,
    }
    Some(())
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        rest = after.get(1..)?;
        bytes.push(match after.as_bytes().first()? {
            b'r' => b'\r',
            b'n' => b'\n',
            b't' => b'\t',
            b'0' => 0,
            b'\\' => b'\\',
            b'x' => {
                let byte = u8::from_str_radix(rest.get(..2)?, 16).ok()?;
                rest = rest.get(2..)?;
                byte
            }
            _ => return None,
        });
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

/// Serves the cases of HTTP/1.1 until the test program ends.
pub fn serve_http1(cases: &[Case]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let cases: Arc<[Case]> = cases.into();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let cases = Arc::clone(&cases);
            thread::spawn(move || while answer(&stream, &cases) == Some(End::Stay) {});
        }
    });
    address
}

/// Answers one request; `None` if none comes.
fn answer(mut stream: &TcpStream, cases: &[Case]) -> Option<End> {
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(None).ok()?;
    let request = peek_request(stream)?;
    let path = request.split(' ').nth(1)?.trim_start_matches('/');
    let case = cases.iter().find(|case| case.name == path)?;
    // A socket that is closed with bytes unread is reset.
    if case.end != End::Reset {
        stream.read_exact(&mut vec![0; request.len()]).ok()?;
    }
    for (index, part) in case.parts.iter().enumerate() {
        if index > 0 {
            stream.set_read_timeout(Some(PAUSE)).ok()?;
            // A client that has gone on need not be waited for.
            let _ = stream.peek(&mut [0; 1]);
        }
        stream.write_all(part).ok()?;
    }
    Some(case.end)
}

/// Returns the head of the next request, which stays in the socket.
fn peek_request(stream: &TcpStream) -> Option<String> {
    let mut bytes = vec![0; REQUEST_BYTES_MAX];
    loop {
        let count = stream.peek(&mut bytes).ok().filter(|count| *count > 0)?;
        let text = String::from_utf8_lossy(bytes.get(..count)?);
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            return Some(format!("{head}\r\n\r\n"));
        }
        thread::yield_now();
    }
}
