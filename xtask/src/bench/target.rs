//! What plimsoll must reach beside the best of its peers, and the table of it on top of the page.
//! Each section keeps its readings in comments, so that the table also has those of other days.

use std::fmt::Write;

use crate::bench::claim::{Claim, Outcome};
use crate::bench::settings::Part;

/// A figure that must be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    ClientMemory,
    ClientMemoryMillion,
    ServerMemory,
    MachineMemory,
    HoldMillion,
    HoldTwoMillion,
    NewConnection,
    RequestPlain,
    RequestTls,
    ServePlain,
    ServeTls,
    HaproxyHeld,
    KnownCapacity,
}

impl Target {
    /// In the order of the table.
    pub(crate) const ALL: [Self; 13] = [
        Self::ClientMemory,
        Self::ClientMemoryMillion,
        Self::ServerMemory,
        Self::MachineMemory,
        Self::HoldMillion,
        Self::HoldTwoMillion,
        Self::NewConnection,
        Self::RequestPlain,
        Self::RequestTls,
        Self::ServePlain,
        Self::ServeTls,
        Self::HaproxyHeld,
        Self::KnownCapacity,
    ];

    const fn id(self) -> &'static str {
        match self {
            Self::ClientMemory => "client-memory",
            Self::ClientMemoryMillion => "client-memory-1M",
            Self::ServerMemory => "server-memory",
            Self::MachineMemory => "machine-memory",
            Self::HoldMillion => "hold-1M",
            Self::HoldTwoMillion => "hold-2M",
            Self::NewConnection => "new-connection",
            Self::RequestPlain => "request-plain",
            Self::RequestTls => "request-tls",
            Self::ServePlain => "serve-plain",
            Self::ServeTls => "serve-tls",
            Self::HaproxyHeld => "haproxy-held",
            Self::KnownCapacity => "known-capacity",
        }
    }

    pub(crate) const fn figure(self) -> &'static str {
        match self {
            Self::ClientMemory => {
                "client user memory per held, idle TLS 1.3 connection, one process, kB"
            }
            Self::ClientMemoryMillion => {
                "client user memory per held, idle TLS 1.3 connection, 1 M, kB"
            }
            Self::ServerMemory => "server user memory per held TLS 1.3 connection (`serve`), kB",
            Self::MachineMemory => {
                "memory of the whole machine, 1 M TLS connections, both ends, GB"
            }
            Self::HoldMillion => "1,000,000 TLS connections, both ends on one machine",
            Self::HoldTwoMillion => "2,000,000 TLS connections, both ends on one machine",
            Self::NewConnection => {
                "client CPU per new full TLS 1.3 connection with one request, us"
            }
            Self::RequestPlain => "client CPU per keep-alive HTTP/1.1 request, plain, us",
            Self::RequestTls => "client CPU per keep-alive HTTP/1.1 request, TLS 1.3, us",
            Self::ServePlain => "CPU of `serve` per request, plain, us",
            Self::ServeTls => "CPU of `serve` per request, TLS 1.3, us",
            Self::HaproxyHeld => "connections held through a real HAProxy before memory ends",
            Self::KnownCapacity => {
                "searches of servers of known capacity (HAProxy 450/s; token buckets 700, 2,300, \
                 9,100/s; 731 connections)"
            }
        }
    }

    pub(crate) const fn aim(self) -> &'static str {
        match self {
            Self::ClientMemory | Self::ClientMemoryMillion => "0.45 or less",
            Self::ServerMemory => "0.6 or less",
            Self::MachineMemory => "10 or less",
            Self::HoldMillion => "every one answers, none lost, ramp below 6 minutes",
            Self::HoldTwoMillion => "every one answers, none lost, in 23 GB",
            Self::NewConnection => "half of the best peer's or less, oha among them",
            Self::RequestPlain | Self::RequestTls => "0.8 of the best peer's or less",
            Self::ServePlain | Self::ServeTls => "less than nginx and than HAProxy",
            Self::HaproxyHeld => "at least 95 % of what its cost per connection allows",
            Self::KnownCapacity => "the truth in each interval",
        }
    }

    /// What measures it.
    pub(crate) const fn part(self) -> Part {
        match self {
            Self::ClientMemory | Self::ServerMemory => Part::Memory,
            Self::NewConnection | Self::RequestPlain | Self::RequestTls => Part::Cost,
            Self::ServePlain | Self::ServeTls => Part::Serve,
            Self::ClientMemoryMillion
            | Self::MachineMemory
            | Self::HoldMillion
            | Self::HoldTwoMillion
            | Self::HaproxyHeld => Part::Hold,
            Self::KnownCapacity => Part::Capacity,
        }
    }
}

/// How a target fared, in words for the table; `-` where there is nothing to say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) target: Target,
    /// The best peer that was measured, with its figure.
    pub(crate) peer: String,
    pub(crate) ours: String,
    /// Ours over the peer's.
    pub(crate) ratio: String,
    pub(crate) outcome: Outcome,
}

