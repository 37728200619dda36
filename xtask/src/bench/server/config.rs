//! The configurations of nginx and HAProxy: one process and one thread, an answer from memory, and idle
//! timeouts longer than any measurement.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::bench::server::Addresses;

pub(super) const NGINX: &str = "nginx.conf";
pub(super) const HAPROXY: &str = "server.cfg";

/// Connections that either may hold. Descriptors are 20,000 on the machines that these figures
/// are for, and each server has some for itself.
const CONNECTIONS_MAX: u32 = 19_000;

/// Writes a key and a certificate, apart for nginx and in one file for HAProxy.
pub(super) fn write_certificate(folder: &Path) -> Result<()> {
    let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
                   -subj /CN=localhost -keyout key.pem -out cert.pem";
    let output = Command::new("openssl")
        .args(request.split_ascii_whitespace())
        .current_dir(folder)
        .output()
        .context("openssl: apt-get install openssl")?;
    if !output.status.success() {
        bail!("openssl: {}", String::from_utf8_lossy(&output.stderr));
    }
    let read = |name| fs::read_to_string(folder.join(name));
    Ok(fs::write(folder.join("both.pem"), read("cert.pem")? + &read("key.pem")?)?)
}

/// Returns the configuration of one process without a master, so that killing it leaves nothing behind. No tickets and
/// no cache but where tickets are asked for: every handshake is a full one.
pub(super) fn nginx(addresses: Addresses) -> String {
    let Addresses { plain, tls, tickets } = addresses;
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path temp_{kind};\n"))
        .concat();
    let answer = "location / { return 200 \"pong\"; }";
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr crit;\n\
         events {{ worker_connections {CONNECTIONS_MAX}; }}\n\
         http {{\n{paths}  access_log off;\n  keepalive_requests 1000000000;\n\
         \x20 keepalive_timeout 1h;\n  client_header_timeout 1h;\n\
         \x20 ssl_certificate cert.pem;\n  ssl_certificate_key key.pem;\n\
         \x20 ssl_protocols TLSv1.3;\n  ssl_session_cache off;\n\
         \x20 ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;\n\
         \x20 server {{\n    listen {plain};\n    listen {tls} ssl;\n\
         \x20   ssl_session_tickets off;\n    {answer}\n  }}\n\
         \x20 server {{\n    listen {tickets} ssl;\n    ssl_session_tickets on;\n    {answer}\n  }}\n}}\n"
    )
}

/// Returns the configuration of HAProxy. Without `no strict-limits` it would refuse to start, because it counts two
/// descriptors per connection, one for a server that is not there.
pub(super) fn haproxy(addresses: Addresses) -> String {
    let Addresses { plain, tls, tickets } = addresses;
    // One suite for every client: with a choice, each would get the one that it likes best.
    let secure = "ssl crt both.pem ssl-min-ver TLSv1.3 ciphersuites TLS_AES_128_GCM_SHA256";
    format!(
        "global\n  no strict-limits\n  maxconn {CONNECTIONS_MAX}\n  nbthread 1\n\
         \x20 tune.ssl.cachesize 0\n\
         defaults\n  mode http\n  maxconn {CONNECTIONS_MAX}\n  timeout client 1h\n\
         \x20 timeout http-request 1h\n  timeout http-keep-alive 1h\n\
         frontend pong\n  bind {plain}\n  bind {tls} {secure} no-tls-tickets\n\
         \x20 bind {tickets} {secure}\n\
         \x20 http-request return status 200 content-type text/plain string pong\n"
    )
}
