//! Lists of hosts as users of pdsh, clush and Slurm type them: `client[01-20],root@[fe80::1]:2222,-client07`.
//!
//! [`parse`] splits a list at the commas outside of brackets, expands ranges (`01-20`, `30-90/10`) in each item, and
//! finally removes the items that begin with `-`. A list has 1 to [`HOSTS_MAX`] hosts, and no two with the same name
//! and port. No name or user begins with `-`, which ssh would read as an option. [`fold`] is the reverse, without
//! logins, for reports. Start reading at [`parse`].

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

/// Most hosts of a list.
pub const HOSTS_MAX: usize = 1_000;

/// A host, with the login and the port that `ssh` uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostName {
    /// User who logs in; `None` leaves it to the configuration of ssh.
    pub user: Option<String>,
    /// A name, an alias of the configuration of ssh, or an address.
    pub host: String,
    /// The port of its sshd; `None` leaves it to the configuration of ssh.
    pub port: Option<u16>,
}

impl HostName {
    /// Reports whether both reach the same sshd, by any login. Reports distinguish hosts by this.
    pub fn is_same_place(&self, other: &Self) -> bool {
        (&self.host, self.port) == (&other.host, other.port)
    }
}

/// The host and its port, without the login: names of hosts are archived and reported, and a login is half of a
/// credential.
impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.host.contains(':'), self.port) {
            (true, _) => write!(f, "[{}]", self.host)?,
            (false, _) => f.write_str(&self.host)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Why a list cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HostNameError {
    /// Two commas in a row, or nothing at all.
    #[error("an item of the list is empty")]
    Empty,
    /// A bracket without its other half.
    #[error("{0:?} has a bracket that is not closed, or not opened")]
    Bracket(String),
    /// The text in brackets is no range.
    #[error("{0:?} is no range: ranges are 1-20, 01-20 or 1,3,5-9")]
    Range(String),
    /// No host has such a name.
    #[error("{0:?} is no name of a host")]
    Name(String),
    /// No port.
    #[error("{0:?} is no port")]
    Port(String),
    /// One host by two logins.
    #[error("{0} is named twice, with different users; name each host once")]
    Twice(String),
    /// Too many.
    #[error("the list has more than {HOSTS_MAX} hosts")]
    TooMany,
    /// An item is removed that is not there.
    #[error("{0} is removed from a list that does not have it")]
    NotThere(String),
}

/// Returns the hosts of a list, in order, each once. Items that begin with `-` are removed after all others were
/// added.
pub fn parse(list: &str) -> Result<Vec<HostName>, HostNameError> {
    let mut hosts: Vec<HostName> = Vec::new();
    let mut removed = Vec::new();
    for item in items(list)? {
        match item.strip_prefix('-') {
            Some(item) => removed.extend(item_hosts(item)?),
            None => {
                for host in item_hosts(item)? {
                    if !hosts.contains(&host) {
                        hosts.push(host);
                    }
                    if hosts.len() > HOSTS_MAX {
                        return Err(HostNameError::TooMany);
                    }
                }
            }
        }
    }
    for host in removed {
        let at = hosts.iter().position(|other| *other == host);
        hosts.remove(at.ok_or_else(|| HostNameError::NotThere(host.to_string()))?);
    }
    for (at, host) in hosts.iter().enumerate() {
        if hosts[..at].iter().any(|other| other.is_same_place(host)) {
            return Err(HostNameError::Twice(host.to_string()));
        }
    }
    if hosts.is_empty() { Err(HostNameError::Empty) } else { Ok(hosts) }
}

/// Returns the parts between commas that are outside of brackets.
fn items(list: &str) -> Result<Vec<&str>, HostNameError> {
    let mut items = Vec::new();
    let (mut depth, mut begin) = (0u32, 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => {
                depth =
                    depth.checked_sub(1).ok_or_else(|| HostNameError::Bracket(list.to_owned()))?;
            }
            ',' if depth == 0 => {
                items.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(HostNameError::Bracket(list.to_owned()));
    }
    items.push(&list[begin..]);
    if items.iter().any(|item| item.is_empty()) { Err(HostNameError::Empty) } else { Ok(items) }
}

/// Returns the hosts of one item.
fn item_hosts(item: &str) -> Result<Vec<HostName>, HostNameError> {
    let (user, rest) = item.split_once('@').map_or((None, item), |(user, rest)| (Some(user), rest));
    let wrong = || HostNameError::Name(item.to_owned());
    if user.is_some_and(|user| !is_word(user, "._-$+")) {
        return Err(wrong());
    }
    let address = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (names, port) = match address.filter(|(inside, _)| inside.contains(':')) {
        Some((address, after)) => {
            let port = match after.strip_prefix(':') {
                Some(port) => Some(port),
                None if after.is_empty() => None,
                None => return Err(wrong()),
            };
            (vec![address.to_owned()], port)
        }
        None => {
            let named = rest.rsplit_once(':');
            let (host, port) = named.map_or((rest, None), |(host, port)| (host, Some(port)));
            (expanded(host)?, port)
        }
    };
    let number = |text: &str| {
        let number = text.parse().ok().filter(|port| *port > 0);
        number.ok_or_else(|| HostNameError::Port(text.to_owned()))
    };
    let port = port.map(number).transpose()?;
    // A name that begins with - would be an option of ssh.
    if let Some(name) = names.iter().find(|name| !is_word(name, "._-:%")) {
        return Err(HostNameError::Name(name.clone()));
    }
    let user = user.map(ToOwned::to_owned);
    Ok(names.into_iter().map(|host| HostName { user: user.clone(), host, port }).collect())
}

/// Reports whether a word has letters, digits and `others` alone, and no minus at its beginning.
fn is_word(text: &str, others: &str) -> bool {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || others.contains(letter);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_allowed)
}

/// Returns a name with its ranges written out: the first range changes slowest.
fn expanded(name: &str) -> Result<Vec<String>, HostNameError> {
    let Some((before, rest)) = name.split_once('[') else {
        return match name.contains(']') {
            true => Err(HostNameError::Bracket(name.to_owned())),
            false => Ok(vec![name.to_owned()]),
        };
    };
    let (ranges, after) =
        rest.split_once(']').ok_or_else(|| HostNameError::Bracket(name.to_owned()))?;
    let after = expanded(after)?;
    let mut names = Vec::new();
    for number in numbers(ranges)? {
        names.extend(after.iter().map(|after| format!("{before}{number}{after}")));
        if names.len() > HOSTS_MAX {
            return Err(HostNameError::TooMany);
        }
    }
    Ok(names)
}

/// Returns the numbers of `01-20,30-90/10`, as they are written.
fn numbers(ranges: &str) -> Result<Vec<String>, HostNameError> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let wrong = || HostNameError::Range(range.to_owned());
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| is_number).ok_or_else(wrong)
        };
        let (span, step) = match range.split_once('/') {
            Some((span, step)) => (span, number(step)?.max(1)),
            None => (range, 1),
        };
        let (first, last) = span.split_once('-').unwrap_or((span, span));
        let (from, to) = (number(first)?, number(last)?);
        if from > to {
            return Err(wrong());
        }
        if (to - from) / step >= HOSTS_MAX as u32 {
            return Err(HostNameError::TooMany);
        }
        let width = padding(first);
        numbers.extend((from..=to).step_by(step as usize).map(|n| format!("{n:0width$}")));
    }
    Ok(numbers)
}

