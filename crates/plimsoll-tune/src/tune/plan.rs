//! The plan of changes for a stated number of connections, and the settings that deliberately stay.
//!
//! [`Plan::of`] reads the needs that `doctor` computed and distributes them over four lists: sysctls to change,
//! process limits for files, settings that stay, and actions for a person. A limit is raised and never lowered; of
//! two values for one setting the higher one wins. Before the port range grows, the plan reserves the ports of
//! listening programs. The file reads settings and changes none; `apply` carries the plan out. Start with
//! [`Plan::of`].

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use serde::Serialize;

use super::apply::setting_path;
use super::disk::Disk;
use super::kept::StartedBy;
use super::normalised;
use crate::doctor::{Need, Needs, Setting, Verdict};

/// The role of this host for the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The host opens connections.
    Client,
    /// The host accepts connections and opens others.
    Proxy,
    /// The host accepts connections.
    Backend,
}

/// One setting to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The sysctl.
    pub name: String,
    /// Present value.
    pub present: String,
    /// The value to write.
    pub wanted: String,
    /// Why.
    pub reason: String,
    /// Risk of the change.
    pub risk: &'static str,
    /// Source of the advice.
    pub source: &'static str,
}

/// A limit of processes: a file keeps it for those that start later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessLimit {
    /// Name in a unit of systemd.
    pub name: &'static str,
    /// Value there.
    pub wanted: String,
    /// The lines that raise it.
    pub lines: Vec<String>,
    /// The file that they are written to.
    pub file: String,
    /// Why.
    pub reason: String,
    /// From when on it holds.
    pub holds: String,
    /// Source of the advice.
    pub source: &'static str,
}

/// A setting that is not changed, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftAlone {
    /// The sysctl or limit.
    pub name: String,
    /// Why it is left as it is.
    pub reason: String,
}

/// Changes in the order in which they are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Changes to make.
    pub changes: Vec<Change>,
    /// Limits that a file is to keep, where that is asked for (`--persist`).
    pub limits: Vec<ProcessLimit>,
    /// Settings that stay, and why.
    pub left_alone: Vec<LeftAlone>,
    /// Actions for a person: these are no sysctls.
    pub by_hand: Vec<String>,
}

/// Reports whether a setting of one number is high enough already: a limit is raised, never lowered.
fn is_at_least(disk: &dyn Disk, root: &Path, name: &str, wanted: &str) -> bool {
    let present = disk.read(&setting_path(root, name)).ok();
    let present = present.and_then(|text| normalised(&text).parse::<u64>().ok());
    present.zip(wanted.parse().ok()).is_some_and(|(present, wanted)| present >= wanted)
}

