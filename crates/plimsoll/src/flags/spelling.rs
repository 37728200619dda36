//! `--live ADDR` becomes `--live=ADDR`, so that `--live URL` leaves the URL alone. Command lines of the first version are
//! spelled as today: `lab --find connections` is `lab
//! connections`, `find rate URL --mode rfc9411` is `find rfc9411 URL`, `find rate URL
//! --handshake-only` is `find handshakes URL`, and `lab` alone is `lab rate`.

use std::ffi::OsString;

/// The experiments of `find`, by name.
const FOUND: &[&str] = &["rate", HANDSHAKES, "connections", RFC9411];
const HANDSHAKES: &str = "handshakes";
const RFC9411: &str = "rfc9411";

/// `args`, program name first, with the experiment right after `find` or `lab`.
pub(super) fn current(mut args: Vec<OsString>) -> Vec<OsString> {
    join_live(&mut args);
    let word = |args: &[OsString], at: usize| {
        args.get(at).and_then(|arg| arg.to_str()).map(str::to_owned).unwrap_or_default()
    };
    let first = word(&args, 2);
    let asks = |text: &str| ["-h", "--help", "help"].contains(&text);
    match word(&args, 1).as_str() {
        "find" if !asks(&first) => {
            let is_rfc9411 = take_rfc9411(&mut args);
            let named = (2..args.len()).find(|at| FOUND.contains(&word(&args, *at).as_str()));
            let named = named.map(|at| args.remove(at));
            args.splice(2..2, if is_rfc9411 { Some(RFC9411.into()) } else { named });
        }
        "lab" if first.is_empty() || (first.starts_with('-') && !asks(&first)) => {
            let axis = take_value(&mut args, "--find").unwrap_or_else(|| "rate".into());
            let experiment = if take_rfc9411(&mut args) { RFC9411.into() } else { axis };
            args.insert(2, experiment);
        }
        _ => return args,
    }
    name_handshakes(&mut args);
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

/// Spells a search for a rate of bare handshakes as today, without the flags that it implies.
fn name_handshakes(args: &mut Vec<OsString>) {
    const IMPLIED: &[&str] = &["--handshake-only", "--no-keepalive"];
    let is_rate = args.get(2).is_some_and(|experiment| experiment == "rate");
    if is_rate && args.iter().any(|arg| arg == "--handshake-only") {
        args[2] = HANDSHAKES.into();
    }
    if args.get(2).is_some_and(|experiment| experiment == HANDSHAKES) {
        args.retain(|arg| !IMPLIED.iter().any(|flag| arg == flag));
    }
}

fn take_rfc9411(args: &mut Vec<OsString>) -> bool {
    let is_asked = (2..args.len()).any(|at| {
        args[at] == "--mode=rfc9411"
            || (args[at] == "--mode" && args.get(at + 1).is_some_and(|mode| mode == RFC9411))
    });
    is_asked && take_value(args, "--mode").is_some()
}

/// Removes `flag` with its value, which is given back.
fn take_value(args: &mut Vec<OsString>, flag: &str) -> Option<OsString> {
    let joined = |arg: &OsString| {
        arg.to_str().and_then(|arg| arg.strip_prefix(flag)?.strip_prefix('=').map(OsString::from))
    };
    let at = (2..args.len()).find(|at| args[*at] == flag || joined(&args[*at]).is_some())?;
    let value = joined(&args[at]);
    args.remove(at);
    value.or_else(|| (at < args.len()).then(|| args.remove(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_versions_spellings_mean_what_they_meant() {
        for (typed, expected) in [
            ("find rate URL --mode quick", "find rate URL --mode quick"),
            ("find --mode quick -k rate URL", "find rate --mode quick -k URL"),
            ("find rate URL --mode rfc9411 --case 7.2", "find rfc9411 URL --case 7.2"),
            ("find handshakes URL --mode=rfc9411", "find rfc9411 URL"),
            ("find URL --mode rfc9411", "find rfc9411 URL"),
            ("find rfc9411 URL --mode rfc9411", "find rfc9411 URL"),
            ("find URL", "find URL"),
            ("find --help", "find --help"),
            ("lab", "lab rate"),
            ("lab --mode strict", "lab rate --mode strict"),
            ("lab -h", "lab -h"),
            ("lab hold -c 9", "lab hold -c 9"),
            ("lab nonsense", "lab nonsense"),
            ("lab --sut nginx --find connections -k", "lab connections --sut nginx -k"),
            ("lab --find=handshakes", "lab handshakes"),
            ("lab --find", "lab rate"),
            ("lab --mode rfc9411 --case 7.6 --find handshakes", "lab rfc9411 --case 7.6"),
            ("find rate URL -k --handshake-only", "find handshakes URL -k"),
            ("find --handshake-only rate URL", "find handshakes URL"),
            ("find rate URL --no-keepalive", "find rate URL --no-keepalive"),
            ("find rate URL --no-keepalive --handshake-only", "find handshakes URL"),
            ("find handshakes URL --handshake-only --no-keepalive", "find handshakes URL"),
            ("lab --handshake-only --mode quick", "lab handshakes --mode quick"),
            ("lab --find handshakes --no-keepalive", "lab handshakes"),
            ("find connections URL --handshake-only", "find connections URL --handshake-only"),
            ("load URL --handshake-only", "load URL --handshake-only"),
            ("load URL --mode rfc9411", "load URL --mode rfc9411"),
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
            assert_eq!(current(words(typed)), words(expected), "{typed}");
        }
    }
}
