//! Both sides of WebSocket judged by the Autobahn test suite, which runs under Python 2.7 alone: `cargo test -p
//! plimsoll-engine --test autobahn -- --ignored --nocapture`. Without Python 2.7 (pyenv's, or the system's) a test
//! reports that it was skipped, and passes. Not run: cases of speed (9) and of compression (12, 13), which we do not
//! offer.
#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a blocking client is the simplest way to echo what a judge sends"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_engine::server::{self, Answer, Body, Service};
use plimsoll_model::Nanos;
use plimsoll_model::plan::{DeliveryFaults, Listener, ServePlan, Spoken, TlsState};
use plimsoll_model::target::{Protocol, Target, TargetUrl};
use plimsoll_proto::conversation;
use plimsoll_proto::http1::Request;
use plimsoll_proto::websocket::{
    Client, MessageReader, Opcode, Progress, Side, opening, write_frame,
};
use serde_json::{Value, json};

/// Packages that work together; the suite itself names no versions.
const PACKAGES: &str = "autobahntestsuite==25.10.1 autobahn[twisted]==0.10.9 Twisted==19.10.0 cryptography==3.3.2 \
     pyOpenSSL==19.1.0 incremental==16.10.1 txaio==2.1.0 zope.interface==4.6.0 klein==17.10.0 service_identity==18.1.0 \
     Werkzeug==1.0.1 jinja2==2.11.3 markupsafe==1.1.1 unittest2==1.1.0 six==1.16.0 setuptools==44.0.0";
const LEFT_OUT: [&str; 3] = ["9.*", "12.*", "13.*"];
const CASES: usize = 247;
const AGENT: &str = "plimsoll";
/// The suite's words for a case that passed, or that only informs.
const PASSED: [&str; 2] = ["OK", "INFORMATIONAL"];
const START_WAIT: Duration = Duration::from_secs(60);
const MASK: [u8; 4] = [1, 2, 3, 4];

/// The suite, installed into `folder`.
struct Suite {
    folder: PathBuf,
}

impl Suite {
    /// `None` if there is no Python 2.7.
    fn installed() -> Option<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("autobahn");
        let suite = Self { folder };
        if !suite.python(&["-c", "pass"]).status().is_ok_and(|status| status.success()) {
            println!("SKIPPED: the Autobahn test suite needs Python 2.7, and there is none");
            return None;
        }
        if !suite.folder.join("zope/__init__.py").exists() {
            let mut install = suite.python(&["-m", "pip", "install", "--quiet", "--target"]);
            install.arg(&suite.folder).args(PACKAGES.split_ascii_whitespace());
            assert!(install.status().unwrap().success(), "pip cannot install the suite");
            // Without it, Python 2 does not find the package in such a folder.
            fs::write(suite.folder.join("zope/__init__.py"), "").unwrap();
        }
        Some(suite)
    }

    fn python(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("python2.7");
        command.env("PYENV_VERSION", "2.7.18").env("PYTHONPATH", &self.folder);
        command.args(arguments);
        command
    }

    /// The suite in `mode`, with `spec` as its specification.
    fn run(&self, mode: &str, spec: &Value) -> Command {
        let path = self.folder.join(format!("{mode}.json"));
        fs::write(&path, spec.to_string()).unwrap();
        let script = "import sys; from autobahntestsuite.wstest import run; sys.exit(run())";
        let mut command = self.python(&["-c", script, "-m", mode, "-s"]);
        command.arg(path).current_dir(&self.folder);
        command
    }
}

/// Prints how many cases ended how; panics on those that failed.
fn judge(report: &Path) {
    let index: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    let cases = index[AGENT].as_object().unwrap();
    let (mut counts, mut failed) = (BTreeMap::new(), Vec::new());
    for (case, result) in cases {
        let [behaviour, close] =
            ["behavior", "behaviorClose"].map(|name| result[name].as_str().unwrap().to_owned());
        if !PASSED.contains(&&*behaviour) || !PASSED.contains(&&*close) {
            failed.push(format!("{case}: {behaviour}, closing: {close}"));
        }
        *counts.entry((behaviour, close)).or_insert(0) += 1;
    }
    println!("{}: {} cases, (behaviour, closing): {counts:?}", report.display(), cases.len());
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(cases.len(), CASES);
}

struct Echo;

impl Service for Echo {
    type Notes = ();

    const PATTERN: &'static [u8] = b"pong";

    fn handle_header(&mut self, _notes: &mut (), _name: &str, _value: &[u8]) {}

    fn handle_request(&mut self, _notes: &(), _request: &Request) -> Answer {
        Answer::Body(Body {
            delay: Nanos::ZERO,
            piece_bytes: 4,
            pieces_further: 0,
            chunked: false,
            token: 0,
            push_every_ms: 0,
        })
    }

