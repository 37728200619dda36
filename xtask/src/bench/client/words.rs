//! Command lines for the same work by each tool, in its own words.
//!
//! A command line is one text, as it is typed: words are parted by blanks, and quotes hold together
//! what has blanks of its own.
//!
//! None verifies the certificate. Each runs one thread, by flag where it has one, and by the one
//! CPU it is given otherwise.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::bench::client::{Connection, Extent, Load};
use crate::bench::tool::Tool;

/// ab opens its other connections once the first has its answer, so that answer must come. All are
/// open, and wait, for as long again.
const AB_SLEEP_S: u32 = 10;
/// File of vegeta's targets; it reads no URL from its command line.
pub(crate) const VEGETA_TARGETS: &str = "vegeta.txt";
/// File of vegeta's results, for `vegeta report`.
pub(crate) const VEGETA_RESULTS: &str = "vegeta.bin";
/// Script of k6.
pub(crate) const K6_SCRIPT: &str = "k6.js";
/// File of k6's figures.
pub(crate) const K6_SUMMARY: &str = "k6.json";
/// File of plimsoll's figures.
pub(crate) const SUMMARY: &str = "summary.json";

const K6_TEXT: &str = "\
import http from 'k6/http';
export const options = { discardResponseBodies: true };
const headers = __ENV.SLEEP ? { 'sleep-fixed': __ENV.SLEEP } : {};
export default function () { http.get(__ENV.URL, { headers, timeout: '1h' }); }
";

/// Returns the arguments of a command line.
pub(crate) fn arguments(words: &str) -> Result<Vec<String>> {
    shell_words::split(words).with_context(|| format!("unbalanced quotes: {words}"))
}

/// Writes what a tool reads from files, to `folder`.
pub(crate) fn prepare(tool: Tool, url: &str, folder: &Path) -> Result<()> {
    match tool {
        Tool::Vegeta => fs::write(folder.join(VEGETA_TARGETS), format!("GET {url}\n")),
        Tool::K6 => fs::write(folder.join(K6_SCRIPT), K6_TEXT),
        _ => Ok(()),
    }
    .with_context(|| folder.display().to_string())
}

/// Returns the command line for a closed loop over a fixed number of connections; `None` if the tool has none.
pub(crate) fn saturate(tool: Tool, url: &str, extent: Extent, load: Load) -> Option<String> {
    let Extent { connections: c, seconds: s } = extent;
    let is_kept = load.connection == Connection::Kept;
    let is_our_own = matches!(load.connection, Connection::Resumed | Connection::HandshakeOnly);
    if is_our_own && tool != Tool::Plimsoll {
        return None;
    }
    let pick = |kept: &'static str, new: &'static str| if is_kept { kept } else { new };
    Some(match tool {
        Tool::Plimsoll => {
            let insecure = if load.is_tls { " --insecure" } else { "" };
            let connection = match load.connection {
                Connection::Kept => "",
                Connection::PerRequest => " --no-keepalive",
                Connection::Resumed => " --no-keepalive --resume 1",
                Connection::HandshakeOnly => " --handshake-only",
            };
            format!(
                "load {url} --rate 0 --connections {c} --duration {s}s --threads 1 --processes 1 \
                 --no-ui --json {SUMMARY}{insecure}{connection}"
            )
        }
        Tool::Wrk => format!("-t1 -c{c} -d{s}s {}{url}", pick("", "-H 'connection: close' ")),
        // It makes an array for all requests before the first one: more than it can do, not more.
        Tool::Ab => format!("-q -r {}-c {c} -t {s} -n {} {url}", pick("-k ", ""), s * 200_000),
        Tool::H1load => format!("-t 1 -c {c} -d {s} {}{url}", pick("", "-r 1 ")),
        // It opens no connection per request.
        Tool::H2load if !is_kept => return None,
        Tool::H2load => format!("--h1 -t1 -c{c} -D {s} {url}"),
        Tool::Oha => format!(
            "--no-tui --output-format json --insecure -c {c} -z {s}s {}{url}",
            pick("", "--disable-keepalive ")
        ),
        // Its server name would otherwise hold the port, which no server accepts as a name.
        Tool::Hey => format!(
            "-cpus 1 -host localhost -c {c} -z {s}s {}{url}",
            pick("", "-disable-keepalive ")
        ),
        Tool::Vegeta => format!(
            "-cpus=1 attack -insecure -targets={VEGETA_TARGETS} -output={VEGETA_RESULTS} -rate=0 \
             -workers={c} -max-workers={c} -connections={c} -duration={s}s{}",
            pick("", " -keepalive=false")
        ),
        Tool::K6 => format!(
            "run --quiet --insecure-skip-tls-verify --no-usage-report --summary-export={K6_SUMMARY} \
             --vus={c} --duration={s}s{} -e URL={url} {K6_SCRIPT}",
            pick("", " --no-connection-reuse")
        ),
    })
}

