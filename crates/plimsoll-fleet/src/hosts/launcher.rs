//! Launchers: an argv that starts a process on another host and yields a byte pipe to its stdin and stdout.
//!
//! [`Launcher::shell_on`] returns program and arguments that start a POSIX shell on one host. ssh runs without
//! terminal, questions or forwarding ([`SSH_OPTIONS`]), and options of the user come first because ssh uses the first
//! of two values. srun starts one unpinned task, and other programs get `%h`, `%u` and `%n` filled in.
//! [`Launcher::check`] finds faults of a template before anything starts. Start reading at [`Launcher::shell_on`].

use super::list::HostName;
use crate::joined::Listen;

/// The way to reach hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// The system's ssh. These options of the user come before ours, so that the user's value wins.
    Ssh(Vec<String>),
    /// Another program: `%h` is replaced by the host, `%u` by the user, `%n` by its number from 0.
    Other(Vec<String>),
    /// Slurm's srun, on the nodes of this job.
    Slurm(String),
    /// No launcher: agents that were started elsewhere connect by themselves.
    Joined(Box<Listen>),
}

/// Options of srun: one task on one node with all resources that the job has there, beside the batch step. Without
/// `--unbuffered` a frame would wait for the end of a line. The allocation of memory is shared (`--mem=0`), and nothing
/// pins the threads.
const SRUN_OPTIONS: &[&str] = &[
    "--overlap",
    "--unbuffered",
    "--quiet",
    "--nodes=1",
    "--ntasks=1",
    "--mem=0",
    "--cpu-bind=none",
    "--mpi=none",
    "--chdir=/",
];

/// Options of ssh: no terminal, no forwarding, no question, and a dead path is noticed within 20 s. If an option has
/// two values, ssh uses the first one, and the command line comes before every file.
const SSH_OPTIONS: &[&str] = &[
    "-T",
    "-x",
    "-a",
    "-oClearAllForwardings=yes",
    "-oPermitLocalCommand=no",
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
    // A master of the user's would share its fate, and refuses the eleventh session.
    "-oControlPath=none",
    "-oLogLevel=ERROR",
    "-oCompression=no",
];

impl Launcher {
    /// Checks the launcher for these hosts; the fault is in words.
    pub fn check(&self, hosts: &[HostName]) -> Result<(), String> {
        let Self::Other(words) = self else { return Ok(()) };
        let has = |what: &str| words.iter().any(|word| word.contains(what));
        if words.is_empty() {
            return Err("it names no program".to_owned());
        }
        if hosts.len() > 1 && !has("%h") && !has("%n") {
            return Err("without %h or %n every host would be the same one".to_owned());
        }
        match hosts.iter().find(|host| host.user.is_none() && has("%u")) {
            Some(host) => Err(format!("%u is the user, and {host} names none")),
            None => Ok(()),
        }
    }

    /// Returns program and arguments that start a POSIX shell on `host`, the number of which is `rank`.
    pub(crate) fn shell_on(&self, host: &HostName, rank: usize) -> Vec<String> {
        match self {
            Self::Joined(_) => Vec::new(),
            Self::Ssh(own) => {
                let mut words = vec!["ssh".to_owned()];
                words.extend(own.iter().flat_map(|option| ["-o".to_owned(), option.clone()]));
                words.extend(SSH_OPTIONS.iter().map(ToString::to_string));
                words.extend(host.port.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]));
                words.extend(host.user.iter().flat_map(|user| ["-l".to_owned(), user.clone()]));
                // The login shell, whichever it is, gets one string.
                words.extend([host.host.clone(), "exec /bin/sh".to_owned()]);
                words
            }
            Self::Slurm(job) => {
                let mut words = vec!["srun".to_owned(), format!("--jobid={job}")];
                words.extend(SRUN_OPTIONS.iter().map(ToString::to_string));
                words.extend([format!("--nodelist={}", host.host), "/bin/sh".to_owned()]);
                words
            }
            Self::Other(words) => {
                let filled = words.iter().map(|word| filled(word, host, rank));
                filled.chain(["/bin/sh".to_owned()]).collect()
            }
        }
    }

    /// Reports whether what reaches a host is started without this variable of the environment. ssh hands a locale on,
    /// and a shell complains about one that it does not have there; options of the batch script would become those of
    /// srun.
    pub(crate) fn drops(&self, variable: &str) -> bool {
        let is_locale = variable.starts_with("LC_") || ["LANG", "LANGUAGE"].contains(&variable);
        let is_slurms = variable.starts_with("SLURM_") || variable.starts_with("SRUN_");
        let is_place = variable.starts_with("SLURM_CONF");
        is_locale || matches!(self, Self::Slurm(_)) && is_slurms && !is_place
    }
}