/// Returns the width of numbers of a range that begins with this one: only a zero in front is padding.
fn padding(first: &str) -> usize {
    if first.starts_with('0') { first.len() } else { 1 }
}

/// Returns the shortest list of these hosts, without logins: `client[01-07,09],proxy`.
pub fn fold(hosts: &[HostName]) -> String {
    type Key = (String, String, Option<u16>);
    let mut numbered: BTreeMap<Key, Vec<String>> = BTreeMap::new();
    let mut items = Vec::new();
    for host in hosts {
        match last_number(&host.host) {
            Some((before, number, after)) => {
                let key = (before.to_owned(), after.to_owned(), host.port);
                numbered.entry(key).or_default().push(number.to_owned());
            }
            None => items.push(host.to_string()),
        }
    }
    for ((before, after, port), mut numbers) in numbered {
        numbers.sort_by_key(|number| (number.parse::<u32>().unwrap_or(0), number.len()));
        numbers.dedup();
        let ranges = ranges(&numbers);
        let is_one = numbers.len() == 1;
        let inside = if is_one { ranges } else { format!("[{ranges}]") };
        items.push(
            HostName { user: None, host: format!("{before}{inside}{after}"), port }.to_string(),
        );
    }
    items.join(",")
}

/// Returns the last number in a name, and what is around it.
fn last_number(name: &str) -> Option<(&str, &str, &str)> {
    if name.contains(':') {
        return None;
    }
    let end = name.rfind(|letter: char| letter.is_ascii_digit())? + 1;
    let begin = name[..end].rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |at| at + 1);
    let number = &name[begin..end];
    number.parse::<u32>().ok()?;
    Some((&name[..begin], number, &name[end..]))
}

