//! Our record layer against TLS of other makes, in all suites: OpenSSL, HAProxy (OpenSSL too, but
//! with its own buffers), curl and Go's crypto/tls. All of it by what the other side makes of our
//! bytes.

use std::process::{Command, Stdio};

use e2e::certificate::Certificate;
use e2e::conversation::Conversation;
use e2e::haproxy::Haproxy;
use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;
use e2e::{port, program};

/// Suites as OpenSSL names them, with their version.
const SUITES: [(&str, &str); 6] = [
    ("1.3", "TLS_AES_128_GCM_SHA256"),
    ("1.3", "TLS_AES_256_GCM_SHA384"),
    ("1.3", "TLS_CHACHA20_POLY1305_SHA256"),
    ("1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"),
];

fn serve_tls(certificate: &Certificate) -> Serve {
    let (chain, key) = (certificate.chain_argument(), certificate.key_argument());
    // One process: each has its own ticket keys.
    let flags = ["--https", "127.0.0.1:0", "--cert", &chain, "--key", &key, "--processes", "1"];
    Serve::start(&flags, 1)
}

/// Returns an openssl command that says things when they happen, also into a pipe.
fn openssl(command: &str) -> Command {
    let mut unbuffered = Command::new(program::installed("stdbuf"));
    unbuffered.arg("-o0").arg(program::installed("openssl")).arg(command);
    unbuffered
}

#[test]
fn haproxy_and_our_client_agree_in_every_suite() {
    let certificate = Certificate::new();
    let (both, chain) = (certificate.both().display().to_string(), certificate.chain_argument());
    // Several records for each answer, so that reads split them.
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let body = folder.path().join("body");
    std::fs::write(&body, vec![b'x'; 12_000]).expect("an own folder is writable");
    let rule = format!(
        "    http-request return status 200 content-type text/plain file {}",
        body.display()
    );
    for (version, suite) in SUITES {
        let option = if version == "1.3" { "ciphersuites" } else { "ciphers" };
        let bind = format!("ssl crt {both} {option} {suite}");
        let haproxy = Haproxy::start(&bind, &rule, "");
        let flags = ["--cacert", &chain, "--tls", version];
        // On a busy machine four connections take seconds for what comes due in 0.4 s.
        let brisk = ["--rate", "500", "-n", "200", "-c", "4", "--deadline", "60s"];
        for more in [&["--resume", "0.5"][..], &["--resume", "1", "--no-keepalive"]] {
            let flags = [&flags[..], &brisk, more].concat();
            let summary = Plimsoll::load(&haproxy.url("https"), &flags).run().summary(0);
            summary.assert_all_ok(200);
        }
        assert_eq!(haproxy.count("hrsp_2xx"), 400, "{suite}");
    }
}

#[test]
fn curl_and_our_server_agree_in_every_suite() {
    let certificate = Certificate::new();
    let serve = serve_tls(&certificate);
    let chain = certificate.chain_argument();
    let upload = certificate.both().with_file_name("upload");
    std::fs::write(&upload, vec![7; 300_000]).expect("an own folder is writable");
    let data = format!("@{}", upload.display());
    for (version, suite) in SUITES {
        let option = if version == "1.3" { "--tls13-ciphers" } else { "--ciphers" };
        let output = Command::new(program::installed("curl"))
            .args(["-sS", "--max-time", "30", "--noproxy", "*", "--cacert", &chain])
            .args(["--tls-max", version, option, suite, "-H", "size: 400000"])
            .args(["--data-binary", &data, "-H", "Expect:"])
            // Twice over one connection.
            .args([serve.url(), serve.url()])
            .stdin(Stdio::null())
            .output()
            .expect("an installed program can be run");
        assert!(output.status.success(), "{suite}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout.len(), 800_000, "{suite}");
    }
    let (requests, _) = serve.stop();
    assert_eq!(requests, 2 * SUITES.len() as u64);
}

#[test]
fn our_server_survives_openssls_key_updates() {
    let certificate = Certificate::new();
    let serve = serve_tls(&certificate);
    let mut command = openssl("s_client");
    command.args(["-tls1_3", "-connect", &serve.address().to_string()]);
    let mut client = Conversation::start(&mut command);
    client.wait_for("New Session Ticket arrived", 2);
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut answers = 0;
    // k renews one direction; K asks for the other one to be renewed, too.
    for (round, update) in ["k\n", "K\n", "K\n", "k\n"].into_iter().enumerate() {
        client.write(request);
        answers += 1;
        client.wait_for("pong", answers);
        client.write(update);
        client.wait_for("KEYUPDATE", round + 1);
    }
    client.write(request);
    client.wait_for("pong", answers + 1);
    assert!(!client.text().contains("alert"), "{}", client.text());
}

#[test]
fn our_client_survives_openssls_key_updates() {
    let certificate = Certificate::new();
    let address = port::free();
    let mut command = openssl("s_server");
    command.args(["-accept", &address.to_string(), "-cert"]);
    command.arg(certificate.chain()).arg("-key").arg(certificate.key());
    let mut server = Conversation::start(&mut command);
    server.wait_for("ACCEPT", 1);
    let (url, chain) = (format!("https://{address}/"), certificate.chain_argument());
    let flags = ["-c", "1", "--rate", "0", "-n", "9", "--cacert", &chain, "--tls", "1.3"];
    let load = Plimsoll::load(&url, &flags).start();
    for round in 1..=9 {
        server.wait_for("GET / HTTP/1.1", round);
        // A letter that is read by itself is a command.
        for update in ["k\n", "K\n", "K\n"].iter().take(round % 4) {
            let updates = server.text().matches("SSL_do_handshake").count();
            server.write(update);
            server.wait_for("SSL_do_handshake", updates + 1);
        }
        server.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
    load.finish().summary(0).assert_all_ok(9);
}

#[test]
fn go_agrees_with_our_client_and_our_server() {
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let Some(peer) = program::of_go_source("peer", folder.path()) else { return };
    let certificate = Certificate::new();
    let (chain, key) = (certificate.chain_argument(), certificate.key_argument());
    let serve = serve_tls(&certificate);
    for version in ["1.2", "1.3"] {
        let output = Command::new(&peer)
            .args(["client", &serve.address().to_string(), &chain, version, "20"])
            .stdin(Stdio::null())
            .output()
            .expect("it has just been built");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "19", "TLS {version}");

        let mut command = Command::new(&peer);
        let server = Conversation::start(command.args(["server", &chain, &key, version]));
        server.wait_for("\n", 1);
        let url = format!("https://{}/", server.text().trim());
        let flags = ["-c", "4", "--rate", "500", "-n", "200", "--cacert", &chain];
        for more in [&[][..], &["--resume", "1", "--no-keepalive"]] {
            let flags = [&flags[..], more].concat();
            Plimsoll::load(&url, &flags).run().summary(0).assert_all_ok(200);
        }
    }
}
