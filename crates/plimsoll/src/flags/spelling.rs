//! Completion of a command line before it is parsed: `lab` alone is `lab rate`, and `--live ADDR` becomes
//! `--live=ADDR`, so that `--live URL` leaves the URL alone.

use std::ffi::OsString;

/// Returns `args`, program name first, as the parser reads them.
pub(super) fn completed(mut args: Vec<OsString>) -> Vec<OsString> {
    join_live(&mut args);
    let asks = |arg: &OsString| ["-h", "--help"].iter().any(|flag| arg == flag);
    let is_flag = |arg: &OsString| arg.to_str().is_some_and(|arg| arg.starts_with('-'));
    let is_lab = args.get(1).is_some_and(|command| command == "lab");
    if is_lab && args.get(2).is_none_or(|arg| is_flag(arg) && !asks(arg)) {
        args.insert(2, "rate".into());
    }
    args
}

/// Gives `--live` the address that follows it, which no other argument looks like: `8080`, `[::]:80`, `host:80`.
fn join_live(args: &mut Vec<OsString>) {
    let is_address = |arg: &OsString| {
        arg.to_str().is_some_and(|arg| {
            let is_other = arg.starts_with('-') || arg.contains("://") || arg.contains(' ');
            !is_other && (arg.contains(':') || arg.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    let flag = args.iter().position(|arg| arg == "--live");
    if let Some(at) = flag.filter(|at| args.get(at + 1).is_some_and(is_address)) {
        let address = args.remove(at + 1);
        args[at].push("=");
        args[at].push(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_alone_is_a_rate_and_live_has_its_address() {
        for (typed, expected) in [
            ("lab", "lab rate"),
            ("lab --mode strict", "lab rate --mode strict"),
            ("lab -h", "lab -h"),
            ("lab --help", "lab --help"),
            ("lab hold -c 9", "lab hold -c 9"),
            ("lab nonsense", "lab nonsense"),
            ("find URL", "find URL"),
            ("load --live URL", "load --live URL"),
            ("load URL --live", "load URL --live"),
            ("load --live http://127.0.0.1:1/ -k", "load --live http://127.0.0.1:1/ -k"),
            ("load --live 8080 URL", "load --live=8080 URL"),
            ("load --live [::]:80 URL", "load --live=[::]:80 URL"),
            ("load --live here:99999 URL", "load --live=here:99999 URL"),
            ("load --live --no-ui", "load --live --no-ui"),
            ("lab --live 0.0.0.0:80", "lab rate --live=0.0.0.0:80"),
            ("find", "find"),
        ] {
            let words = |line: &str| -> Vec<OsString> {
                std::iter::once("plimsoll").chain(line.split(' ')).map(OsString::from).collect()
            };
            assert_eq!(completed(words(typed)), words(expected), "{typed}");
        }
    }
}
