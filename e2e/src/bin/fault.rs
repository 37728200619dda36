//! A server with one known limit; see `e2e::fault`.
#![forbid(unsafe_code)]

use std::env;
use std::net::SocketAddr;
use std::process::ExitCode;

use e2e::fault::{self, FAULTS, Fault};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let parsed = match arguments.split_first() {
        Some((address, words)) => address
            .parse::<SocketAddr>()
            .map_err(|_| format!("{address}: give an address and a port"))
            .and_then(|address| Ok((address, words.join(" ").parse::<Fault>()?))),
        None => Err(format!("usage: fault ADDRESS FAULT, where FAULT is {FAULTS}")),
    };
    let served =
        parsed.and_then(|(address, fault)| fault::serve(address, fault).map_err(|e| e.to_string()));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