    fn next_delay(&mut self, _token: u64) -> Nanos {
        Nanos::ZERO
    }
}

#[test]
#[ignore = "takes a minute, and needs Python 2.7"]
fn the_server_is_judged() {
    let Some(suite) = Suite::installed() else { return };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = Listener { address, tls: false, spoken: Spoken::Http };
    let plan = ServePlan {
        listeners: vec![listener],
        identity: None,
        ticket_key: None,
        tls_state: TlsState::Compact,
        threads: 1,
        cpus: Vec::new(),
        statsd: None,
        seed: 0,
        request_timeout: Nanos::from_secs(60),
        idle_timeout: Nanos::from_secs(60),
        acknowledgement_delay: Nanos::ZERO,
        receive_maximum: u16::MAX,
        delivery_faults: DeliveryFaults::default(),
        accept_proxy: false,
    };
    let server = server::start(&plan, |_| Echo).unwrap();
    let url = format!("ws://{}", server.addresses()[0].address);
    let spec = json!({
        "outdir": "./server", "servers": [{"agent": AGENT, "url": url}],
        "cases": ["*"], "exclude-cases": LEFT_OUT, "exclude-agent-cases": {},
    });
    assert!(suite.run("fuzzingclient", &spec).status().unwrap().success());
    judge(&suite.folder.join("server/index.json"));
}

/// A child that ends with its handle.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "takes a minute, and needs Python 2.7"]
fn the_client_is_judged() {
    let Some(suite) = Suite::installed() else { return };
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let spec = json!({
        "url": format!("ws://{address}"), "outdir": "./client", "webport": 0,
        "cases": ["*"], "exclude-cases": LEFT_OUT, "exclude-agent-cases": {},
    });
    let _server = Guarded(suite.run("fuzzingserver", &spec).spawn().unwrap());
    let started = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(started.elapsed() < START_WAIT, "the suite does not listen");
        std::thread::yield_now();
    }
    let count = echo(address, "/getCaseCount");
    let count: usize = String::from_utf8(count).unwrap().parse().unwrap();
    for case in 1..=count {
        echo(address, &format!("/runCase?case={case}&agent={AGENT}"));
    }
    echo(address, &format!("/updateReports?agent={AGENT}"));
    judge(&suite.folder.join("client/index.json"));
}

/// Sends every message of the server at `path` back, as our client reads it, until it ends; returns the first one.
fn echo(address: SocketAddr, path: &str) -> Vec<u8> {
    let (host, port) = (address.ip().to_string(), address.port());
    let url =
        TargetUrl { protocol: Protocol::WebSocket, tls: false, host, port, path: path.into() };
    let target = Target {
        method: "GET".to_owned(),
        url,
        headers: Vec::new(),
        body: Vec::new().into(),
        publish: None,
        script: None,
        websocket: None,
    };
    let mut stream = TcpStream::connect(address).unwrap();
    let mut out = Vec::new();
    opening(&mut out, &target);
    let mut switch = Some(Client::new(Arc::default(), false));
    let mut reader = MessageReader::new(Side::Client);
    let (mut payload, mut first) = (Vec::new(), None);
    let mut buffer = vec![0; 1 << 16];
    let mut is_over = false;
    loop {
        // It may have closed already.
        let _ = stream.write_all(&out);
        out.clear();
        let Ok(count @ 1..) = stream.read(&mut buffer) else { break };
        let mut rest = &buffer[..count];
        if let Some(client) = &mut switch {
            let (consumed, progress) = client.handle_bytes(rest, &mut out).unwrap();
            rest = &rest[consumed..];
            if progress != conversation::Progress::Greeted {
                continue;
            }
            switch = None;
        }
        while !rest.is_empty() && !is_over {
            let read = reader.handle_bytes(rest, &mut |bytes| payload.extend_from_slice(bytes));
            let (consumed, progress) = read.unwrap_or_else(|error| {
                let code = error.close_code().to_be_bytes();
                write_frame(&mut out, true, Opcode::Close, &code, Some(MASK));
                is_over = true;
                (rest.len(), Progress::NeedMore)
            });
            rest = &rest[consumed..];
            match progress {
                Progress::NeedMore | Progress::Pong => {}
                Progress::Message { is_text, .. } => {
                    let opcode = if is_text { Opcode::Text } else { Opcode::Binary };
                    write_frame(&mut out, true, opcode, &payload, Some(MASK));
                    let message = std::mem::take(&mut payload);
                    first.get_or_insert(message);
                }
                Progress::Ping => {
                    write_frame(&mut out, true, Opcode::Pong, reader.control_payload(), Some(MASK));
                }
                Progress::Close(_) => {
                    let code = reader.control_payload();
                    write_frame(&mut out, true, Opcode::Close, code, Some(MASK));
                    is_over = true;
                }
            }
        }
    }
    first.unwrap_or_default()
}
