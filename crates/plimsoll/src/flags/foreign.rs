//! Flags of other load generators and of curl, and what is written here in their place.

/// Flags, and their equivalents. Where programs give one letter several meanings, all of these are named.
const FOREIGN: &[(&str, &str)] = &[
    (
        "--timeout",
        "--deadline marks late answers, --linger ends the wait, --connect-timeout that for a connection",
    ),
    // hey, oha, k6, h2load; wrk2.
    ("--qps --rps -R", "write --rate"),
    ("-z --time --timelimit", "write --duration"),
    (
        "--concurrency --vus --workers --max-workers --max-connections --clients -w",
        "write --connections",
    ),
    ("--iterations -i", "write --requests N; a list of requests is --targets FILE"),
    ("--stage", "write --stages"),
    ("--cpus", "write --threads"),
    ("--disable-keepalive --no-vu-connection-reuse", "write --no-keepalive"),
    ("--keepalive --keep-alive", "connections are kept alive unless --no-keepalive is given"),
    (
        "--latency --latency-correction --u_latency -U",
        "drop it: the report always shows corrected latency",
    ),
    (
        "-L",
        "drop it: the report always shows latencies (wrk), and redirects are not followed (curl)",
    ),
    ("--location --redirects", "redirects are not followed: give the URL that they name"),
    ("--root-certs --cert-file --ca", "write --cacert"),
    ("--insecure-skip-tls-verify", "write --insecure"),
    (
        "--output -o --summary-export",
        "write --json FILE, or --out DIR for an archive that plimsoll report reads",
    ),
    ("-j --output-format", "write --json -"),
    ("--no-tui", "write --no-ui"),
    ("--request", "write --method"),
    ("-T --content-type", "write --header 'Content-Type: …'"),
    ("-b --cookie -C", "write --header 'Cookie: …'"),
    ("-A --accept", "write --header 'Accept: …', or 'User-Agent: …'"),
    ("--host", "write --header 'Host: …'"),
    ("--compressed", "write --header 'Accept-Encoding: gzip'"),
    (
        "-u --user -a",
        "for credentials write --header 'Authorization: …', for users at once --connections",
    ),
    ("-D", "for a body write --body FILE (hey, oha), for a time --duration (h2load)"),
    ("-p --postfile", "for a body write --body FILE (ab), for streams of HTTP/2 --streams N (oha)"),
    ("--body-file --data-binary --data-raw", "write --body FILE, or --data TEXT"),
    ("-s", "for requests of a file write --targets FILE; scripts of Lua are not run"),
    ("--http2 --http2-prior-knowledge --h2c --h2", "write --http 2"),
    ("--http1.1 --h1 --http-version", "write --http 1.1 or --http 2"),
    ("--http3 --h3", "HTTP/3 is not spoken; write --http 1.1 or --http 2"),
    ("--max-concurrent-streams", "write --streams"),
    ("-x --proxy", "give the proxy's own URL, and the site's name with --header 'Host: …'"),
    ("--connect-to", "write --resolve HOST:PORT:ADDRESS:PORT"),
    ("--laddr -B", "write --source"),
    ("--warm-up-time --warmup", "write it as a stage of --stages, such as 10s:1k"),
];

/// Reports whether `word` is one of `words`, which stand one behind the other.
pub(super) fn has_word(words: &str, word: &str) -> bool {
    words.split(' ').any(|one| one == word)
}

/// Returns the replacement for a flag of another program.
pub(super) fn fix(flag: &str) -> Option<&'static str> {
    FOREIGN.iter().find(|(flags, _)| has_word(flags, flag)).map(|(_, fix)| *fix)
}

/// Returns the meaning of a value that a flag of the same letter has in another program.
pub(super) fn meaning(flag: &str, value: &str) -> Option<&'static str> {
    let is_number = value.starts_with(|c: char| c.is_ascii_digit());
    match flag {
        // oha, hey.
        "--streams" if value.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
            Some("-m is --streams here; for a method write -X, --method")
        }
        // hey, oha, curl: a body.
        "--duration" if !is_number => {
            Some("-d is --duration here, such as 10s; for a body write --data")
        }
        // hey, oha: a timeout, such as 20s.
        "--threads" if is_number && value.ends_with('s') => {
            Some("-t is --threads here; --deadline, --linger and --connect-timeout bound waits")
        }
        _ => None,
    }
}
