//! Failures of ssh and srun, explained in one line.

use super::launcher::Launcher;
use crate::message::ExitReason;

/// The code of ssh's own troubles, and of a death by signal on the other host.
const SSH_FAILED: ExitReason = ExitReason::Code(255);

/// Completes *client07 …* for a link that ended before its agent said anything; `None` if there is no
/// better word than what was printed.
pub(crate) fn explained(launcher: &Launcher, reason: ExitReason, printed: &str) -> Option<String> {
    let says = |text: &str| printed.contains(text);
    let line = match launcher {
        Launcher::Ssh(_) if reason == SSH_FAILED => of_ssh(says)?,
        Launcher::Slurm(_) => of_srun(says)?,
        Launcher::Ssh(_) | Launcher::Other(_) | Launcher::Joined(_) => return None,
    };
    Some(line.to_owned())
}

/// Reports whether an sshd, of the host or of a jump host, dropped the connection before the login. An sshd does so at
/// random if many log in at once (MaxStartups), so another attempt may succeed.
pub(crate) fn is_dropped(launcher: &Launcher, reason: ExitReason, printed: &str) -> bool {
    let is_ssh = matches!(launcher, Launcher::Ssh(_)) && reason == SSH_FAILED;
    is_ssh && printed.contains("kex_exchange_identification")
}

fn of_srun(says: impl Fn(&str) -> bool) -> Option<&'static str> {
    Some(if says("Invalid job id") || says("already complet") {
        "has no step: the job of SLURM_JOB_ID is over, or is another user's"
    } else if says("Unable to contact slurm controller") || says("Connection refused") {
        "has no step: slurmctld does not answer"
    } else if says("not in this job") || says("are not part of") || says("node count specification")
    {
        "has no step: it is no node of the job any more"
    } else {
        return None;
    })
}

fn of_ssh(says: impl Fn(&str) -> bool) -> Option<&'static str> {
    Some(if says("Could not resolve hostname") {
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
        "closed the connection before the login: its sshd, or one before it, has too many logins at once \
         (raise MaxStartups there), or refuses this address"
    } else {
        return None;
    })
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
        let dropped = "kex_exchange_identification: read: Connection reset by peer";
        assert!(is_dropped(&ssh, SSH_FAILED, dropped));
        assert!(!is_dropped(&ssh, SSH_FAILED, "Permission denied"));
        let other = Launcher::Other(vec!["rsh".to_owned()]);
        assert_eq!(explained(&other, SSH_FAILED, "Permission denied"), None);
        let slurm = Launcher::Slurm("1".to_owned());
        let over = "srun: error: Unable to confirm allocation for job 1: Invalid job id specified";
        let line = explained(&slurm, ExitReason::Code(1), over);
        assert!(line.is_some_and(|line| line.contains("is over")));
        assert_eq!(explained(&slurm, ExitReason::Code(1), "Permission denied"), None);
    }
}
