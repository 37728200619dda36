//! A server of known service times or capacity; see `e2e::reference`.
#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;

use e2e::reference::{self, SERVICES, Service};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let parsed = match arguments.as_slice() {
        [service, seed] => service.parse::<Service>().and_then(|service| {
            let seed = seed.parse().map_err(|_| format!("seed {seed}: give a whole number"))?;
            Ok((service, seed))
        }),
        _ => Err(format!("usage: reference SERVICE SEED, where SERVICE is {SERVICES}")),
    };
    let served = parsed.and_then(|(service, seed)| {
        reference::serve(service, seed).map_err(|error| error.to_string())
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
