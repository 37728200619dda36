//! One limit, compared with the need for it.
//!
//! A [`Need`] has the need and the present value in one [`Unit`], a [`Verdict`], the most connections that fit, and a
//! [`Fix`] if the limit is low. A fix is text for a person (`now`) and a list of [`Setting`]s, which `tune` can
//! apply; the combinators of [`Fix`] join several fixes and keep their order. Only [`Verdict::Short`] means that
//! connections fail. Start with [`Need`].

use std::fmt;

use plimsoll_model::units::grouped;

/// No host has memory for more: the upper bound of what is searched for.
pub(super) const CONNECTIONS_MAX: u64 = 1 << 32;
/// Values above this are the kernel's "no limit".
const UNLIMITED: u64 = 1 << 60;

/// The verdict on a limit: high enough, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// High enough.
    Ok,
    /// The limit may be reached, but no connection fails because of it.
    Warn,
    /// Too low: connections would fail.
    Short,
    /// The kernel does not report the limit.
    Unknown,
}

/// The unit of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Items: files, ports, threads.
    Count,
    /// Bytes.
    Bytes,
}

/// A setting that raises a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A sysctl and its value.
    Sysctl {
        /// `net.core.somaxconn`.
        name: String,
        /// Value in the format of the setting.
        value: String,
    },
    /// A limit of a service, in the words of its unit.
    Service {
        /// `LimitNOFILE`.
        name: &'static str,
        /// Value in the format of the setting.
        value: String,
    },
}

/// File of sysctls: read before the files of administrators, which begin with 99.
pub const SYSCTL_FILE: &str = "/etc/sysctl.d/60-plimsoll.conf";
/// File of a service's limits; `UNIT` is its name.
pub(crate) const UNIT_FILE: &str = "/etc/systemd/system/UNIT.service.d/60-plimsoll.conf";

impl Setting {
    /// Returns the file that keeps the setting over a reboot, and the line to write there.
    pub fn kept(&self) -> (&'static str, String) {
        match self {
            Self::Sysctl { name, value } => (SYSCTL_FILE, format!("{name} = {value}")),
            Self::Service { name, value } => (UNIT_FILE, format!("[Service] {name}={value}")),
        }
    }
}

/// The way to raise a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// Action now: a command, or advice.
    pub now: String,
    /// The settings that the command changes, in the order in which they must be changed.
    pub settings: Vec<Setting>,
    /// `true` if a person has to act, because sysctls alone do not raise the limit far enough.
    pub by_hand: bool,
}

/// One limit against what is needed of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The limit, by its documented name.
    pub limit: String,
    /// The unit of `need` and `have`.
    pub unit: Unit,
    /// Need of the connections; for limits of the whole host, including what is in use already.
    pub need: u64,
    /// The limit; `None` if the kernel does not report it.
    pub have: Option<u64>,
    /// The comparison.
    pub verdict: Verdict,
    /// Connections fail at the limit; otherwise they become slower.
    pub stops: bool,
    /// The way to raise the limit; `None` if that is not necessary.
    pub fix: Option<Fix>,
    /// The most connections that it allows.
    pub fits: u64,
}

/// `name: needs 5, has 4; how to raise it`.
impl fmt::Display for Need {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (need, have) = (self.need_text(), self.have_text());
        write!(formatter, "{}: needs {need}, has {have}", self.limit)?;
        self.fix.iter().try_for_each(|fix| write!(formatter, "; {}", fix.now))
    }
}

impl Fix {
    /// Sets `name` to `value`.
    pub(super) fn sysctl(name: &str, value: impl fmt::Display) -> Self {
        let value = value.to_string();
        let typed = if value.contains(' ') { format!("\"{value}\"") } else { value.clone() };
        let now = format!("sysctl -w {name}={typed}");
        let settings = vec![Setting::Sysctl { name: name.to_owned(), value }];
        Self { now, settings, by_hand: false }
    }

    /// Sets a limit of a service; elsewhere, `now` does that.
    pub(super) fn service(
        now: impl fmt::Display,
        name: &'static str,
        value: impl fmt::Display,
    ) -> Self {
        let value = value.to_string();
        let now = format!("{now}, {name}={value} in systemd");
        Self { now, settings: vec![Setting::Service { name, value }], by_hand: true }
    }

    /// Creates advice for a limit that no setting changes.
    pub(super) fn advice(text: impl Into<String>) -> Self {
        Self { now: text.into(), settings: Vec::new(), by_hand: true }
    }

    /// Returns the fix with `words` before it.
    pub(super) fn after(self, words: &str) -> Self {
        Self { now: format!("{words}{}", self.now), ..self }
    }

    /// Returns the fix with `words` after it.
    pub(super) fn or(self, words: &str) -> Self {
        Self { now: format!("{}{words}", self.now), ..self }
    }

    /// Returns both fixes, joined by `words`.
    pub(super) fn then(self, words: &str, next: Self) -> Self {
        let settings = self.settings.into_iter().chain(next.settings).collect();
        let now = format!("{}{words}{}", self.now, next.now);
        Self { now, settings, by_hand: self.by_hand || next.by_hand }
    }
}

impl Need {
    /// Returns `need` with its unit.
    pub fn need_text(&self) -> String {
        amount(self.need, self.unit)
    }

    /// Returns `have` with its unit.
    pub fn have_text(&self) -> String {
        self.have.map_or_else(|| "?".to_owned(), |have| amount(have, self.unit))
    }
}

fn amount(count: u64, unit: Unit) -> String {
    match unit {
        _ if count >= UNLIMITED => "unlimited".to_owned(),
        Unit::Count => grouped(count),
        Unit::Bytes if count >= 1_000_000_000 => format!("{:.1} GB", count as f64 / 1e9),
        Unit::Bytes => format!("{:.0} MB", count as f64 / 1e6),
    }
}
