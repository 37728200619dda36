//! What ssh means when it ends with 255, in one line.

use super::launcher::Launcher;
use crate::message::ExitReason;

/// The code of ssh's own troubles, and of a death by signal on the other host.
const SSH_FAILED: ExitReason = ExitReason::Code(255);

/// Completes *client07 …* for a link that ended before its agent said anything; `None` where there is no
/// better word than what was printed.
pub(crate) fn explained(launcher: &Launcher, reason: ExitReason, printed: &str) -> Option<String> {
    if !matches!(launcher, Launcher::Ssh(_)) || reason != SSH_FAILED {
        return None;
    }
    let says = |text: &str| printed.contains(text);
    let line = if says("Could not resolve hostname") {
        "is not known: no such name in DNS, /etc/hosts or the configuration of ssh"
    } else if says("IDENTIFICATION HAS CHANGED") {
        "has another host key than the one in known_hosts: find out why; ssh-keygen -R removes the old \
         one"
    } else if says("Host key verification failed") {
        "has a host key that is not in known_hosts: log in by ssh once to see it, or use --ssh-option \
         StrictHostKeyChecking=accept-new"
    } else if says("Permission denied") {
        "accepts no key of this user: ssh must log in there without a password"
    } else if says("timed out") {
        "did not answer in time: it is down, or a firewall drops packets to its sshd"
    } else if says("Connection refused") {
        "refuses connections: no sshd listens at that address and port"
    } else if says("No route to host") || says("Network is unreachable") {
        "cannot be reached: there is no route to it"
    } else if says("kex_exchange_identification") {
        "closed the connection before the login: its sshd has too many at once (MaxStartups), or \
         refuses this address"
    } else {
        return None;
    };
    Some(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trouble_has_its_line() {
        let ssh = Launcher::Ssh(Vec::new());
        let line = |printed: &str| explained(&ssh, SSH_FAILED, printed);
        for (printed, expected) in [
            ("ssh: Could not resolve hostname x: Name or service not known", "is not known"),
            ("Host key verification failed.", "log in by ssh once"),
            (
                "REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.",
                "another host key",
            ),
            ("me@client07: Permission denied (publickey).", "accepts no key"),
            ("connect to host x port 22: Connection timed out", "did not answer in time"),
            ("connect to host x port 22: Connection refused", "no sshd listens"),
            ("connect to host x port 22: No route to host", "no route"),
            ("kex_exchange_identification: Connection closed by remote host", "MaxStartups"),
        ] {
            let line = line(printed).expect(printed);
            assert!(line.contains(expected), "{printed}: {line}");
        }
        assert_eq!(line("something else"), None);
        assert_eq!(explained(&ssh, ExitReason::Code(1), "Permission denied"), None);
        let other = Launcher::Other(vec!["srun".to_owned()]);
        assert_eq!(explained(&other, SSH_FAILED, "Permission denied"), None);
    }
}
