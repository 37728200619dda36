//! A machine of its own: a small Debian with systemd and control groups of version 2, which QEMU runs in this process's
//! memory without any device. It computes some ten times slower than this host.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program;

/// Installs it into `$1`, which is new: a kernel and an archive of its files.
const INSTALL: &str = r#"
set -e
root=$1/root
debootstrap --variant=minbase --include=systemd-sysv,haproxy,linux-image-cloud-amd64 bookworm $root > $1/log 2>&1
cp $root/boot/vmlinuz-* $1/kernel
rm -rf $root/boot/* $root/usr/lib/modules $root/usr/share/{doc,man,locale} $root/var/cache/apt $root/var/lib/apt/lists
ln -s usr/lib/systemd/systemd $root/init
# Emptying /tmp would remove what a test has put there.
for unit in haproxy.service systemd-tmpfiles-setup.service serial-getty@ttyS0.service getty@tty1.service \
  apt-daily.timer apt-daily-upgrade.timer; do
  ln -sf /dev/null $root/etc/systemd/system/$unit
done
printf '%s\n' '[Unit]' After=systemd-user-sessions.service '[Service]' Type=oneshot 'ExecStart=/bin/bash /task' \
  'ExecStopPost=/bin/systemctl poweroff -ff' StandardOutput=tty StandardError=tty TTYPath=/dev/ttyS0 \
  '[Install]' WantedBy=multi-user.target > $root/etc/systemd/system/task.service
systemctl --root=$root enable task.service > /dev/null 2>&1
(cd $root; find . -xdev | cpio --quiet -o -H newc) > $1/files
rm -rf $root
"#;
/// Runs the machine in `$1` with the further files below `$2`.
const RUN: &str = r#"
set -e
(cd $2; find . | cpio --quiet -o -H newc) > $2.files
cat $1/files $2.files > $2.all
exec timeout 1200 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 4G -nographic -nodefaults -no-reboot \
  -serial stdio -kernel $1/kernel -initrd $2.all \
  -append 'console=ttyS0 panic=-1 loglevel=0 tsc=unstable systemd.show_status=no' < /dev/null
"#;

/// Returns the output of a bash script that root runs on it, where `files` and folders are at the same paths as here.
/// `None`, and a line that says why, where this host is of another kind.
pub fn run(files: &[&Path], script: &str) -> Option<String> {
    if ARCH != "x86_64" {
        println!("SKIPPED: the machine is an x86_64");
        return None;
    }
    for name in ["debootstrap", "qemu-system-x86_64", "cpio"] {
        program::installed(name);
    }
    let machine = installed();
    let folder = tempfile::tempdir().expect("a folder");
    let task = folder.path().join("task");
    for file in files {
        let target = task.join(file.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(target.parent().expect("below the root")).expect("folders");
        output(Command::new("cp").arg("-r").arg(file).arg(target));
    }
    fs::write(task.join("task"), script).expect("a file");
    Some(output(bash(RUN).args([&machine, &task])))
}

/// Returns its folder, in the target folder.
fn installed() -> PathBuf {
    let plimsoll = program::plimsoll();
    let folder = plimsoll.ancestors().nth(2).expect("a target folder").join("e2e-machine");
    if !folder.exists() {
        let new = folder.with_extension("new");
        // Of a run that was ended.
        let _ = fs::remove_dir_all(&new);
        fs::create_dir_all(&new).expect("a folder");
        output(bash(INSTALL).arg(&new));
        fs::rename(&new, &folder).expect("it is new");
    }
    folder
}

fn bash(script: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "bash", "-c", script, "bash"]);
    command
}

fn output(command: &mut Command) -> String {
    let done = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let done = done.expect("an installed program can be run");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{command:?}: {}\n{text}", done.status);
    text
}
