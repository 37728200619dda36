//! The spellings of single values on the command line. Text in, typed value or [`ParseError`] out;
//! reads no file and resolves no name.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::ValueEnum;
use plimsoll_model::compare::Metric;
use plimsoll_model::plan::{AddressRange, TlsState};
use plimsoll_model::target::{TargetUrl, parse_header};
use plimsoll_model::units::{ParseError, parse_count, parse_duration, parse_rate, parse_size};
use plimsoll_model::{Nanos, Rate};
use plimsoll_probe::server_counters::CounterSource;

/// The number of agent processes that share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processes {
    /// As many as the limits of one process require.
    Auto,
    /// This many; at least 1.
    Exactly(u32),
}

/// The source of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InputFile {
    /// `-`.
    Stdin,
    /// A file by its path.
    File(PathBuf),
}

impl fmt::Display for InputFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// The target of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputFile {
    /// `-`.
    Stdout,
    /// A file by its path.
    File(PathBuf),
}

/// One `DURATION:RATE` of `--stages`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RampTo {
    /// Length of the stage; 0 is a jump.
    pub(crate) duration: Nanos,
    /// Rate at its end.
    pub(crate) rate: Rate,
}

/// An address or a range of addresses to send from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    /// Any address of the range.
    pub(crate) address: IpAddr,
    /// Leading bits that all addresses share; at most 32 or 128.
    pub(crate) prefix: u8,
}

/// `--proxy-protocol`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProxyProtocolFlag {
    /// The binary header.
    V2,
}

/// `ADDR:PORT[-PORT]` of `serve`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenAt {
    /// Address or name, without brackets.
    pub(crate) host: String,
    /// First port; 0 lets the kernel choose.
    pub(crate) first: u16,
    /// Last port, first <= last.
    pub(crate) last: u16,
}

/// Something on the SUT's side to observe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// A process of the server, on this host.
    Pid(u32),
    /// A process behind the server, on this host.
    Backend(u32),
    /// The server's own counters.
    Counts(CounterSource),
    /// A kind that is not built yet, as typed.
    Later(String),
}

/// `--arrivals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArrivalsFlag {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Uniform,
}

/// `--http` of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HttpFlag {
    /// HTTP/1.1.
    #[value(name = "1.1")]
    Http1,
    /// HTTP/2.
    #[value(name = "2")]
    Http2,
}

/// `--format` of a targets file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetFormat {
    /// vegeta's `METHOD URL` blocks.
    Http,
    /// vegeta's one JSON object per line.
    Json,
}

/// `--mode` of a search, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeFlag {
    /// About four minutes.
    Quick,
    /// Up to 25 minutes.
    Standard,
    /// Up to 90 minutes.
    Strict,
}

/// `--broker` of the laboratory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BrokerFlag {
    /// plimsoll's own.
    Embedded,
    /// A real mosquitto.
    Mosquitto,
}

/// `--protocol` of the laboratory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtocolFlag {
    /// HTTP/1.1.
    Http,
    /// WebSocket.
    Ws,
    /// MQTT.
    Mqtt,
    /// A script over TLS.
    Tcp,
}

/// `--tls-state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TlsStateFlag {
    /// Secrets and sequence numbers only.
    Compact,
    /// The whole TLS library's object, as a reference.
    Rustls,
}

impl From<TlsStateFlag> for TlsState {
    fn from(flag: TlsStateFlag) -> Self {
        match flag {
            TlsStateFlag::Compact => Self::Compact,
            TlsStateFlag::Rustls => Self::Rustls,
        }
    }
}

/// `--isolate` of the laboratory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IsolateFlag {
    /// Network namespaces.
    Netns,
    /// Everything on loopback.
    None,
    /// The number that this host allows.
    Auto,
}

pub(super) fn refuse(text: &str, expected: &'static str) -> ParseError {
    ParseError { text: text.to_owned(), expected }
}

