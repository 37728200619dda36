//! The user memory of a held connection: plimsoll's client beside every peer on the machine,
//! and `serve` beside nginx and HAProxy.

mod holder;

use anyhow::{Result, bail};
use serde_json::json;

use crate::bench::comparison::{Comparison, Entrant, Series, Target};
use crate::bench::results::{Results, Spread};
use crate::bench::server::{Server, ServerKind};
use crate::bench::tool::Tool;
use crate::bench::{Bench, CLIENT_CPU, SERVER_CPU};
use holder::{FEW, Holder, Load, Spoken, Way};

const ROUNDS: u32 = 3;
/// The first for all, the others for plimsoll's client and for servers alone: one process each, in
/// 20,000 descriptors.
const SIZES: [u32; 2] = [2_000, 15_000];
const SIZE_MAX: u32 = 18_000;
/// The most that plimsoll may need, kB per connection.
const CLIENT_KB_MAX: f64 = 0.45;
const SERVER_KB_MAX: f64 = 0.6;
/// The most for sessions of HTTP/2 and WebSocket.
const CLIENT_SESSION_KB_MAX: f64 = 0.30;
const SERVER_SESSION_KB_MAX: f64 = 0.35;
/// A virtual user of k6 is a JavaScript machine of 1 to 5 MB.
const K6_CONNECTIONS_MAX: u32 = 200;

/// One program and a number of connections with which it is measured.
struct Subject {
    name: &'static str,
    /// Opener of the connections.
    way: Way,
    /// The server whose memory is read; without one it is the client's.
    server: Option<ServerKind>,
    size: u32,
    /// kB per connection, each round.
    tls: Series,
    plain: Series,
    /// All of it with TLS, MB.
    whole_mb: Vec<f64>,
}

/// Measures all rounds and fills the results.
pub(crate) fn measure(bench: &Bench, results: &mut Results) -> Result<()> {
    let rounds = bench.settings.rounds_or(ROUNDS);
    let sizes = bench.settings.sizes_or(&SIZES);
    if let Some(size) = sizes.iter().find(|size| !(FEW * 2..=SIZE_MAX).contains(*size)) {
        bail!("--connections {size}: memory is measured with {} to {SIZE_MAX}", FEW * 2);
    }
    results.method = method(rounds);
    let mut subjects = subjects(bench, &sizes, results);
    for round in 1..=rounds {
        for subject in &mut subjects {
            subject.measure(bench, round, results);
        }
    }
    let sessions = SESSIONS.iter().map(|session| session.comparison(&subjects));
    for comparison in [client(&subjects), server(&subjects)].into_iter().chain(sessions) {
        comparison.row().into_iter().for_each(|row| results.row(row, ""));
    }
    results.figures.extend(subjects.iter().map(Subject::figure));
    Ok(())
}

/// Returns every client and every server at the sizes that are asked of it. Missing peers are named.
fn subjects(bench: &Bench, sizes: &[u32], results: &mut Results) -> Vec<Subject> {
    let new = |name, way, server, size| Subject {
        name,
        way,
        server,
        size,
        tls: Series::default(),
        plain: Series::default(),
        whole_mb: Vec::new(),
    };
    let held = |size: &u32| new("plimsoll hold, idle", Way::Hold(Spoken::Http1), None, *size);
    let mut all: Vec<Subject> = sizes.iter().map(held).collect();
    let least = sizes[0];
    for tool in [Tool::Plimsoll].into_iter().chain(Tool::PEERS) {
        if bench.tools.has(tool) {
            let size = if tool == Tool::K6 { least.min(K6_CONNECTIONS_MAX) } else { least };
            let name = match tool {
                Tool::Plimsoll => "plimsoll load, awaiting answers",
                peer => peer.name(),
            };
            all.push(new(name, Way::Awaiting(tool), None, size));
        } else {
            results.missing.push(tool.missing());
        }
    }
    let servers = |kind: ServerKind| {
        let way = Way::Hold(Spoken::Http1);
        sizes.iter().map(move |size| new(kind.name(), way, Some(kind), *size))
    };
    all.extend(ServerKind::ALL.into_iter().flat_map(servers));
    let most = sizes[sizes.len() - 1];
    all.extend(SESSIONS.iter().map(|of| new(of.name, Way::Hold(of.spoken), of.server(), most)));
    all
}