/// Returns a word of a template with its placeholders filled in.
fn filled(word: &str, host: &HostName, rank: usize) -> String {
    let mut text = String::new();
    let mut letters = word.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        match letters.next() {
            Some('h') => text += &host.host,
            Some('u') => text += host.user.as_deref().unwrap_or_default(),
            Some('n') => text += &rank.to_string(),
            Some('%') | None => text.push('%'),
            // No placeholder: as it was typed.
            Some(other) => text.extend(['%', other]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::list::parse;
    use super::*;

    #[test]
    fn ssh_gets_user_port_and_one_command() {
        let hosts = parse("me@a:2222,b").unwrap();
        let ssh = Launcher::Ssh(vec!["ProxyJump=gw".to_owned()]);
        let words = ssh.shell_on(&hosts[0], 0).join(" ");
        assert!(words.starts_with("ssh -o ProxyJump=gw -T "), "{words}");
        assert!(words.contains(" -oBatchMode=yes "), "{words}");
        assert!(words.ends_with(" -p 2222 -l me a exec /bin/sh"), "{words}");
        assert!(ssh.shell_on(&hosts[1], 1).join(" ").ends_with("=no b exec /bin/sh"));
    }

    #[test]
    fn srun_gets_one_task_on_one_node_of_the_job() {
        let slurm = Launcher::Slurm("17".to_owned());
        let words = slurm.shell_on(&parse("n[1-2]").unwrap()[1], 1).join(" ");
        assert!(words.starts_with("srun --jobid=17 --overlap --unbuffered "), "{words}");
        assert!(words.ends_with(" --nodelist=n2 /bin/sh"), "{words}");
        for (variable, is_dropped) in [
            ("SLURM_NTASKS_PER_NODE", true),
            ("SRUN_DEBUG", true),
            ("LC_ALL", true),
            ("SLURM_CONF", false),
            ("PATH", false),
        ] {
            assert_eq!(slurm.drops(variable), is_dropped, "{variable}");
        }
        assert!(!Launcher::Ssh(Vec::new()).drops("SLURM_NTASKS"));
    }

    #[test]
    fn templates_are_filled() {
        let words = ["ip", "netns", "exec", "%h-%n", "100%%", "%x", "%"].map(str::to_owned);
        let other = Launcher::Other(words.to_vec());
        let host = &parse("ns").unwrap()[0];
        let expected = ["ip", "netns", "exec", "ns-3", "100%", "%x", "%", "/bin/sh"];
        assert_eq!(other.shell_on(host, 3), expected);
    }

    #[test]
    fn templates_that_cannot_work_are_refused() {
        let check = |words: &[&str], hosts: &str| {
            let words = words.iter().map(ToString::to_string).collect();
            Launcher::Other(words).check(&parse(hosts).unwrap())
        };
        assert_eq!(check(&["env"], "a"), Ok(()));
        assert!(check(&["env"], "a,b").unwrap_err().contains("%h or %n"));
        assert!(check(&["%u", "%h"], "x@a,b").unwrap_err().contains("b names none"));
        assert!(check(&[], "a").unwrap_err().contains("no program"));
    }
}