/// Parsers of counts within a range, each with the text that a refusal expects.
macro_rules! counts {
    ($($(#[$doc:meta])+ $name:ident: $count:ty = $range:expr, $expected:literal;)+) => {$(
        $(#[$doc])+
        pub(crate) fn $name(text: &str) -> Result<$count, ParseError> {
            let count = parse_count(text).ok().and_then(|count| <$count>::try_from(count).ok());
            count.filter(|count| $range.contains(count)).ok_or_else(|| refuse(text, $expected))
        }
    )+};
}

counts! {
    /// A count of at least 1.
    positive_count: u64 = (1..), "a whole number of at least 1, such as 100, 20k or 2M";
    /// Whole searches.
    repeats: u32 = (1..=100), "a number of searches from 1 to 100";
    /// Cycles of a hold.
    cycles: u32 = (2..=1_000), "a number of cycles from 2 to 1,000, such as 20";
    /// Connections of a pool, since each needs a descriptor somewhere.
    connections: u64 = (1..=10_000_000), "a number of connections from 1 to 10M, such as 100 or 20k";
    /// Connections that may be opened at once.
    opening: u32 = (1..=1_000_000), "a number of connections from 1 to 1M, such as 512";
    /// Requests at once on one connection.
    streams: u32 = (1..=10_000), "a number of requests from 1 to 10k, such as 32";
    /// Rounds of a comparison: at least eight, the fewest with a confidence interval of 98 %.
    rounds: u32 = (8..=200), "a number of rounds from 8 to 200";
    /// Worker threads.
    threads: u32 = (1..=1_024), "a number of threads from 1 to 1024";
    /// Backends of the laboratory.
    backends: u32 = (1..=256), "a number of backends from 1 to 256";
}

/// Parses the memory of at least a megabyte.
pub(crate) fn memory(text: &str) -> Result<u64, ParseError> {
    match parse_size(text) {
        Ok(bytes) if bytes >= 1_000_000 => Ok(bytes),
        _ => Err(refuse(text, "an amount of memory such as 512MiB or 8GiB")),
    }
}

/// Parses `HOST:PORT` as a proxy's configuration has it: one word, with nothing that ends a line there.
pub(crate) fn host_and_port(text: &str) -> Result<String, ParseError> {
    let is_host = |host: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]*".contains(&byte);
        !host.is_empty() && host.bytes().all(is_part)
    };
    match text.rsplit_once(':') {
        Some((host, port)) if is_host(host) && port.parse::<NonZeroU16>().is_ok() => {
            Ok(text.to_owned())
        }
        _ => Err(refuse(text, "HOST:PORT, such as 192.0.2.11:8080 or [2001:db8::1]:8080")),
    }
}

/// Addresses in place of those that a name has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// The name in the URL.
    pub(crate) host: String,
    /// The port in the URL.
    pub(crate) port: u16,
    /// At least one.
    pub(crate) addresses: Vec<SocketAddr>,
}

/// Parses `HOST:PORT:ADDRESS,...`; an address may have a port of its own.
pub(crate) fn resolved(text: &str) -> Result<Resolved, ParseError> {
    let parsed = text.split_once(':').and_then(|(host, rest)| {
        let (port, addresses) = rest.split_once(':')?;
        let port = port.parse().ok().filter(|port| *port > 0 && !host.is_empty())?;
        let address = |text: &str| {
            let ip = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
            ip.map(|ip| SocketAddr::new(ip, port)).or_else(|_| text.parse()).ok()
        };
        let addresses = addresses.split(',').map(address).collect::<Option<_>>()?;
        Some(Resolved { host: host.to_owned(), port, addresses })
    });
    parsed.ok_or_else(|| refuse(text, "HOST:PORT:ADDRESS, such as web.example:443:192.0.2.7"))
}

/// Parses a span longer than nothing.
pub(crate) fn positive_duration(text: &str) -> Result<Nanos, ParseError> {
    match parse_duration(text) {
        Ok(Nanos::ZERO) => Err(refuse(text, "a duration above 0 such as 250ms, 10s or 5m")),
        other => other,
    }
}

/// The shortest budget of a search.
const SEARCH_BUDGET_MIN: Nanos = Nanos::from_secs(30);
/// The longest.
pub(crate) const SEARCH_BUDGET_MAX: Nanos = Nanos::from_secs(86_400);

/// Parses the budget of a search: 30 s to 24 h.
pub(crate) fn search_budget(text: &str) -> Result<Nanos, ParseError> {
    let fits = |budget: &Nanos| (SEARCH_BUDGET_MIN..=SEARCH_BUDGET_MAX).contains(budget);
    let budget = parse_duration(text).ok().filter(fits);
    budget.ok_or_else(|| refuse(text, "a duration from 30s to 24h, such as 60s or 10m"))
}

/// Parses a rate above 0.
pub(crate) fn positive_rate(text: &str) -> Result<Rate, ParseError> {
    match parse_rate(text) {
        Ok(Rate::ZERO) => Err(refuse(text, "a rate above 0 such as 500, 500/s or 2k/s")),
        other => other,
    }
}

