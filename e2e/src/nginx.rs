//! A real nginx that answers by itself, counts, and logs one line per request.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::process::Guarded;
use crate::{port, program, wait};

/// A running nginx with one server block.
#[derive(Debug)]
pub struct Nginx {
    /// Address at which it answers `pong`.
    pub address: SocketAddr,
    guarded: Guarded,
    folder: TempDir,
}

/// One request, as nginx saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The client's address.
    pub remote: String,
    /// The connection's number.
    pub connection: u64,
    /// Number of requests that this connection had carried, with this one.
    pub request_of_connection: u64,
    /// The TLS version, or `-`.
    pub tls: String,
    /// The status of the answer.
    pub status: u16,
    /// The request line.
    pub request: String,
}

impl Nginx {
    /// Starts one on 127.0.0.1; `directives` stand in its server block, where `limit_conn clients N` limits the
    /// requests of all clients that are in process, and `ssl` says whether it listens with TLS.
    pub fn start(ssl: bool, directives: &str) -> Self {
        Self::start_at(port::free(), ssl, directives)
    }

    /// Starts one with `main` outside of its blocks.
    pub fn start_with(main: &str, directives: &str) -> Self {
        Self::launch(port::free(), main, false, directives)
    }

    /// Starts one at `address`.
    pub fn start_at(address: SocketAddr, ssl: bool, directives: &str) -> Self {
        Self::launch(address, "", ssl, directives)
    }

    fn launch(address: SocketAddr, main: &str, ssl: bool, directives: &str) -> Self {
        let folder = tempfile::tempdir().expect("the temporary directory is writable");
        let path = folder.path().display();
        let ssl = if ssl { " ssl" } else { "" };
        // `user` keeps a master that is root from starting workers that cannot read this folder;
        // others ignore it with a warning.
        let config = format!(
            "user root;\npid {path}/pid;\nerror_log {path}/error.log;\nworker_processes 1;\n{main}\n\
             events {{ worker_connections 4096; }}\n\
             http {{\n\
             log_format e2e '$remote_addr $connection $connection_requests $ssl_protocol $status \
             $request';\n\
             client_body_temp_path {path}/body;\nproxy_temp_path {path}/proxy;\n\
             fastcgi_temp_path {path}/fastcgi;\nuwsgi_temp_path {path}/uwsgi;\n\
             scgi_temp_path {path}/scgi;\nkeepalive_requests 1000000;\n\
             limit_conn_zone $server_port zone=clients:64k;\n\
             server {{\nlisten {address}{ssl} backlog=4096;\naccess_log {path}/access.log e2e;\n\
             {directives}\nlocation / {{ return 200 'pong'; }}\n}}\n}}\n"
        );
        fs::write(folder.path().join("nginx.conf"), config).expect("an own folder is writable");
        let mut command = Command::new(program::installed("nginx"));
        command.arg("-p").arg(folder.path()).arg("-c").arg(folder.path().join("nginx.conf"));
        command.args(["-g", "daemon off;"]).stdin(Stdio::null()).stderr(Stdio::null());
        let mut guarded = Guarded::start(&mut command);
        wait::until("nginx to listen", || {
            assert!(guarded.ended().is_none(), "nginx: {}", error_log(&folder));
            wait::accepts(address).then_some(())
        });
        Self { address, guarded, folder }
    }

    /// Returns the master process.
    pub fn pid(&self) -> u32 {
        self.guarded.pid()
    }

    /// Returns the URL of its root.
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/", self.address)
    }

    /// Requests logged so far.
    pub fn log(&self) -> Vec<Logged> {
        let text = fs::read_to_string(self.log_path()).unwrap_or_default();
        // A line without an end is still being written.
        text.split_inclusive('\n').filter_map(|line| logged(line.strip_suffix('\n')?)).collect()
    }

    /// Waits until nginx has logged at least `count` requests.
    pub fn wait_for_requests(&self, count: usize) {
        wait::until("requests", || (self.log().len() >= count).then_some(()));
    }

    /// Returns the log, once it has `count` lines; nginx writes a line after it has sent the answer.
    pub fn log_of(&self, count: u64) -> Vec<Logged> {
        let enough = wait::within(wait::PATIENCE, &mut || {
            Some(self.log()).filter(|log| log.len() as u64 >= count)
        });
        let log = enough.unwrap_or_else(|| self.log());
        assert_eq!(log.len() as u64, count, "requests that nginx counted");
        log
    }

    /// Ends it and all its connections at once.
    pub fn kill(&mut self) {
        self.guarded.kill();
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("access.log")
    }
}

fn error_log(folder: &TempDir) -> String {
    fs::read_to_string(folder.path().join("error.log")).unwrap_or_default()
}

fn logged(line: &str) -> Option<Logged> {
    let mut fields = line.splitn(6, ' ');
    Some(Logged {
        remote: fields.next()?.to_owned(),
        connection: fields.next()?.parse().ok()?,
        request_of_connection: fields.next()?.parse().ok()?,
        tls: fields.next()?.to_owned(),
        status: fields.next()?.parse().ok()?,
        request: fields.next()?.to_owned(),
    })
}
