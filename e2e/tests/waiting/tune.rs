//! `tune apply` and `tune revert` that are killed while they write, at each record of their journal: the settings of a
//! network namespace of its own are afterwards what they were.
//!
//! A file that may not grow beyond a size kills whoever writes on (SIGXFSZ, which no program of ours handles): exactly
//! there, where a SIGKILL from outside would come at some time.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use e2e::certificate::Certificate;
use e2e::plimsoll::Plimsoll;
use e2e::process::Guarded;
use e2e::{port, program, wait};

const SCRIPT: &str = r#"
GOAL="-c 40k --role proxy --rate 1k --destinations 2"
settings() { cat /proc/sys/net/ipv4/* /proc/sys/net/core/* 2> /dev/null; }
apply() { "$0" tune apply $GOAL --yes --journal "$1" > /dev/null; }
revert() { "$0" tune revert --journal "$1" > /dev/null 2>&1; }
size() { stat -c %s "$1"/*/journal.jsonl; }
fail() { echo "$*"; exit 1; }
# The program within a limit of what it may write to a file.
within() { ( ulimit -c 0; exec prlimit --fsize="$1:$1" "$0" "${@:2}" > /dev/null 2>&1 ); }

before=$(settings)
apply whole || fail "the first apply ended with $?"
[ "$before" != "$(settings)" ] || fail "nothing was applied"
applied=$(size whole)
# Where each record begins, one byte into it, and half of it.
points=$(awk 'BEGIN { at = 0 } { print at, at + 1, at + int(length($0) / 2); at += length($0) + 1 }' whole/*/journal.jsonl)
revert whole || fail "the first revert ended with $?"
reverted=$(size whole)
[ "$before" = "$(settings)" ] || fail "not as before without any kill"
killed=0
for point in $points; do
    within "$point" tune apply $GOAL --yes --journal "apply-$point"
    [ $? = 153 ] || fail "apply was not killed at $point"
    revert "apply-$point"
    [ "$before" = "$(settings)" ] || fail "not as before after apply was killed at $point"
    killed=$((killed + 1))
done
for point in $(seq "$applied" $(((reverted - applied) / 8)) $((reverted - 1))); do
    apply "revert-$point" || fail "apply ended with $?"
    within "$point" tune revert --journal "revert-$point"
    [ $? = 153 ] || fail "revert was not killed at $point"
    revert "revert-$point"
    [ "$before" = "$(settings)" ] || fail "not as before after revert was killed at $point"
    killed=$((killed + 1))
done
echo "killed $killed times"
"#;

#[test]
fn who_is_killed_at_any_record_leaves_a_way_back() {
    let finished = Plimsoll::unshared("-n", SCRIPT, &[]).run();
    let (stdout, stderr) = (&finished.stdout, &finished.stderr);
    assert_eq!(finished.code, Some(0), "{stdout}{stderr}");
    let killed = stdout.trim().strip_prefix("killed ").and_then(|rest| rest.strip_suffix(" times"));
    let killed: u32 = killed.and_then(|count| count.parse().ok()).expect("a count");
    // A beginning, and two records for each of several settings, three points in each.
    assert!(killed >= 20, "{stdout}");
}

/// Returns a backend that answers each request with its head.
fn repeating() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let (mut head, mut part) = (Vec::new(), [0; 4096]);
                while let Ok(bytes @ 1..) = stream.read(&mut part) {
                    head.extend_from_slice(&part[..bytes]);
                    if head.ends_with(b"\r\n\r\n") {
                        let answer =
                            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", head.len());
                        if stream.write_all(&[answer.as_bytes(), &head].concat()).is_err() {
                            break;
                        }
                        head.clear();
                    }
                }
            });
        }
    });
    address
}

/// Returns the configuration for this user, with all files of the proxy in `folder`.
fn moved(text: &str, folder: &Path) -> String {
    let folder = folder.display();
    let words =
        ["user ", "group ", "chroot ", "log ", "stats ", "access_log ", "pid ", "error_log "];
    let is_of_host = |line: &&str| !words.iter().any(|word| line.trim_start().starts_with(word));
    let text: String = text.lines().filter(is_of_host).map(|line| format!("{line}\n")).collect();
    let text = text.replace("unix:/run/nginx-status.sock", &format!("unix:{folder}/status"));
    let Some((process, http)) = text.split_once("\nhttp {\n") else { return text };
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = kinds.map(|kind| format!("{kind}_temp_path {folder}/{kind};\n")).concat();
    let temporary = if http.contains("_temp_path") { String::new() } else { temporary };
    format!(
        "user root;\npid {folder}/pid;\nerror_log stderr;\ndaemon off;\n{process}\n\
         http {{\naccess_log off;\n{temporary}{http}"
    )
}

#[test]
fn generated_configurations_serve_clients_and_pass_on_who_they_are() {
    let certificate = Certificate::new();
    let backend = repeating().to_string();
    for (name, check) in [("haproxy", "-f"), ("nginx", "-c")] {
        let listen = port::free();
        let both = certificate.both().display().to_string();
        let (goal, listen_at) =
            (["-c", "500", "--rate", "100", "--cores", "2"], listen.to_string());
        let places =
            ["--cert", &both, "--backend", &backend, "--listen", &listen_at, "--out", "cfg"];
        let ran = Plimsoll::new([&["tune", name][..], &goal, &places].concat()).run();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let folder = tempfile::tempdir().expect("the temporary directory is writable");
        let written = fs::read_to_string(ran.folder().join("cfg")).expect("it was written");
        let path = folder.path().join("cfg");
        fs::write(&path, moved(&written, folder.path())).expect("an own folder is writable");
        let mut command = Command::new(program::installed(name));
        command.arg(check).arg(&path).stdin(Stdio::null());
        if name == "haproxy" {
            command.arg("-db");
        }
        let _running = Guarded::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        wait::until("the proxy to listen", || wait::accepts(listen).then_some(()));
        for version in [&["--http1.1", "--tls-max", "1.2"][..], &["--http2"]] {
            let url = format!("https://{listen}/a");
            let mut curl = Command::new(program::installed("curl"));
            curl.args(["-sk", "-H", "X-Forwarded-For: 192.0.2.66"]).args(version).arg(url);
            let output = curl.stdin(Stdio::null()).output().expect("curl can be run");
            let head = String::from_utf8_lossy(&output.stdout).to_lowercase();
            let host = format!("host: {listen}\r\n");
            for part in ["get /a http/1.1", &host, "x-forwarded-proto: https\r\n"] {
                assert!(head.contains(part), "{name}: {part} is not in {head}");
            }
            let clients: Vec<_> =
                head.lines().filter(|line| line.starts_with("x-forwarded-for:")).collect();
            assert_eq!(clients, ["x-forwarded-for: 127.0.0.1"], "{name}: {head}");
        }
    }
}