/// Parses a seed: any whole number that fits 64 bits.
pub(crate) fn seed(text: &str) -> Result<u64, ParseError> {
    text.parse().map_err(|_| refuse(text, "a whole number such as 1"))
}

/// Parses a figure that is compared.
pub(crate) fn metric(text: &str) -> Result<Metric, ParseError> {
    let found = Metric::ALL.iter().find(|metric| metric.name() == text).copied();
    found.ok_or_else(|| refuse(text, "goodput, server-cpu, p50, p99, throughput or client-cpu"))
}

/// Parses `N` or `auto`.
pub(crate) fn processes(text: &str) -> Result<Processes, ParseError> {
    if text.eq_ignore_ascii_case("auto") {
        return Ok(Processes::Auto);
    }
    let count = threads(text).map(Processes::Exactly);
    count.map_err(|_| refuse(text, "auto or a number of processes from 1 to 1024"))
}

/// Parses a confidence: a share more than one half and less than 0.999.
pub(crate) fn confidence(text: &str) -> Result<f64, ParseError> {
    let share = ratio(text).ok().filter(|share| 0.5 < *share && *share < 0.999);
    share.ok_or_else(|| refuse(text, "a confidence above 0.5 and below 0.999, such as 0.9 or 90%"))
}

/// Parses a share: `0.5` or `50%`.
pub(crate) fn ratio(text: &str) -> Result<f64, ParseError> {
    let parsed = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    match parsed {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err(refuse(text, "a share from 0 to 1 such as 0.5 or 50%")),
    }
}

/// Parses `Name: value`. A refusal shows the first word only, because the value may be a secret.
pub(crate) fn header(text: &str) -> Result<(String, String), ParseError> {
    let first_word = || text.split([':', ' ']).next().unwrap_or_default();
    parse_header(text).ok_or_else(|| refuse(first_word(), "a header such as 'Accept: text/html'"))
}

/// Parses a stage such as `30s:2k`.
pub(crate) fn stage(text: &str) -> Result<RampTo, ParseError> {
    const EXPECTED: &str = "a stage DURATION:RATE such as 30s:500 or 1m:2k/s";
    let (duration, rate) = text.split_once(':').ok_or_else(|| refuse(text, EXPECTED))?;
    match (parse_duration(duration), parse_rate(rate)) {
        (Ok(duration), Ok(rate)) => Ok(RampTo { duration, rate }),
        (Ok(_), Err(error)) if rate.ends_with('m') => Err(error),
        _ => Err(refuse(text, EXPECTED)),
    }
}

/// Parses a path, or `-` for stdin.
pub(crate) fn input_file(text: &str) -> Result<InputFile, ParseError> {
    match text {
        "" => Err(refuse(text, "a file name, or - for standard input")),
        "-" => Ok(InputFile::Stdin),
        path => Ok(InputFile::File(path.into())),
    }
}

/// Parses a path, or `-` for stdout.
pub(crate) fn output_file(text: &str) -> Result<OutputFile, ParseError> {
    match text {
        "" => Err(refuse(text, "a file name, or - for standard output")),
        "-" => Ok(OutputFile::Stdout),
        path => Ok(OutputFile::File(path.into())),
    }
}