impl Reading {
    /// A target about which nothing is known, because of `why`.
    pub(crate) fn not_measured(target: Target, why: impl Into<String>) -> Self {
        let none = || "-".to_owned();
        let outcome = Outcome::NotMeasured;
        Self { target, peer: none(), ours: why.into(), ratio: none(), outcome }
    }

    pub(crate) fn claim(&self) -> Claim {
        let ratio =
            if self.ratio == "-" { String::new() } else { format!("; {} of it", self.ratio) };
        let peer = if self.peer == "-" { String::new() } else { format!("; {}", self.peer) };
        Claim {
            what: self.target.figure().to_owned(),
            aim: self.target.aim().to_owned(),
            found: format!("{}{peer}{ratio}", self.ours),
            outcome: self.outcome,
        }
    }

    /// As its section keeps it: a comment, which no reader sees.
    pub(crate) fn comment(&self) -> String {
        let Self { target, peer, ours, ratio, outcome } = self;
        let cells = [target.id(), peer, ours, ratio, outcome.name()].map(|cell| {
            // What would end the cell or the comment early.
            cell.replace(['|', '\n'], " ").replace("-->", "->")
        });
        format!("{BEGIN}{}{END}\n", cells.join(" | "))
    }
}

const BEGIN: &str = "<!-- target ";
const END: &str = " -->";

/// The comments in `text` about targets other than those of `but`, as they stand.
pub(crate) fn comments_but(text: &str, but: &[Reading]) -> String {
    let is_new = |id: &str| but.iter().any(|reading| reading.target.id() == id);
    let lines = text.lines().filter(|line| cells(line).is_some_and(|cells| !is_new(cells[0])));
    lines.map(|line| format!("{line}\n")).collect()
}

fn cells(line: &str) -> Option<[&str; 5]> {
    let inner = line.strip_prefix(BEGIN)?.strip_suffix(END)?;
    let cells: Vec<&str> = inner.split(" | ").collect();
    cells.try_into().ok()
}

/// The table of all targets, from the comments of all sections.
pub(crate) fn table(sections: &str) -> String {
    let known: Vec<[&str; 5]> = sections.lines().filter_map(cells).collect();
    let mut text = String::from(
        "## Targets\n\nThe best peer is the best of those that were on the machine; the sections \
         below name the others as\nmissing, and say how each was measured, when, and with what. A \
         ratio is ours over the peer's: the\nmedian, and the range in brackets.\n\n\
         | figure | best peer measured | ours | ratio | target | reached |\n|---|---|---|---|---|---|\n",
    );
    for target in Target::ALL {
        let unknown = [target.id(), "-", "-", "-", Outcome::NotMeasured.name()];
        let cells = known.iter().find(|cells| cells[0] == target.id()).unwrap_or(&unknown);
        let [_, peer, ours, ratio, outcome] = cells;
        let how = if *outcome == Outcome::NotMeasured.name() {
            format!("not measured (`--part {}`)", target.part().name())
        } else {
            (*outcome).to_owned()
        };
        let (figure, aim) = (target.figure(), target.aim());
        let _ = writeln!(text, "| {figure} | {peer} | {ours} | {ratio} | {aim} | {how} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(target: Target, ours: &str) -> Reading {
        Reading {
            target,
            peer: "oha: 32.80".to_owned(),
            ours: ours.to_owned(),
            ratio: "0.01".to_owned(),
            outcome: Outcome::Reached,
        }
    }

    #[test]
    fn a_reading_survives_its_comment() {
        let reading = reading(Target::ClientMemory, "0.41 | or\nso --> x");
        let table = table(&format!("text\n{}text\n", reading.comment()));
        let expected = format!(
            "| {} | oha: 32.80 | 0.41   or so -> x | 0.01 | 0.45 or less | reached |\n",
            Target::ClientMemory.figure()
        );
        assert!(table.contains(&expected), "{table}");
        let rows = table.lines().filter(|line| line.starts_with("| ")).count();
        assert_eq!(rows, 1 + Target::ALL.len());
        assert!(table.contains("| not measured (`--part hold`) |"));
    }

    #[test]
    fn new_readings_replace_their_own_only() {
        let old = [reading(Target::HoldMillion, "a"), reading(Target::HoldTwoMillion, "b")];
        let text = old.each_ref().map(Reading::comment).concat();
        let kept = comments_but(&text, &[reading(Target::HoldMillion, "c")]);
        assert_eq!(kept, old[1].comment());
    }

    #[test]
    fn a_target_has_a_name_of_its_own() {
        for target in Target::ALL {
            let same = Target::ALL.iter().filter(|other| other.id() == target.id());
            assert_eq!(same.count(), 1, "{target:?}");
        }
    }

    #[test]
    fn claims_say_what_they_rest_on() {
        let claim = reading(Target::ClientMemory, "0.41").claim();
        assert_eq!(claim.found, "0.41; oha: 32.80; 0.01 of it");
        let none = Reading::not_measured(Target::HoldMillion, "no figures").claim();
        assert_eq!((none.found.as_str(), none.outcome), ("no figures", Outcome::NotMeasured));
    }
}