/// Returns the command line for one request on each of `connections`, which the server leaves unanswered for `seconds`.
pub(crate) fn await_answers(tool: Tool, url: &str, connections: u32, seconds: u32) -> String {
    let (c, s) = (connections, seconds);
    let sleep_ms = u64::from(if tool == Tool::Ab { AB_SLEEP_S } else { s }) * 1_000;
    let header = format!("-H 'sleep-fixed: {sleep_ms}'");
    match tool {
        Tool::Plimsoll => format!(
            "load {url} {header} --insecure --rate 0 --connections {c} --duration {s}s --threads 1 \
             --processes 1 --no-ui --json {SUMMARY}"
        ),
        Tool::Wrk => format!("-t1 -c{c} -d{s}s --timeout {s}s {header} {url}"),
        Tool::Ab => format!("-q -r -k -c {c} -n {} -s {s} {header} {url}", c.saturating_mul(s)),
        Tool::H1load => format!("-t 1 -c {c} -n {c} {header} {url}"),
        Tool::H2load => format!("--h1 -t1 -c{c} -n{c} {header} {url}"),
        Tool::Oha => {
            format!("--no-tui --insecure --connect-timeout 60s -c {c} -n {c} {header} {url}")
        }
        Tool::Hey => format!("-cpus 1 -host localhost -c {c} -n {c} -t 0 {header} {url}"),
        Tool::Vegeta => format!(
            "-cpus=1 attack -insecure -targets={VEGETA_TARGETS} -output={VEGETA_RESULTS} \
             -header='sleep-fixed: {sleep_ms}' -rate=0 -workers={c} -max-workers={c} \
             -connections={c} -timeout={s}s -duration={s}s"
        ),
        Tool::K6 => format!(
            "run --quiet --insecure-skip-tls-verify --no-usage-report --vus={c} --duration={s}s \
             -e URL={url} -e SLEEP={sleep_ms} {K6_SCRIPT}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent = Extent { connections: 7, seconds: 3 };

    #[test]
    fn only_new_connections_are_asked_for_in_words_of_their_own() {
        let url = "https://x/";
        for tool in [Tool::Plimsoll].into_iter().chain(Tool::PEERS) {
            let words = |connection| saturate(tool, url, EXTENT, Load { is_tls: true, connection });
            let kept = words(Connection::Kept).unwrap();
            assert!(arguments(&kept).unwrap().iter().all(|word| !word.is_empty()), "{kept}");
            assert_ne!(words(Connection::PerRequest).as_ref(), Some(&kept));
            // No other tool's figure may pass for these.
            let has_own = words(Connection::Resumed).is_some();
            assert_eq!(has_own, tool == Tool::Plimsoll);
        }
    }

    #[test]
    fn files_are_written_for_those_that_read_them() {
        let folder = std::env::temp_dir().join(format!("plimsoll-words-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for tool in Tool::PEERS {
            prepare(tool, "http://x/", &folder).unwrap();
        }
        assert_eq!(fs::read_to_string(folder.join(VEGETA_TARGETS)).unwrap(), "GET http://x/\n");
        assert!(folder.join(K6_SCRIPT).exists());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