/// Parses an address or CIDR.
pub(crate) fn cidr(text: &str) -> Result<Cidr, ParseError> {
    const EXPECTED: &str = "an address or a range such as 10.0.0.5, 127.0.0.0/8 or fd00::/64";
    let (address, prefix) =
        text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let address: IpAddr = address.trim().parse().map_err(|_| refuse(text, EXPECTED))?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.map_or(Ok(bits), |digits| digits.trim().parse::<u8>()).ok();
    let prefix = prefix.filter(|prefix| *prefix <= bits).ok_or_else(|| refuse(text, EXPECTED))?;
    Ok(Cidr { address, prefix })
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Cidr {
    /// Returns the usable addresses of the range. The first and last of an IPv4 range (network and broadcast)
    /// and the first of an IPv6 range (any router) are left out.
    pub(crate) fn range(&self) -> AddressRange {
        let (bits, address) = match self.address {
            IpAddr::V4(address) => (32, address.to_bits().into()),
            IpAddr::V6(address) => (128, address.to_bits()),
        };
        let host_bits: u32 = bits - u32::from(self.prefix);
        let edge = u128::from(host_bits >= 2);
        // All ones for a prefix of 0 of IPv6, where the shift would be out of range.
        let host_mask = 1u128.checked_shl(host_bits).map_or(u128::MAX, |count| count - 1);
        let first = (address & !host_mask) + edge;
        let (first, left_out) = match self.address {
            IpAddr::V4(_) => (Ipv4Addr::from_bits(first as u32).into(), 2 * edge),
            IpAddr::V6(_) => (Ipv6Addr::from_bits(first).into(), edge),
        };
        let count = u64::try_from((host_mask - left_out).saturating_add(1)).unwrap_or(u64::MAX);
        AddressRange { first, count }
    }

    /// Returns the usable addresses of the range in order, at most `limit`.
    pub(crate) fn addresses(&self, limit: usize) -> Vec<IpAddr> {
        let range = self.range();
        (0..range.count.min(limit as u64)).map(|n| range.nth(n)).collect()
    }
}

/// Parses `ADDR:PORT[-PORT]`; a bare port, or one with only a colon, means 127.0.0.1.
pub(crate) fn listen_at(text: &str) -> Result<ListenAt, ParseError> {
    const EXPECTED: &str = "an address such as 127.0.0.1:8080, [::1]:8080, 0.0.0.0:8000-8009 or a \
                            bare port such as 8080 (on 127.0.0.1)";
    let error = || refuse(text, EXPECTED);
    let (host, ports) = text.rsplit_once(':').unwrap_or(("", text));
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or_else(error)?,
        // Without brackets, the end of the address is ambiguous.
        None if host.contains(':') => return Err(error()),
        None if host.is_empty() => "127.0.0.1",
        None => host,
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '/') {
        return Err(error());
    }
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let port = |digits: &str| digits.parse::<u16>().map_err(|_| error());
    let (first, last) = (port(first)?, port(last)?);
    if first > last || (first == 0 && last != 0) {
        return Err(error());
    }
    Ok(ListenAt { host: host.to_owned(), first, last })
}

/// Parses the id of a process.
pub(crate) fn process_id(text: &str) -> Result<u32, ParseError> {
    let pid = text.parse::<u32>().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| refuse(text, "the id of a process"))
}

/// Parses the URL of nginx's stub_status page.
pub(crate) fn status_url(text: &str) -> Result<TargetUrl, ParseError> {
    let url = text.parse::<TargetUrl>().ok().filter(|url| !url.tls);
    url.ok_or_else(|| refuse(text, "stub_status over plain HTTP: http://HOST:PORT/PATH"))
}

