//! Namespaces of a test's own, of the network and of mounts: they are gone with the last process in them, however
//! that ends, and nothing in them reaches anyone else.

use std::fs;
use std::process::{Command, Stdio};

use crate::plimsoll::{Finished, Plimsoll};
use crate::program;

/// The bit of CAP_SYS_ADMIN.
const SYS_ADMIN: u64 = 1 << 21;

/// Reports whether a laboratory can have network namespaces; prints that a test is skipped if not.
pub fn is_privileged() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("capabilities");
    let may = u64::from_str_radix(line.trim(), 16).expect("a hexadecimal number") & SYS_ADMIN != 0;
    if !may {
        eprintln!("SKIPPED: network namespaces need CAP_SYS_ADMIN (run as root)");
    }
    may
}

/// URL of the server of [`with_a_server`].
pub const URL: &str = "http://127.0.0.1:8080/";

/// Runs plimsoll beside a `plimsoll serve` at [`URL`] in a network namespace that `script`, a bash command,
/// has prepared. `None` if this host does not allow namespaces.
pub fn with_a_server(script: &str, arguments: &[&str]) -> Option<Finished> {
    let before = format!(
        "ip link set lo up && {script} \
         && {{ \"$0\" serve --http 127.0.0.1:8080 --no-ui > /dev/null 2>&1 & S=$!; }} \
         && until (exec 3<> /dev/tcp/127.0.0.1/8080) 2> /dev/null; do sleep 0.05; done; \
         \"$0\" \"$@\"; C=$?; kill -INT $S; wait $S; exit $C"
    );
    Some(Plimsoll::unshared(&flag('n')?, &before, arguments).run())
}

/// Runs plimsoll where the folder `disk` has room for `kilobytes`, and then draws the archive `disk/run` of it
/// into the file `drawn`, with the exit code in its last line. `None` if this host does not allow namespaces.
pub fn with_a_small_disk(kilobytes: u32, arguments: &[&str]) -> Option<Finished> {
    let script = format!(
        "mkdir disk && mount -t tmpfs -o size={kilobytes}k none disk && \"$0\" \"$@\"; C=$?; \
         \"$0\" report disk/run > drawn 2>&1; echo $? >> drawn; exit $C"
    );
    Some(Plimsoll::unshared(&flag('m')?, &script, arguments).run())
}

/// Reports whether bash can run `script` in such a namespace: the kernel may lack what it needs.
pub fn can(script: &str) -> bool {
    let Some(flag) = flag('n') else { return false };
    let mut command = Command::new(program::installed("unshare"));
    command.arg(flag).arg(program::installed("bash")).args(["-c", script]);
    succeeds(&mut command)
}

/// Root may make a namespace; others need a user namespace, which not every host allows.
fn flag(kind: char) -> Option<String> {
    [format!("-{kind}"), format!("-r{kind}")].into_iter().find(|flag| {
        let mut command = Command::new(program::installed("unshare"));
        succeeds(command.args([flag, "true"]))
    })
}

fn succeeds(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
