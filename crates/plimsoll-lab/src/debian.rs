//! What Debian's packages install, completed by a frontend and a backend in the fewest words: what a
//! configuration is compared with.
//!
//! Users, daemon mode and places differ, because a laboratory needs no privileges.

use plimsoll_tune::proxy::{Program, Version};

use crate::proxy_plan::ProxyPlan;
use crate::{haproxy, nginx};

/// The hard limit of open files of a systemd service, from which HAProxy computes its maxconn.
const UNIT_DESCRIPTORS: u64 = 524_288;
/// That maxconn: two open files for each connection, and some besides.
const HAPROXY_MAXCONN: u64 = 262_000;
/// Connections of one worker of nginx, those to the servers behind it counted.
const NGINX_PER_WORKER: u64 = 768;

/// Proxied connections that the configuration allows on so many CPUs.
pub fn debian_connections(program: Program, cores: u32) -> u64 {
    match program {
        Program::Haproxy => HAPROXY_MAXCONN,
        Program::Nginx => NGINX_PER_WORKER / 2 * u64::from(cores),
    }
}

/// Debian's haproxy.cfg (2.6): every request is logged, and sessions are cached, not sent as tickets.
pub(crate) fn haproxy(plan: &ProxyPlan, version: Version) -> String {
    let mut text = String::with_capacity(2_048);
    let text = &mut text;
    let log = Program::Haproxy.word(&plan.log());
    line!(text, "global");
    line!(text, "    log {log} local0");
    line!(text, "    log {log} local1 notice");
    line!(
        text,
        "    stats socket {} mode 660 level admin",
        Program::Haproxy.word(&plan.stats_socket)
    );
    line!(text, "    stats timeout 30s");
    if version >= (2, 6) {
        line!(text, "    # LimitNOFILE of the unit");
        line!(text, "    fd-hard-limit {UNIT_DESCRIPTORS}");
    }
    line!(text, "    nbthread {}", plan.threads.clamp(1, haproxy::THREADS_MAX));
    line!(
        text,
        "    ssl-default-bind-ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
         ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:\
         ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384"
    );
    line!(
        text,
        "    ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:\
         TLS_CHACHA20_POLY1305_SHA256"
    );
    line!(text, "    ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets");
    line!(text, "defaults");
    line!(text, "    log global");
    line!(text, "    mode http");
    line!(text, "    option httplog");
    line!(text, "    option dontlognull");
    line!(text, "    timeout connect 5000");
    line!(text, "    timeout client 50000");
    line!(text, "    timeout server 50000");
    haproxy::render_proxies(plan, text);
    std::mem::take(text)
}

/// Debian's nginx.conf (1.22): 768 connections in a worker, and HTTP/1.0 to the servers behind it.
pub(crate) fn nginx(plan: &ProxyPlan) -> String {
    let mut text = String::with_capacity(2_048);
    let text = &mut text;
    line!(text, "pid nginx.pid;");
    line!(text, "error_log stderr warn;");
    line!(text, "worker_processes {};", plan.threads.max(1));
    line!(text, "events {{ worker_connections {NGINX_PER_WORKER}; }}");
    line!(text, "http {{");
    line!(text, "    sendfile on;");
    line!(text, "    tcp_nopush on;");
    line!(text, "    types_hash_max_size 2048;");
    line!(text, "    ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;");
    line!(text, "    ssl_prefer_server_ciphers on;");
    line!(text, "    access_log {};", Program::Nginx.word(&plan.log()));
    line!(text, "    gzip on;");
    nginx::render_temporary(text);
    line!(text, "    upstream backends {{");
    for backend in &plan.backends {
        line!(text, "        server {backend};");
    }
    line!(text, "    }}");
    line!(text, "    server {{");
    nginx::render_listen(plan, "", text);
    line!(text, "        location / {{ proxy_pass http://backends; }}");
    line!(text, "    }}");
    if plan.stub_status {
        nginx::render_status(plan, text);
    }
    line!(text, "}}");
    std::mem::take(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::program::tests::{installed, write_certificate};
    use crate::settings::{ProxyConfiguration, SutSettings};

    #[test]
    fn both_programs_accept_it_and_it_is_rendered_where_it_is_asked_for() {
        let scratch = tempfile::Builder::new().prefix("plimsoll debian ").tempdir().unwrap();
        let settings =
            SutSettings { configuration: ProxyConfiguration::Debian, ..SutSettings::default() };
        let plan = ProxyPlan { settings, ..ProxyPlan::sample(scratch.path()) };
        write_certificate(&plan.certificate_pem_path);
        let config = scratch.path().join("config");
        let text = haproxy::render(&plan, (2, 6));
        assert!(text.contains("no-tls-tickets") && text.contains("option httplog"), "{text}");
        fs::write(&config, text).unwrap();
        haproxy::check(&installed("haproxy", "haproxy"), &config).unwrap();
        let text = nginx::render(&plan, (1, 22));
        assert!(text.contains("worker_connections 768"), "{text}");
        fs::write(&config, text).unwrap();
        nginx::check(&installed("nginx", "nginx-light"), &config, scratch.path()).unwrap();
    }
}