/// Parses `pid:N`, `backend:N`, `haproxy:SOCKET`, `nginx:URL`, or the kind that is not built yet.
pub(crate) fn watch(text: &str) -> Result<Watch, ParseError> {
    const EXPECTED: &str = "something to watch: pid:N, backend:N, haproxy:SOCKET or nginx:URL";
    let process = |digits: &str| process_id(digits).map_err(|_| refuse(text, EXPECTED));
    match text.split_once(':') {
        Some(("pid", digits)) => process(digits).map(Watch::Pid),
        Some(("backend", digits)) => process(digits).map(Watch::Backend),
        Some(("haproxy", socket)) if !socket.is_empty() => {
            socket.parse().map(|socket| Watch::Counts(CounterSource::Haproxy(socket)))
        }
        Some(("nginx", url)) if !url.is_empty() => status_url(url)
            .map(|url| Watch::Counts(CounterSource::Nginx(url)))
            .map_err(|_| refuse(text, "stub_status over plain HTTP: nginx:http://HOST:PORT/PATH")),
        Some(("host", rest)) if !rest.is_empty() => Ok(Watch::Later(text.to_owned())),
        _ => Err(refuse(text, EXPECTED)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(text: &str, limit: usize) -> Vec<String> {
        cidr(text).unwrap().addresses(limit).iter().map(IpAddr::to_string).collect()
    }

    #[test]
    fn ranges_of_addresses() {
        for (text, limit, expected) in [
            ("10.0.0.5", 9, vec!["10.0.0.5"]),
            // Host bits in what was typed do not matter.
            ("10.0.0.9/30", 9, vec!["10.0.0.9", "10.0.0.10"]),
            // Two addresses: a point-to-point link has no network or broadcast address.
            ("10.0.0.4/31", 9, vec!["10.0.0.4", "10.0.0.5"]),
            ("127.0.0.0/8", 2, vec!["127.0.0.1", "127.0.0.2"]),
            ("0.0.0.0/0", 1, vec!["0.0.0.1"]),
            ("fd00::/64", 2, vec!["fd00::1", "fd00::2"]),
            ("::/0", 1, vec!["::1"]),
            ("::1", 9, vec!["::1"]),
        ] {
            assert_eq!(spelled(text, limit), expected, "{text}");
        }
        assert_eq!(spelled("127.0.0.0/8", 70_000).len(), 70_000);
        assert_eq!(spelled("255.255.255.0/24", 999).last().unwrap(), "255.255.255.254");
        for text in ["", "10.0.0", "10.0.0.0/33", "::1/129", "host", "10.0.0.0/", "10.0.0.0/-1"] {
            assert!(cidr(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_to_listen_at() {
        for (text, host, first, last) in [
            ("127.0.0.1:8080", "127.0.0.1", 8080, 8080),
            ("0.0.0.0:8000-8009", "0.0.0.0", 8000, 8009),
            ("[::1]:80", "::1", 80, 80),
            (":8080", "127.0.0.1", 8080, 8080),
            ("8080", "127.0.0.1", 8080, 8080),
            ("8080-8081", "127.0.0.1", 8080, 8081),
            ("localhost:0", "localhost", 0, 0),
        ] {
            let expected = ListenAt { host: host.into(), first, last };
            assert_eq!(listen_at(text), Ok(expected), "{text}");
        }
        for text in
            ["", ":", "a", "::1:80", "[::1:80", "[]:80", "1:99999", "1:9-8", "1:0-5", "http://a:80"]
        {
            assert!(listen_at(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_and_stages() {
        assert_eq!(ratio("0.25"), Ok(0.25));
        assert_eq!(ratio("50%"), Ok(0.5));
        for text in ["1.1", "-0.1", "101%", "NaN", "x", ""] {
            assert!(ratio(text).is_err(), "{text}");
        }
        assert_eq!(confidence("0.9"), Ok(0.9));
        assert_eq!(confidence("95%"), Ok(0.95));
        for text in ["0.5", "0.999", "1", "0", "-1", "NaN", ""] {
            assert!(confidence(text).is_err(), "{text}");
        }
        let expected =
            RampTo { duration: Nanos::from_secs(30), rate: Rate::per_second(2e3).unwrap() };
        assert_eq!(stage("30s:2k"), Ok(expected));
        for text in ["30s", "30:500", "30s:", ":5", "30s:-5"] {
            assert!(stage(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_have_bounds() {
        assert_eq!(processes("auto"), Ok(Processes::Auto));
        assert_eq!(processes("2"), Ok(Processes::Exactly(2)));
        for text in ["0", "1025", "x", "-1", ""] {
            assert!(processes(text).is_err(), "{text}");
            assert!(threads(text).is_err(), "{text}");
        }
        assert_eq!(connections("20k"), Ok(20_000));
        for text in ["0", "11M", "1.5"] {
            assert!(connections(text).is_err(), "{text}");
        }
        assert_eq!(repeats("6"), Ok(6));
        for text in ["0", "101", "-1", "6.5", ""] {
            assert!(repeats(text).is_err(), "{text}");
        }
        assert!(positive_count("0").is_err());
        assert!(positive_duration("0").is_err());
        assert!(positive_rate("0").is_err());
    }

    #[test]
    fn things_to_watch() {
        assert_eq!(watch("pid:12"), Ok(Watch::Pid(12)));
        assert_eq!(watch("backend:12"), Ok(Watch::Backend(12)));
        assert_eq!(watch("host:web1"), Ok(Watch::Later("host:web1".into())));
        let socket = CounterSource::Haproxy("/run/haproxy.sock".parse().unwrap());
        assert_eq!(watch("haproxy:/run/haproxy.sock"), Ok(Watch::Counts(socket)));
        let status = "http://web1:8081/status".parse().expect("a URL");
        let nginx = CounterSource::Nginx(status);
        assert_eq!(watch("nginx:http://web1:8081/status"), Ok(Watch::Counts(nginx)));
        for text in ["pid:0", "pid:x", "backend:", "backend:x", "12", "host:", "cat:1"] {
            assert!(watch(text).is_err(), "{text}");
        }
        for text in ["haproxy:", "nginx:", "nginx:web1", "nginx:https://a/"] {
            assert!(watch(text).is_err(), "{text}");
        }
    }
}
