//! Makes the archive of a load that lasted long, within seconds; see `e2e::runs`.
#![forbid(unsafe_code)]

use std::env;
use std::path::Path;
use std::process::ExitCode;

use e2e::runs;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [folder, seconds, hosts] = arguments.as_slice() else {
        eprintln!("error: usage: archive FOLDER SECONDS HOSTS");
        return ExitCode::FAILURE;
    };
    let (Ok(seconds), Ok(hosts)) = (seconds.parse(), hosts.parse()) else {
        eprintln!("error: SECONDS and HOSTS are whole numbers");
        return ExitCode::FAILURE;
    };
    runs::load().lasting("long", seconds, hosts).copy_to(Path::new(folder));
    ExitCode::SUCCESS
}