impl Subject {
    /// Measures one round, with TLS and without.
    fn measure(&mut self, bench: &Bench, round: u32, results: &mut Results) {
        for is_tls in [true, false] {
            let layer = if is_tls { "TLS 1.3" } else { "plain" };
            let what = format!("{}, {} connections, {layer}, round {round}", self.name, self.size);
            let loads = self.weigh(bench, is_tls, results);
            match &loads {
                Ok([few, many]) => println!(
                    "memory: {what}: {} bytes with {} connections, {} with {}",
                    few.bytes, few.connections, many.bytes, many.connections
                ),
                Err(error) => results.fail(format!("{what}: {error:#}")),
            }
            let loads = loads.ok();
            let series = if is_tls { &mut self.tls } else { &mut self.plain };
            series.0.push(loads.and_then(kb_each));
            if is_tls {
                self.whole_mb.extend(loads.map(|[_, many]| many.bytes as f64 / 1e6));
            }
        }
    }

    /// With few connections, then with many: a client in its own process each time, a server in
    /// the same process, which is a new one in each round, because none gives everything back.
    fn weigh(&self, bench: &Bench, is_tls: bool, results: &mut Results) -> Result<[Load; 2]> {
        let kind = self.server.unwrap_or(ServerKind::Plimsoll);
        let server = Server::start(kind, &bench.tools.plimsoll, &bench.scratch)?;
        if is_tls {
            results.note_command(self.way.shown("https://ADDRESS/", self.size));
            results.note_command(kind.shown());
        }
        let mut loads = [Load::default(); 2];
        for (load, connections) in loads.iter_mut().zip([FEW, self.size]) {
            let holder = Holder::start(bench, self.way, &server, is_tls, connections)?;
            let pid = if self.server.is_some() { server.pid() } else { holder.pid() };
            *load = holder.weigh(pid)?;
            holder.kill()?;
        }
        Ok(loads)
    }

    fn figure(&self) -> serde_json::Value {
        let kind = if self.server.is_some() { "server" } else { "client" };
        json!({
            "what": format!("{kind} user memory per held connection, kB"),
            "who": self.name, "connections": self.size,
            "tls_13": self.tls.spread(), "tls_13_rounds": self.tls.0,
            "plain": self.plain.spread(), "plain_rounds": self.plain.0,
            "all_with_tls_mb": Spread::of(self.whole_mb.iter().copied()),
        })
    }

    fn entrant(&self, name: &'static str) -> Entrant {
        Entrant { series: self.tls.clone(), ..Entrant::new(name, None) }
    }
}

/// The state that one side holds once connections have agreed on a protocol with state of its own.
struct Session {
    id: &'static str,
    what: &'static str,
    name: &'static str,
    spoken: Spoken,
    is_served: bool,
}

const SESSIONS: [Session; 4] = [
    Session {
        id: "client-memory-http2",
        what: "client user memory per held, idle HTTP/2 session over TLS 1.3, one process, kB",
        name: "plimsoll hold, HTTP/2",
        spoken: Spoken::Http2,
        is_served: false,
    },
    Session {
        id: "client-memory-websocket",
        what: "client user memory per held, idle WebSocket over TLS 1.3, one process, kB",
        name: "plimsoll hold, WebSocket",
        spoken: Spoken::WebSocket,
        is_served: false,
    },
    Session {
        id: "server-memory-http2",
        what: "server user memory per held HTTP/2 session over TLS 1.3 (`serve`), kB",
        name: "plimsoll serve, HTTP/2",
        spoken: Spoken::Http2,
        is_served: true,
    },
    Session {
        id: "server-memory-websocket",
        what: "server user memory per held WebSocket over TLS 1.3 (`serve`), kB",
        name: "plimsoll serve, WebSocket",
        spoken: Spoken::WebSocket,
        is_served: true,
    },
];

impl Session {
    fn server(&self) -> Option<ServerKind> {
        self.is_served.then_some(ServerKind::Plimsoll)
    }

    fn comparison(&self, all: &[Subject]) -> Comparison {
        let max = if self.is_served { SERVER_SESSION_KB_MAX } else { CLIENT_SESSION_KB_MAX };
        let ours = all.iter().filter(|subject| subject.name == self.name);
        let Self { id, what, .. } = *self;
        let target = Some(Target::AtMost { max });
        let entrants = ours.map(|subject| subject.entrant(subject.name)).collect();
        Comparison { id, what, target, decimals: 3, entrants }
    }
}

