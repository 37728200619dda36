//! What a held connection costs in user memory: plimsoll's client beside every peer on the machine,
//! and `serve` beside nginx and HAProxy.

mod client;
mod holder;
mod server;
mod weight;

use std::fmt::Write;

use anyhow::{Result, bail};

use crate::bench::page::Section;
use crate::bench::{Bench, CLIENT_CPU, SERVER_CPU};
use holder::FEW;
use weight::Pair;

const ROUNDS: u32 = 3;
/// The first for all, the others for plimsoll's client and for servers alone: one process each, in
/// 20,000 descriptors.
const SIZES: [u32; 2] = [2_000, 15_000];
const SIZE_MAX: u32 = 18_000;

/// Measures all rounds and fills the section.
pub(crate) fn measure(bench: &Bench, section: &mut Section) -> Result<()> {
    let rounds = bench.settings.rounds_or(ROUNDS);
    let sizes = bench.settings.sizes_or(&SIZES);
    if let Some(size) = sizes.iter().find(|size| !(FEW * 2..=SIZE_MAX).contains(*size)) {
        bail!("--connections {size}: memory is measured with {} to {SIZE_MAX}", FEW * 2);
    }
    section.method = method(rounds);
    let mut clients = client::entries(bench, &sizes, section);
    let mut servers = server::entries(&sizes);
    for round in 1..=rounds {
        for client in &mut clients {
            client.measure(bench, round, section);
        }
        for server in &mut servers {
            server.measure(bench, round, section);
        }
    }
    section.read(client::reading(&clients));
    section.read(server::reading(&servers));
    section.figures = format!("{}\n{}", client::table(&clients), server::table(&servers));
    Ok(())
}

fn method(rounds: u32) -> String {
    format!(
        "User memory is the proportional set size of a process and of all that it started, from \
         smaps_rollup,\nonce nothing moves any more: with all connections, minus with {FEW}, over \
         the connections between. Fixed\ncost cancels out; the whole is in the last column. kB are \
         1000 bytes; medians over {rounds} rounds that take\nturns, with the range in brackets. \
         Clients run on CPU {CLIENT_CPU}, servers on CPU {SERVER_CPU}, each with one thread.\n\n\
         Peers cannot hold a connection in silence. Each sends one request per connection, which \
         `plimsoll\nserve` leaves unanswered (`sleep-fixed`); plimsoll is measured in the same way, \
         and also idle.\nServers hold connections that plimsoll opened and on which nothing was \
         sent after the handshake; nginx\nhas taken memory for each of its 19,000 connections \
         before the first one, which is not in its figure.\n"
    )
}

/// Programs with their connections, as a table.
fn rows<'a>(heading: &str, entries: impl Iterator<Item = (&'a str, u32, &'a Pair)>) -> String {
    let mut text = format!(
        "| {heading} | connections | TLS 1.3, kB each | plain, kB each | all with TLS, MB |\n\
         |---|---|---|---|---|\n"
    );
    for (name, size, Pair { tls, plain }) in entries {
        let (tls_kb, plain_kb, whole_mb) = (tls.shown(), plain.shown(), tls.whole_shown());
        let _ = writeln!(text, "| {name} | {size} | {tls_kb} | {plain_kb} | {whole_mb} |");
    }
    text
}