/// Parses a list of ports in the format of the kernel: `8080,9000-9002`.
fn ports_of(text: &str) -> BTreeSet<u16> {
    let range = |text: &str| {
        let (first, last) =
            text.trim().split_once('-').unwrap_or_else(|| (text.trim(), text.trim()));
        Some(first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Formats a list of ports like the kernel: `8080,9000-9002`.
fn port_list(ports: &BTreeSet<u16>) -> String {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for port in ports {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*port) => *last = *port,
            _ => ranges.push((*port, *port)),
        }
    }
    let text = |(first, last): (u16, u16)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

/// Limits that are raised although no connection fails because of them: raising them costs nothing.
const RAISED_WITHOUT_NEED: [&str; 2] = ["fs.file-max", "net.core.somaxconn"];

/// Settings that web pages recommend, each with the reason why the plan does not change it.
const NOT_CHANGED: [(&str, &str); 11] = [
    ("net.ipv4.tcp_tw_recycle", "removed in Linux 4.12; it broke clients behind NAT"),
    ("net.ipv4.tcp_fin_timeout", "bounds orphans in FIN_WAIT_2; TIME_WAIT is always 60 s"),
    (
        "net.ipv4.tcp_max_syn_backlog",
        "has no effect while tcp_syncookies is 1: the listen backlog is the limit",
    ),
    (
        "net.ipv4.tcp_max_tw_buckets",
        "a full table only ends TIME_WAIT early; lowering it gains nothing",
    ),
    (
        "net.ipv4.tcp_synack_retries",
        "SYN cookies answer while the SYN queue is full; fewer retries lose clients on paths that lose packets",
    ),
    (
        "net.netfilter.nf_conntrack_buckets",
        "no connection fails because of it: below a quarter of nf_conntrack_max, look-ups get slower",
    ),
    (
        "net.ipv4.ip_nonlocal_bind",
        "lets programs bind addresses of another host, for a standby that takes them over; connections do not need it",
    ),
    ("net.ipv4.tcp_timestamps", "0 disables tcp_tw_reuse and makes round trips harder to measure"),
    (
        "net.ipv4.tcp_rmem, tcp_wmem",
        "large defaults let a million connections queue terabytes; autotuning does better",
    ),
    ("net.core.message_cost", "0 floods the console; it does not affect the server's logs"),
    ("vm.swappiness", "does not concern sockets"),
];

/// The port range, which may take in ports of servers.
const PORT_RANGE: &str = "net.ipv4.ip_local_port_range";
const RISK_OF_PORTS: &str = "a program that listens on a port from 1024 on may find a connection there: reserve its port \
                             in net.ipv4.ip_local_reserved_ports before it starts";
const RESERVED_PORTS: &str = "net.ipv4.ip_local_reserved_ports";
/// The first port that needs no privilege.
const PORT_MIN: u16 = 1_024;
/// The longest list of ports that one write takes: a page.
const PORTS_TEXT_MAX: usize = 4_000;
const DOCTOR: &str = "plimsoll doctor";

impl Plan {
    /// Makes the plan for `needs` of a host below `root` (`/`) that is in `roles`; `churns` where connections
    /// are opened and closed all the time. `listening` are the ports that programs of the host listen on.
    pub fn of(
        needs: &Needs,
        roles: &[Role],
        churns: bool,
        listening: &[u16],
        started_by: &StartedBy,
        disk: &dyn Disk,
        root: &Path,
    ) -> Self {
        let mut plan = Self::default();
        for need in &needs.lines {
            plan.add_need(need, started_by, disk, root);
        }
        plan.reserve_ports(listening, disk, root);
        let opens = roles.iter().any(|role| matches!(role, Role::Client | Role::Proxy));
        if opens && churns {
            plan.add(
                "net.ipv4.tcp_tw_reuse",
                "1",
                "source ports in TIME_WAIT may be used again after 1 s, also to other hosts",
                "needs tcp_timestamps; does nothing for accepted connections",
                "Linux ip-sysctl",
                (disk, root),
            );
        }
        if roles.iter().any(|role| matches!(role, Role::Proxy | Role::Backend)) {
            plan.add(
                "net.ipv4.tcp_slow_start_after_idle",
                "0",
                "answers on idle keep-alive connections need not start slowly again",
                "bursts on paths that became narrower meanwhile",
                "HAProxy's and nginx's tuning guides",
                (disk, root),
            );
        }
        let left = |(name, reason): &(&str, &str)| LeftAlone {
            name: (*name).to_owned(),
            reason: (*reason).to_owned(),
        };
        plan.left_alone.extend(NOT_CHANGED.iter().map(left));
        plan
    }

    /// Reports whether nothing is to be done; with `persist`, nothing to be kept either.
    pub fn is_empty(&self, persist: bool) -> bool {
        self.changes.is_empty() && (self.limits.is_empty() || !persist)
    }

    fn add_need(&mut self, need: &Need, started_by: &StartedBy, disk: &dyn Disk, root: &Path) {
        let Some(fix) = &need.fix else { return };
        if need.verdict != Verdict::Short && !RAISED_WITHOUT_NEED.contains(&need.limit.as_str()) {
            let reason = format!("no connection fails because of it; to raise it: {}", fix.now);
            self.left_alone.push(LeftAlone { name: need.limit.clone(), reason });
            return;
        }
        let before = self.changes.len();
        let reason = need.to_string();
        let reason = reason.split(';').next().unwrap_or_default().to_owned();
        for setting in &fix.settings {
            match setting {
                Setting::Sysctl { name, value } if is_at_least(disk, root, name, value) => {}
                Setting::Sysctl { name, value } => {
                    let risk = if name == PORT_RANGE { RISK_OF_PORTS } else { "none" };
                    self.add(name, value, reason.clone(), risk, DOCTOR, (disk, root));
                }
                Setting::Service { name, value } => self.add_limit(ProcessLimit {
                    name,
                    wanted: value.clone(),
                    lines: started_by.lines(name, value),
                    file: started_by.file(),
                    reason: reason.clone(),
                    holds: started_by.holds(),
                    source: DOCTOR,
                }),
            }
        }
        if fix.by_hand || self.changes.len() == before {
            self.by_hand.push(format!("{}: {}", need.limit, fix.now));
        }
    }

    /// Reserves the ports of this host's servers, before a wider range hands them to connections.
    fn reserve_ports(&mut self, listening: &[u16], disk: &dyn Disk, root: &Path) {
        let Some(place) = self.changes.iter().position(|change| change.name == PORT_RANGE) else {
            return;
        };
        let present = disk.read(&setting_path(root, RESERVED_PORTS)).unwrap_or_default();
        let mut ports = ports_of(&present);
        ports.extend(listening.iter().filter(|port| **port >= PORT_MIN));
        let wanted = port_list(&ports);
        if wanted.len() > PORTS_TEXT_MAX {
            let count = ports.len();
            return self.by_hand.push(format!(
                "{RESERVED_PORTS}: {count} ports are listened on, too many to list"
            ));
        }
        let reason = "programs of this host listen on these ports now";
        let risk = "connections of this host do not use them as source ports";
        self.add(RESERVED_PORTS, &wanted, reason, risk, "Linux ip-sysctl", (disk, root));
        if self.changes.last().is_some_and(|change| change.name == RESERVED_PORTS) {
            self.changes[place..].rotate_right(1);
        }
    }

    /// Adds a limit that has a place. Of two numbers for one limit, the higher one is planned.
    fn add_limit(&mut self, limit: ProcessLimit) {
        let number = |limit: &ProcessLimit| {
            // 200M
            limit.wanted.trim_end_matches('M').parse::<u64>().unwrap_or(0)
        };
        match self.limits.iter_mut().find(|one| one.name == limit.name) {
            Some(planned) if number(&limit) > number(planned) => *planned = limit,
            Some(_) => {}
            None => self.limits.extend(Some(limit).filter(|limit| !limit.lines.is_empty())),
        }
    }

    /// Adds a change, unless the value is there already or the setting cannot be read. Of two numbers
    /// for one setting, the higher one is planned.
    fn add(
        &mut self,
        name: &str,
        wanted: &str,
        reason: impl Into<String>,
        risk: &'static str,
        source: &'static str,
        (disk, root): (&dyn Disk, &Path),
    ) {
        match disk.read(&setting_path(root, name)) {
            Ok(present) => {
                if let Some(planned) = self.changes.iter_mut().find(|one| one.name == name) {
                    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
                    if number(wanted) > number(&planned.wanted) {
                        (planned.wanted, planned.reason) = (wanted.to_owned(), reason.into());
                    }
                    return;
                }
                let present = normalised(&present);
                if present != wanted {
                    let (name, wanted) = (name.to_owned(), wanted.to_owned());
                    let reason = reason.into();
                    self.changes.push(Change { name, present, wanted, reason, risk, source });
                }
            }
            Err(error) => {
                let reason = format!("cannot be read: {error}");
                self.left_alone.push(LeftAlone { name: name.to_owned(), reason });
            }
        }
    }

    /// Returns one JSON object, schema `plimsoll.tune/1`, and a newline.
    pub fn json(&self) -> String {
        #[derive(Serialize)]
        struct Document<'a> {
            schema: &'static str,
            #[serde(flatten)]
            plan: &'a Plan,
        }
        let document = Document { schema: "plimsoll.tune/1", plan: self };
        // Strings and lists of them can always be written.
        serde_json::to_string_pretty(&document).map_or_else(|_| String::new(), |text| text + "\n")
    }

    /// Returns plain text, each line ended.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // A String takes any text.
        if self.changes.is_empty() {
            let _ = writeln!(text, "No sysctl needs to be changed.");
        }
        for change in &self.changes {
            let Change { name, present, wanted, reason, risk, source } = change;
            let _ = writeln!(text, "change   {name}: {present} -> {wanted}");
            let _ = writeln!(text, "         why   {reason}");
            let _ = writeln!(text, "         risk  {risk}; source: {source}");
        }
        for ProcessLimit { lines, file, reason, holds, source, .. } in &self.limits {
            let _ = writeln!(text, "limit    {file}: {} (--persist)", lines.join(", "));
            let _ = writeln!(text, "         why   {reason}");
            let _ = writeln!(text, "         holds {holds}; source: {source}");
        }
        for line in &self.by_hand {
            let _ = writeln!(text, "by hand  {line}");
        }
        for LeftAlone { name, reason } in &self.left_alone {
            let _ = writeln!(text, "leave    {name}: {reason}");
        }
        text
    }
}