/// plimsoll idle in the fullest process, which is what one process is filled with, beside peers.
fn client(all: &[Subject]) -> Comparison {
    let clients = || all.iter().filter(|subject| subject.server.is_none());
    let ours = clients().filter(|subject| subject.way == Way::Hold(Spoken::Http1));
    let ours = ours.max_by_key(|subject| subject.size);
    let peers = clients().filter(|subject| subject.way.tool() != Tool::Plimsoll);
    Comparison {
        id: "client-memory",
        what: "client user memory per held, idle TLS 1.3 connection, one process, kB",
        target: Some(Target::AtMost { max: CLIENT_KB_MAX }),
        decimals: 3,
        entrants: ours.into_iter().chain(peers).map(|of| of.entrant(of.name)).collect(),
    }
}

/// Returns the comparison of `serve` with the others at the largest size.
fn server(all: &[Subject]) -> Comparison {
    let of = |kind| {
        let is_asked = move |subject: &&Subject| {
            subject.server == Some(kind) && subject.way == Way::Hold(Spoken::Http1)
        };
        let servers = all.iter().filter(is_asked);
        servers.max_by_key(|subject| subject.size).map(|subject| subject.entrant(kind.name()))
    };
    Comparison {
        id: "server-memory",
        what: "server user memory per held TLS 1.3 connection (`serve`), kB",
        target: Some(Target::AtMost { max: SERVER_KB_MAX }),
        decimals: 3,
        entrants: ServerKind::ALL.into_iter().filter_map(of).collect(),
    }
}

/// May be below zero, where memory of the start was given back.
fn kb_each([few, many]: [Load; 2]) -> Option<f64> {
    let connections = many.connections.checked_sub(few.connections).filter(|more| *more > 0)?;
    Some((many.bytes as f64 - few.bytes as f64) / connections as f64 / 1e3)
}

fn method(rounds: u32) -> String {
    format!(
        "User memory is the proportional set size of a process and of all that it started, from \
         smaps_rollup, once nothing moves any more: with all connections, minus with {FEW}, over the \
         connections between. Fixed cost cancels out; `all_with_tls_mb` is the whole. Medians over \
         {rounds} rounds that take turns. Clients run on CPU {CLIENT_CPU}, servers on CPU \
         {SERVER_CPU}, each with one thread. Peers cannot hold a connection in silence: each sends \
         one request per connection, which `plimsoll serve` leaves unanswered (`sleep-fixed`); \
         plimsoll is measured in the same way, and also idle. Servers hold connections that plimsoll \
         opened and on which nothing was sent after the handshake; nginx allocates memory for each of \
         its 19,000 connections at its start, which is not in its figure."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::Outcome;

    fn subject(way: Way, server: Option<ServerKind>, size: u32, kb: f64) -> Subject {
        let (name, series) = (way.tool().name(), Series(vec![Some(kb)]));
        Subject { name, way, server, size, tls: series.clone(), plain: series, whole_mb: vec![1.0] }
    }

    #[test]
    fn the_fullest_process_is_judged_beside_the_best_peer() {
        let all = [
            subject(Way::Hold(Spoken::Http1), None, 2_000, 0.1),
            subject(Way::Hold(Spoken::Http1), None, 15_000, 9.0),
            subject(Way::Awaiting(Tool::Plimsoll), None, 2_000, 1.0),
            subject(Way::Awaiting(Tool::Wrk), None, 2_000, 54.0),
            subject(Way::Awaiting(Tool::Oha), None, 2_000, 36.0),
            subject(Way::Hold(Spoken::Http1), Some(ServerKind::Plimsoll), 15_000, 0.5),
            subject(Way::Hold(Spoken::Http1), Some(ServerKind::Haproxy), 15_000, 20.0),
            subject(Way::Hold(Spoken::Http1), Some(ServerKind::Haproxy), 2_000, 1.0),
        ];
        let row = client(&all).row().unwrap();
        assert_eq!(row.peers, "oha 36.00 (36.00 - 36.00), wrk 54.00");
        assert_eq!((&*row.ratio, row.outcome), ("0.250 (0.250 - 0.250)", Outcome::NotReached));
        let row = server(&all).row().unwrap();
        assert_eq!((&*row.ours, row.outcome), ("0.50 (0.50 - 0.50)", Outcome::Reached));
        assert_eq!(row.peers, "HAProxy 20.00 (20.00 - 20.00)");
    }

    #[test]
    fn fixed_cost_cancels_out() {
        let load = |connections, bytes| Load { connections, bytes };
        assert_eq!(kb_each([load(20, 5_000_000), load(2_020, 9_000_000)]), Some(2.0));
        assert_eq!(kb_each([load(20, 7), load(20, 9)]), None);
    }
}
