//! HAProxy's sockets as its configuration names them, and the socket of its master process.

use std::fs;
use std::process::{Command, Stdio};

use e2e::plimsoll::Plimsoll;
use e2e::process::Guarded;
use e2e::serve::Serve;
use e2e::{port, program, wait};

#[test]
fn every_notation_is_read_and_a_master_is_recognised() {
    let serve = Serve::plain();
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let (address, stats) = (port::free(), port::free());
    let name = format!("plimsoll-e2e-{}", std::process::id());
    let at = |file: &str| folder.path().join(file).display().to_string();
    let backend = serve.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let config = format!(
        "global\n  stats socket {} level admin\n  stats socket ipv4@{stats} level admin\n  \
         stats socket abns@{name} level admin\ndefaults\n  mode http\n  timeout connect 5s\n  \
         timeout client 60s\n  timeout server 60s\nlisten sut\n  bind {address}\n  server s {backend}\n",
        at("stats.sock")
    );
    fs::write(at("haproxy.cfg"), config).expect("an own folder is writable");
    let mut command = Command::new(program::installed("haproxy"));
    command.args(["-W", "-db", "-S", &at("master.sock"), "-f", &at("haproxy.cfg")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _haproxy = Guarded::start(&mut command);
    wait::until("HAProxy to listen", || std::net::TcpStream::connect(address).ok());
    wait::until("HAProxy's statistics", || std::net::TcpStream::connect(stats).ok());
    let url = format!("http://{address}/");
    let port = stats.port();
    for (socket, is_master) in [
        (at("stats.sock"), false),
        (format!("unix@{}", at("stats.sock")), false),
        (format!("ipv4@{stats}"), false),
        (stats.to_string(), false),
        (format!(":{port}"), false),
        (format!("abns@{name}"), false),
        (at("master.sock"), true),
    ] {
        let watch = format!("haproxy:{socket}");
        let flags = ["--rate", "0", "-n", "20", "-c", "1", "--watch", &watch];
        let finished = Plimsoll::load(&url, &flags).run();
        let summary = finished.summary(0);
        summary.assert_all_ok(20);
        let what = "is the socket of HAProxy's master process";
        assert_eq!(finished.stderr.contains(what), is_master, "{socket}: {}", finished.stderr);
        let settings = summary.at("settings").to_string();
        assert_eq!(settings.contains(what), is_master, "{socket}: {settings}");
    }
    let none = ["load", &url, "-n", "1", "--rate", "0", "--watch", "haproxy:/nowhere.sock"];
    let finished = Plimsoll::new(none).run();
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(finished.stderr.contains("--watch haproxy:/nowhere.sock: "), "{}", finished.stderr);
}