/// Formats ascending numbers as ranges: `01-07,09`.
fn ranges(numbers: &[String]) -> String {
    let value = |number: &str| number.parse::<u32>().unwrap_or(0);
    let mut spans: Vec<(&str, &str)> = Vec::new();
    for number in numbers {
        match spans.last_mut() {
            Some((first, last))
                if *number == format!("{:0width$}", value(last) + 1, width = padding(first)) =>
            {
                *last = number;
            }
            _ => spans.push((number, number)),
        }
    }
    let text = |(first, last): &(&str, &str)| match first == last {
        true => (*first).to_owned(),
        false => format!("{first}-{last}"),
    };
    spans.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(list: &str) -> Vec<String> {
        parse(list).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lists_of_pdsh_clush_and_slurm() {
        for (list, expected) in [
            ("a,b", vec!["a", "b"]),
            ("c[08-10]", vec!["c08", "c09", "c10"]),
            ("c[8-10]", vec!["c8", "c9", "c10"]),
            ("c[1,3,5-6].x", vec!["c1.x", "c3.x", "c5.x", "c6.x"]),
            ("c[0-20/10]", vec!["c0", "c10", "c20"]),
            ("d[1-2]n[1-2]", vec!["d1n1", "d1n2", "d2n1", "d2n2"]),
            ("root@c[1-2]:2222", vec!["c1:2222", "c2:2222"]),
            ("10.0.0.[1-2]", vec!["10.0.0.1", "10.0.0.2"]),
            ("me@[fe80::1]:22,[::1]", vec!["[fe80::1]:22", "[::1]"]),
            ("c[1-4],-c[2-3]", vec!["c1", "c4"]),
            ("-a,a,b", vec!["b"]),
            ("a,a", vec!["a"]),
        ] {
            assert_eq!(names(list), expected, "{list}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (list, said) in [
            ("", "an item of the list is empty"),
            ("a,,b", "an item of the list is empty"),
            ("-a,a", "an item of the list is empty"),
            ("c[1-2", "is not closed"),
            ("c1-2]", "is not closed, or not opened"),
            ("c[2-1]", "\"2-1\" is no range"),
            ("rack[a]", "\"a\" is no range"),
            ("c[1-99999]", "more than 1000 hosts"),
            ("a:0", "\"0\" is no port"),
            ("a:ssh", "\"ssh\" is no port"),
            ("a b", "\"a b\" is no name of a host"),
            ("x@-oProxyCommand=x", "is no name of a host"),
            ("a,-b", "b is removed from a list that does not have it"),
            ("@x", "is no name of a host"),
            ("me@a,you@a", "a is named twice, with different users"),
            ("me@a:22,a:22", "a:22 is named twice"),
        ] {
            let error = parse(list).expect_err(list).to_string();
            assert!(error.contains(said), "{list}: {error}");
        }
    }

    #[test]
    fn lists_are_folded() {
        for (list, folded) in [
            ("client[01-07],client09", "client[01-07,09]"),
            ("c9,c10,c11", "c[9-11]"),
            ("c09,c10", "c[09-10]"),
            ("c99,c100", "c[99-100]"),
            ("c099,c100", "c[099-100]"),
            ("proxy,c1", "proxy,c1"),
            ("root@a1:22,me@a2:22,a3", "a3,a[1-2]:22"),
            ("[::1],[::2]", "[::1],[::2]"),
            ("d1n1,d1n2,d2n1", "d1n[1-2],d2n1"),
        ] {
            assert_eq!(fold(&parse(list).unwrap()), folded, "{list}");
        }
    }

    fn host() -> impl Strategy<Value = HostName> {
        let port = prop::option::of(1u16..);
        ("[a-c]{0,2}[0-9]{1,3}[a-c.]{0,2}", port).prop_map(|(host, port)| HostName {
            user: None,
            host,
            port,
        })
    }

    proptest! {
        #[test]
        fn what_is_folded_expands_to_the_same(hosts in prop::collection::vec(host(), 1..30)) {
            let mut expected = hosts.clone();
            expected.sort();
            expected.dedup();
            let mut again = parse(&fold(&hosts)).unwrap();
            again.sort();
            prop_assert_eq!(again, expected);
        }

        #[test]
        fn any_text_is_a_list_or_an_error(text in "[a-c0-9,@:\\[\\]/ -]{0,24}") {
            if let Ok(hosts) = parse(&text) {
                prop_assert!(!hosts.is_empty() && hosts.len() <= HOSTS_MAX);
                prop_assert!(hosts.iter().all(|host| !host.host.starts_with('-')));
            }
        }
    }
}
