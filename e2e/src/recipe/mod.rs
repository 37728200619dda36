//! Recipes that make one resource the limit of a real server, and what a search then names as the cause.
//!
//! A recipe is a configuration and a bash script. It runs in its own network namespace, so that its ports, its
//! settings and its counters are nobody else's; servers run on CPU 1 and clients on CPU 0, both ahead of what else
//! the machine does. It needs root. What it started ends with it.

mod cpu;
mod decoys;
#[cfg(test)]
mod documented;
mod laboratory;
mod limits;
mod network;
mod waits;

pub use cpu::BURN;

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cgroup::{Group, GroupLimit};
use crate::host_setting::HostSetting;
use crate::plimsoll::{Finished, Plimsoll};

/// The longest search, and what starts before it.
const PATIENCE: Duration = Duration::from_secs(420);

/// Ports of the server under test, plain and with TLS, and of what is behind it.
const PRELUDE: &str = r#"
echo $$ > "@FIRST@"
PATH="$PATH:/usr/sbin:/usr/local/sbin"
WATCH=()
up() {
    for _ in $(seq 400); do
        (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null && return
        sleep 0.05
    done
    echo "nothing listens on port $1" >&2
    cat server.log backend.log >&2
    kill $(jobs -p)
    exit 70
}
# In the recipe's control group, where it has one.
server() {
    {
        if [ -n "@GROUP@" ]; then echo "$BASHPID" > "@GROUP@"; fi
        exec taskset -c 1 "$@"
    } > server.log 2>&1 < /dev/null &
    SUT=$!
}
backend() {
    taskset -c 1 "$@" > backend.log 2>&1 < /dev/null &
    BACKEND=$!
}
serve() {
    backend "$0" serve --http 127.0.0.1:8081 --no-ui -t 1 --processes 1
    up 8081
}
haproxy_sut() {
    server haproxy -db -f haproxy.cfg
    up 8080
    WATCH+=(--watch haproxy:stats.sock --watch "pid:$SUT")
}
nginx_sut() {
    server nginx -p "$PWD" -c "$PWD/nginx.conf" -g 'daemon off;'
    up 8080
    WATCH+=(--watch "pid:$SUT")
}
fault_sut() {
    server "@FAULT@" 127.0.0.1:8080 "$@"
    up 8080
    WATCH+=(--watch "pid:$SUT")
}
fault_backend() {
    backend "@FAULT@" 127.0.0.1:8081 "$@"
    up 8081
}
# What is behind the server is read, too.
watch_backend() {
    WATCH+=(--watch "backend:$BACKEND")
}
ip link set lo up
"#;

const EPILOGUE: &str = r#"
taskset -c 0 "$0" "$@" "${WATCH[@]}"
CODE=$?
J=$(jobs -p)
{ kill $J; kill -CONT $J; wait; } 2> /dev/null
exit $CODE
"#;

/// The expected answer of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// This cause first.
    Cause(&'static str),
    /// Both of these, in any order: their limits are closer than a search can tell.
    Both([&'static str; 2]),
    /// That it cannot know.
    Unknown,
    /// No cause: no limit was reached, or only that of the generator.
    Nothing,
}

/// The recipe that makes one resource the limit.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Row of the table of causes.
    pub row: u8,
    /// Name of the recipe.
    pub name: &'static str,
    /// Expected answer.
    pub expected: Expected,
    /// Part of the name of the resource.
    pub resource: &'static str,
    /// The host that it is on; empty for the only one.
    pub host: &'static str,
    /// A counter moves, or a limit is reached, that is not the cause.
    pub is_decoy: bool,
    /// It needs its own CPU, and so a machine on which nothing else is measured.
    pub is_alone: bool,
    files: Vec<(&'static str, String)>,
    script: String,
    group: Option<GroupLimit>,
    /// A setting of the whole host, and its value meanwhile.
    setting: Option<(&'static str, SettingValue)>,
    search: Vec<&'static str>,
}

/// Makes the value of a setting when it is set.
type SettingValue = fn() -> String;

/// The answer of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Exit code.
    pub code: Option<i32>,
    /// End of the search: `regular`, or the name of another one.
    pub outcome: String,
    /// The ends of the interval.
    pub tip: (Option<f64>, Option<f64>),
    /// Everything that it says of causes; null where it says nothing.
    pub causes: Value,
}

impl Recipe {
    fn new(row: u8, name: &'static str, expected: Expected) -> Self {
        Self {
            row,
            name,
            expected,
            resource: "",
            host: "",
            is_decoy: false,
            is_alone: false,
            files: Vec::new(),
            script: String::new(),
            group: None,
            setting: None,
            search: Vec::new(),
        }
    }

    const fn on(mut self, resource: &'static str) -> Self {
        self.resource = resource;
        self
    }

    const fn at(mut self, host: &'static str) -> Self {
        self.host = host;
        self
    }

    const fn decoy(mut self) -> Self {
        self.is_decoy = true;
        self
    }

    const fn alone(mut self) -> Self {
        self.is_alone = true;
        self
    }

    const fn within(mut self, limit: GroupLimit) -> Self {
        self.group = Some(limit);
        self
    }

    fn with_host(mut self, path: &'static str, value: SettingValue) -> Self {
        self.setting = Some((path, value));
        self
    }

    /// It changes a setting of the whole host meanwhile.
    pub const fn changes_host(&self) -> bool {
        self.setting.is_some()
    }

    fn file(mut self, name: &'static str, content: impl Into<String>) -> Self {
        self.files.push((name, content.into()));
        self
    }

    fn script(mut self, script: &str) -> Self {
        self.script.push_str(script);
        self.script.push('\n');
        self
    }

    /// Returns the flags of `find rate` beside its URL.
    fn rate(mut self, flags: &[&'static str]) -> Self {
        let own = ["find", "rate", "http://127.0.0.1:8080/", "--mode", "quick"];
        self.search = [&own[..], flags].concat();
        self
    }

    /// Returns the flags of `find connections` beside its URL.
    fn connections(mut self, flags: &[&'static str]) -> Self {
        let own = ["find", "connections", "http://127.0.0.1:8080/", "--mode", "quick"];
        self.search = [&own[..], flags].concat();
        self
    }

    /// Returns the flags of `find handshakes` beside its URL, for some hundred of them a second.
    fn handshakes(mut self, flags: &[&'static str]) -> Self {
        let own = ["find", "handshakes", "https://127.0.0.1:8080/", "-k", "--mode", "quick"];
        let range = ["--min", "40", "--max", "1000", "--slo", "p99<100ms,errors<1%"];
        self.search = [&own[..], &range, flags].concat();
        self
    }

    /// Returns a whole command.
    fn search(mut self, words: &[&'static str]) -> Self {
        self.search = words.to_vec();
        self
    }

    /// Runs it. `fault` is `CARGO_BIN_EXE_fault`. Its archive is kept in the folder `archives`; where one is there,
    /// only its causes are named again. An error says why this host cannot.
    pub fn run(&self, fault: &str, archives: Option<&Path>) -> Result<Seen, String> {
        let name: String = self.name.chars().filter(char::is_ascii_alphanumeric).collect();
        let archive = archives.map(|folder| folder.join(&name).display().to_string());
        if let Some(archive) = archive.as_deref().filter(|archive| Path::new(archive).exists()) {
            forget_causes(Path::new(archive))?;
            return seen(&Plimsoll::new(["report", archive, "--json", "-"]).run());
        }
        let group = self.group.map(|limit| Group::new(&name, limit)).transpose()?;
        let _setting =
            self.setting.map(|(path, value)| HostSetting::set(path, &value())).transpose()?;
        let procs =
            group.as_ref().map_or_else(String::new, |group| group.procs().display().to_string());
        let first = Group::new(&format!("{name}-run"), GroupLimit::CpuFirst)?;
        let script = [PRELUDE, &self.script, EPILOGUE].concat();
        let script = script.replace("@FAULT@", fault).replace("@GROUP@", &procs);
        let script = script.replace("@FIRST@", &first.procs().display().to_string());
        let words = [&self.search[..], &["--no-ui", "--json", "-"]].concat();
        let kept = archive.as_deref().map_or(Vec::new(), |archive| vec!["--out", archive]);
        let plimsoll = Plimsoll::unshared("-n", &script, &[words, kept].concat());
        let with = |all: Plimsoll, (name, content): &(&str, String)| all.with_file(name, content);
        let plimsoll = self.files.iter().fold(plimsoll, with);
        seen(&plimsoll.start().finish_within(PATIENCE))
    }

    /// Judges an answer. `this_host` is the name of the host that tests run on.
    pub fn judge(&self, seen: &Seen, this_host: &str) -> Answer {
        let text = |at: usize, path: &str| {
            let found = seen.causes.get(at).and_then(|cause| cause.pointer(path));
            found.and_then(Value::as_str).unwrap_or_default()
        };
        let first = text(0, "/cause");
        let is_named = !["", "unknown"].contains(&first);
        if !is_named {
            let is_open =
                ["unstable", "undecided", "bounds"].iter().any(|end| seen.outcome.starts_with(end));
            return match self.expected {
                _ if is_open => Answer::NoInterval,
                // All trials are INVALID then, and the outcome names the path and the lost segments.
                Expected::Cause("packet-loss") if seen.outcome.starts_with("network-limited") => {
                    Answer::Correlated
                }
                Expected::Unknown => Answer::Right,
                Expected::Nothing if first.is_empty() => Answer::Right,
                _ => Answer::Unknown,
            };
        }
        let host = if self.host.is_empty() { this_host } else { self.host };
        let is_there =
            text(0, "/resource/name").contains(self.resource) && text(0, "/host") == host;
        let is_right = match self.expected {
            Expected::Cause(cause) => first == cause && is_there,
            Expected::Both(causes) => causes.contains(&first) && is_there,
            Expected::Unknown | Expected::Nothing => false,
        };
        let second = text(1, "/cause");
        match self.expected {
            _ if !is_right => Answer::Wrong,
            Expected::Both(causes) if second.is_empty() || !causes.contains(&second) => {
                Answer::OneOfTwo
            }
            _ if text(0, "/grade") == "correlated" => Answer::Correlated,
            _ => Answer::Right,
        }
    }

    /// Returns one line of JSON: what was to be found and what was.
    pub fn record(&self, seen: &Seen, answer: Answer) -> Value {
        let first = &seen.causes[0];
        let also: Vec<&Value> = seen
            .causes
            .as_array()
            .into_iter()
            .flatten()
            .skip(1)
            .map(|cause| &cause["cause"])
            .collect();
        json!({
            "row": self.row,
            "recipe": self.name,
            "decoy": self.is_decoy,
            "expected": self.expected.to_string(),
            "answer": answer.name(),
            "cause": first["cause"],
            "also": also,
            "grade": first["grade"],
            "resource": first["resource"]["name"],
            "host": first["host"],
            "predicted_at": first["predicted_at"]["at"],
            "outcome": seen.outcome,
            "lower": seen.tip.0,
            "upper": seen.tip.1,
            "code": seen.code,
        })
    }
}

/// Removes the causes from an archive, so that its reader must find them.
fn forget_causes(archive: &Path) -> Result<(), String> {
    let path = archive.join("summary.json");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path:?}: {error}"))?;
    let mut summary: Value =
        serde_json::from_str(&text).map_err(|error| format!("{path:?}: {error}"))?;
    summary.as_object_mut().map(|summary| summary.remove("causes"));
    fs::write(&path, format!("{summary}\n")).map_err(|error| format!("{path:?}: {error}"))
}

/// Reads the answer of a run from its JSON.
fn seen(finished: &Finished) -> Result<Seen, String> {
    let value: Value = serde_json::from_str(&finished.stdout).map_err(|error| {
        format!("{:?}, {error}: {}\n{}", finished.code, finished.stderr, finished.stdout)
    })?;
    let find = &value["find"];
    let outcome = match &find["outcome"] {
        Value::String(name) => name.clone(),
        Value::Object(named) => {
            let why = |of: &Value| of["why"].as_str().unwrap_or_default().to_owned();
            named.iter().map(|(name, of)| format!("{name} {}", why(of))).collect()
        }
        _ => String::new(),
    };
    Ok(Seen {
        code: finished.code,
        outcome,
        tip: (find["lower"].as_f64(), find["upper"].as_f64()),
        causes: value.get("causes").cloned().unwrap_or_default(),
    })
}

/// The quality of the first cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The resource on its host at grade predicted or better; or nothing, where nothing is to be named.
    Right,
    /// Right, but correlated only.
    Correlated,
    /// Right for one of two limits that are close together.
    OneOfTwo,
    /// No cause is named, though there is one.
    Unknown,
    /// The search stated no interval.
    NoInterval,
    /// Another cause is named.
    Wrong,
}

impl Answer {
    /// As in records and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Correlated => "correlated",
            Self::OneOfTwo => "one of two",
            Self::Unknown => "unknown",
            Self::NoInterval => "no interval",
            Self::Wrong => "wrong",
        }
    }
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cause(cause) => f.write_str(cause),
            Self::Both([one, other]) => write!(f, "{one} and {other}"),
            Self::Unknown => f.write_str("unknown"),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

/// Returns every recipe.
pub fn all() -> Vec<Recipe> {
    [limits::all(), cpu::all(), waits::all(), network::all(), laboratory::all(), decoys::all()]
        .concat()
}

/// HAProxy's configuration: lines of `global` beside the socket, of the frontend, and further sections.
fn haproxy(global: &str, frontend: &str, sections: &str) -> String {
    format!(
        "global\n    stats socket unix@stats.sock level admin\n    {global}\n\
         defaults\n    mode http\n    timeout connect 5s\n    timeout client 60s\n    \
         timeout server 60s\n\
         frontend sut\n    bind 127.0.0.1:8080\n    {frontend}\n{sections}\n"
    )
}

/// Returns a backend of one server, with what follows its address.
fn behind(server: &str) -> String {
    format!("    default_backend b\nbackend b\n    server s1 127.0.0.1:8081 {server}")
}

/// nginx's configuration: lines of `main`, `events`, `http` and of its server.
fn nginx(main: &str, events: &str, http: &str, server: &str) -> String {
    format!(
        "user root;\npid nginx.pid;\nerror_log error.log;\nworker_processes 1;\n{main}\n\
         events {{ {events} }}\nhttp {{\naccess_log off;\nclient_body_temp_path body;\n\
         proxy_temp_path proxy;\nfastcgi_temp_path fastcgi;\nuwsgi_temp_path uwsgi;\n\
         scgi_temp_path scgi;\n{http}\nserver {{\nlisten 127.0.0.1:8080 backlog=4096;\n{server}\n}}\n}}\n"
    )
}

/// One thread of its own, and room for what any recipe opens.
const ONE_THREAD: &str = "nbthread 1\n    maxconn 4000";
/// HAProxy answers by itself.
const PONG: &str = "http-request return status 200 content-type text/plain string pong";
