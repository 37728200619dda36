//! A host made of files. The process may end at any of its steps.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use plimsoll_probe::limits::HostLimits;
use tempfile::TempDir;

use super::apply::{boot_id, machine};
use super::journal::{Item, Record};
use super::*;
use crate::doctor::{Hop, Needs, Part, Shape};

const SETTINGS: &[(&str, &str)] = &[
    (
        "proc/7/cgroup",
        "1:name=systemd:/system.slice/haproxy.service\n0::/system.slice/haproxy.service/inner\n",
    ),
    ("proc/8/cgroup", "0::/user.slice/user-0.slice/session-3.scope\n"),
    ("proc/sys/kernel/hostname", "proxy1\n"),
    ("proc/sys/kernel/random/boot_id", "boot-1\n"),
    ("proc/sys/fs/file-max", "100000\n"),
    ("proc/sys/fs/epoll/max_user_watches", "400000\n"),
    ("proc/sys/kernel/pid_max", "1000\n"),
    ("proc/sys/kernel/threads-max", "900000\n"),
    ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
    ("proc/sys/net/ipv4/ip_local_reserved_ports", "5000,5001,8080,9100,9100\n"),
    ("proc/sys/net/ipv4/tcp_tw_reuse", "2\n"),
    ("proc/sys/net/ipv4/tcp_slow_start_after_idle", "1\n"),
];

fn host() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in SETTINGS {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

/// Returns every file of the host, but the journals.
fn dump(root: &Path) -> BTreeMap<PathBuf, String> {
    fn add(dir: &Path, all: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                add(&entry.path(), all);
            } else {
                all.insert(entry.path(), fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    let mut all = BTreeMap::new();
    for part in ["proc", "etc"] {
        add(&root.join(part), &mut all);
    }
    // Of these files, white space means nothing to the kernel.
    all.values_mut().for_each(|text| *text = normalised(text));
    all
}

fn plan(root: &Path) -> Plan {
    plan_of(root, 7)
}

/// With the limits of processes that were started like `pid`.
fn plan_of(root: &Path, pid: u32) -> Plan {
    plan_within(root, pid, (32_768, 60_999))
}

/// With these source ports.
fn plan_within(root: &Path, pid: u32, port_range: (u16, u16)) -> Plan {
    let shape = Shape {
        connections: 500_000,
        parts: vec![Part { is_privileged: false, ..Part::clients(450) }],
        hops: vec![Hop {
            name: "clients".into(),
            sources: Some(20),
            destinations: 1,
            by_kernel: false,
        }],
        opening_max: 100,
        opened_per_s: 100,
        closes_by_reset: false,
        memory_is_watched: false,
    };
    let limits = HostLimits {
        descriptors_per_process: Some(1_000),
        file_max: Some(100_000),
        epoll_watches_max: Some(400_000),
        ports_per_source: Some(20_000),
        port_range: Some(port_range),
        tasks_max: Some(1_000),
        tasks_in_use: Some(998),
        ..HostLimits::default()
    };
    let started_by = StartedBy::of(&HostDisk, root, Some(pid));
    let roles = [Role::Client, Role::Proxy];
    let listening = [22, 8_080, 8_081, 9_100, 443, 8_080];
    Plan::of(&Needs::of(&shape, &limits), &roles, true, &listening, &started_by, &HostDisk, root)
}

/// Ends the process at a step: before it, within it, or after it.
struct Mortal {
    steps_left: usize,
    /// A step that ends the process is half done.
    torn: bool,
    is_dead: bool,
}

impl Mortal {
    /// Reports whether this step is to be done; the one that ends the process may be, by half.
    fn step(
        &mut self,
        whole: impl FnOnce() -> io::Result<()>,
        half: impl FnOnce(),
    ) -> io::Result<()> {
        if self.is_dead {
            return Err(io::Error::other("the process has ended"));
        }
        if self.steps_left == 0 {
            self.is_dead = true;
            if self.torn {
                half();
            }
            return Err(io::Error::other("the process ends here"));
        }
        self.steps_left -= 1;
        whole()
    }
}

impl Disk for Mortal {
    fn read(&self, path: &Path) -> io::Result<String> {
        if self.is_dead {
            Err(io::Error::other("the process has ended"))
        } else {
            HostDisk.read(path)
        }
    }

    fn write_setting(&mut self, path: &Path, value: &str) -> io::Result<()> {
        // The kernel takes a value as a whole: a half-done step is one whose end was not seen.
        let write = || HostDisk.write_setting(path, value);
        self.step(write, || HostDisk.write_setting(path, value).unwrap())
    }

    fn append(&mut self, path: &Path, line: &str) -> io::Result<()> {
        let half = &line[..line.len() / 2];
        self.step(|| HostDisk.append(path, line), || HostDisk.append(path, half).unwrap())
    }

    fn replace(&mut self, path: &Path, text: Option<&str>) -> io::Result<()> {
        let write = || HostDisk.replace(path, text);
        self.step(write, || HostDisk.replace(path, text).unwrap())
    }
}

#[test]
fn a_plan_raises_and_never_lowers() {
    let root = host();
    let plan = plan(root.path());
    let changed: Vec<(&str, &str)> =
        plan.changes.iter().map(|change| (change.name.as_str(), change.wanted.as_str())).collect();
    assert_eq!(
        changed,
        [
            ("fs.file-max", "530000"),
            ("fs.epoll.max_user_watches", "530000"),
            // Before the range takes them in; what was reserved stays.
            ("net.ipv4.ip_local_reserved_ports", "5000-5001,8080-8081,9100"),
            ("net.ipv4.ip_local_port_range", "1024 65535"),
            // kernel.threads-max is higher already.
            ("kernel.pid_max", "5817"),
            ("net.ipv4.tcp_tw_reuse", "1"),
            ("net.ipv4.tcp_slow_start_after_idle", "0"),
        ]
    );
    let range = plan.changes.iter().find(|change| change.name.ends_with("port_range")).unwrap();
    assert!(range.risk.contains("may find a connection there"), "{}", range.risk);
    insta::assert_snapshot!(plan.render());
}

#[test]
fn what_a_setting_does_not_give_is_for_a_person() {
    let root = host();
    fs::write(root.path().join("proc/sys/net/ipv4/tcp_tw_reuse"), "0\n").unwrap();
    // The range is as wide as it gets: reuse helps, and more addresses are needed besides.
    let plan = plan_within(root.path(), 7, (1_024, 65_535));
    assert!(plan.changes.iter().any(|change| change.name == "net.ipv4.tcp_tw_reuse"));
    let line = "source ports (clients): sysctl -w net.ipv4.tcp_tw_reuse=1; 26 source addresses \
                (--source), or more server ports";
    assert!(plan.by_hand.iter().any(|by_hand| by_hand == line), "{:?}", plan.by_hand);
}

#[test]
fn what_was_applied_is_reverted_byte_for_byte() {
    let root = host();
    let before = dump(root.path());
    let journals = root.path().join("journals");
    let plan = plan(root.path());
    let applied = apply(&mut HostDisk, root.path(), &plan, &journals, "a", true).unwrap();
    assert_eq!((applied.changed.len(), applied.failed.len()), (plan.changes.len(), 0));
    let kept = |at: usize| fs::read_to_string(&applied.kept_in[at]).unwrap();
    assert!(kept(0).contains("\nnet.ipv4.ip_local_port_range = 1024 65535\n"), "{}", kept(0));
    insta::assert_snapshot!(kept(1));
    let unit = root.path().join("etc/systemd/system/haproxy.service.d");
    assert_eq!(applied.kept_in[1], unit.join("60-plimsoll.conf"));
    assert_ne!(dump(root.path()), before);
    let journal = Journal::newest(&journals).unwrap();
    let reverted = revert(&mut HostDisk, root.path(), journal, false).unwrap();
    assert!(reverted.iter().all(|one| one.outcome == Reversal::Restored), "{reverted:?}");
    assert_eq!(dump(root.path()), before);
    assert!(!unit.exists());
    let again = Journal::newest(&journals);
    assert!(matches!(again, Err(TuneError::Nothing { .. })));
}

#[test]
fn limits_of_logins_are_kept_beside_those_of_others() {
    let root = host();
    let file = root.path().join("etc/security/limits.d/60-plimsoll.conf");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let earlier = "# Written by plimsoll tune apply --persist; plimsoll tune revert removes it.\n\
                   # a reason that ends with its line\n* hard nofile 5\n\n\
                   # a reason that stays\nweb soft nofile 6\n# of no line\n";
    fs::write(&file, earlier).unwrap();
    let before = dump(root.path());
    let journals = root.path().join("journals");
    let plan = Plan { changes: Vec::new(), ..plan_of(root.path(), 8) };
    assert!(plan.is_empty(false) && !plan.is_empty(true));
    let applied = apply(&mut HostDisk, root.path(), &plan, &journals, "a", true).unwrap();
    assert_eq!(applied.kept_in, std::slice::from_ref(&file));
    insta::assert_snapshot!(fs::read_to_string(&file).unwrap());
    let journal = Journal::newest(&journals).unwrap();
    revert(&mut HostDisk, root.path(), journal, false).unwrap();
    assert_eq!(dump(root.path()), before);
}

#[test]
fn a_process_that_ends_at_any_step_leaves_a_way_back() {
    let mut steps = 0;
    for torn in [false, true] {
        for steps_left in 0.. {
            let root = host();
            let before = dump(root.path());
            let journals = root.path().join("journals");
            let plan = plan(root.path());
            let mut mortal = Mortal { steps_left, torn, is_dead: false };
            let applied = apply(&mut mortal, root.path(), &plan, &journals, "a", true);
            let died = mortal.is_dead;
            assert_eq!(applied.is_err(), died);
            // Reverting may be ended, too, at the same step.
            if let Ok(journal) = Journal::newest(&journals) {
                let mut mortal = Mortal { steps_left: steps_left / 2, torn, is_dead: false };
                let _ = revert(&mut mortal, root.path(), journal, false);
            }
            match Journal::newest(&journals) {
                Ok(journal) => {
                    let reverted = revert(&mut HostDisk, root.path(), journal, false).unwrap();
                    assert!(reverted.iter().all(Reverted::is_settled), "{steps_left} {reverted:?}");
                }
                Err(TuneError::Nothing { .. }) => {}
                Err(error) => panic!("{steps_left}: {error}"),
            }
            assert_eq!(dump(root.path()), before, "{steps_left} {torn}");
            steps = steps_left;
            if !died {
                break;
            }
        }
    }
    // begin, three for each change but the reading back, three for the file
    assert!(steps > 20, "{steps}");
}

#[test]
fn what_somebody_else_changed_is_left_alone() {
    let root = host();
    let journals = root.path().join("journals");
    apply(&mut HostDisk, root.path(), &plan(root.path()), &journals, "a", false).unwrap();
    let theirs = root.path().join("proc/sys/fs/file-max");
    fs::write(&theirs, "777777\n").unwrap();
    let reverted = |force| {
        let journal = Journal::newest(&journals).unwrap();
        revert(&mut HostDisk, root.path(), journal, force).unwrap()
    };
    let left: Vec<Reverted> = reverted(false).into_iter().filter(|one| !one.is_settled()).collect();
    let expected = Reversal::ChangedByOthers { present: "777777".into(), old: "100000".into() };
    assert_eq!(left, [Reverted { path: theirs.clone(), outcome: expected }]);
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "777777\n");
    // The rest is settled; only this one is left for a revert by force.
    assert_eq!(reverted(true).len(), 1);
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "100000\n");
}

#[test]
fn a_journal_of_another_boot_or_host_restores_no_setting() {
    let root = host();
    let journals = root.path().join("journals");
    apply(&mut HostDisk, root.path(), &plan(root.path()), &journals, "a", true).unwrap();
    let kept = root.path().join("etc/sysctl.d/60-plimsoll.conf");
    assert!(kept.exists());
    let journal = || Journal::newest(&journals).unwrap();
    fs::write(root.path().join("proc/sys/kernel/hostname"), "other\n").unwrap();
    let refused = revert(&mut HostDisk, root.path(), journal(), false).unwrap_err();
    assert!(refused.to_string().contains("\"proxy1\", and this is \"other\""), "{refused}");
    assert!(kept.exists());
    fs::write(root.path().join("proc/sys/kernel/hostname"), "proxy1\n").unwrap();
    fs::write(root.path().join("proc/sys/kernel/random/boot_id"), "boot-2\n").unwrap();
    let now = fs::read_to_string(root.path().join("proc/sys/fs/file-max")).unwrap();
    let reverted = revert(&mut HostDisk, root.path(), journal(), false).unwrap();
    assert_eq!(reverted.iter().filter(|one| one.outcome == Reversal::Gone).count(), 7);
    assert!(!kept.exists());
    assert_eq!(fs::read_to_string(root.path().join("proc/sys/fs/file-max")).unwrap(), now);
}

#[test]
fn a_damaged_journal_is_refused() {
    let root = host();
    let journals = root.path().join("journals");
    apply(&mut HostDisk, root.path(), &plan(root.path()), &journals, "a", false).unwrap();
    let path = journals.join("a/journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    for broken in [
        text.replacen("100000", "900000", 1),
        text.lines().skip(1).collect::<Vec<_>>().join("\n"),
        "nonsense\nmore\n".to_owned(),
    ] {
        fs::write(&path, broken).unwrap();
        let refused = Journal::newest(&journals).unwrap_err();
        assert!(matches!(refused, TuneError::Damaged { .. }), "{refused}");
    }
}

#[test]
fn a_setting_that_cannot_be_written_is_named_and_the_rest_goes_on() {
    let root = host();
    let journals = root.path().join("journals");
    let plan = plan(root.path());
    fs::remove_file(root.path().join("proc/sys/net/ipv4/tcp_tw_reuse")).unwrap();
    let applied = apply(&mut HostDisk, root.path(), &plan, &journals, "a", false).unwrap();
    assert_eq!(applied.changed.len(), plan.changes.len() - 1);
    assert_eq!(applied.failed[0].0, "net.ipv4.tcp_tw_reuse");
    let journal = Journal::newest(&journals).unwrap();
    let reverted = revert(&mut HostDisk, root.path(), journal, false).unwrap();
    assert_eq!(reverted.len(), plan.changes.len() - 1);
}

#[test]
fn a_host_is_known_by_its_machine_id_under_any_name() {
    let root = host();
    let at = |path: &str| root.path().join(path);
    fs::create_dir_all(at("etc")).unwrap();
    fs::write(at("etc/machine-id"), "0123\n").unwrap();
    let before = dump(root.path());
    let journals = at("journals");
    apply(&mut HostDisk, root.path(), &plan(root.path()), &journals, "a", true).unwrap();
    fs::write(at("etc/machine-id"), "4567\n").unwrap();
    let journal = || Journal::newest(&journals).unwrap();
    let refused = revert(&mut HostDisk, root.path(), journal(), false).unwrap_err();
    assert!(matches!(refused, TuneError::OtherHost { .. }), "{refused}");
    // A copy of the machine.
    let reverted = revert(&mut HostDisk, root.path(), journal(), true).unwrap();
    assert!(reverted.iter().all(Reverted::is_settled), "{reverted:?}");
    fs::write(at("etc/machine-id"), "0123\n").unwrap();
    assert_eq!(dump(root.path()), before);

    apply(&mut HostDisk, root.path(), &plan(root.path()), &journals, "b", true).unwrap();
    fs::write(at("proc/sys/kernel/hostname"), "renamed\n").unwrap();
    let reverted = revert(&mut HostDisk, root.path(), journal(), false).unwrap();
    assert!(reverted.iter().all(Reverted::is_settled), "{reverted:?}");
    fs::write(at("proc/sys/kernel/hostname"), "proxy1\n").unwrap();
    assert_eq!(dump(root.path()), before);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_journal_that_others_can_write_is_not_read() {
    let root = host();
    let journals = root.path().join("journals");
    apply(&mut HostDisk, root.path(), &plan(root.path()), &journals, "a", false).unwrap();
    let (place, file) = (journals.join("a"), journals.join("a/journal.jsonl"));
    let modes = [&journals, &place, &file].map(|path| mode(path));
    assert_eq!(modes, [0o700, 0o700, 0o600]);
    for (path, open) in [(&journals, 0o777), (&journals, 0o1777), (&place, 0o770), (&file, 0o606)] {
        let private = mode(path);
        set_mode(path, open);
        let refused = Journal::newest(&journals).unwrap_err();
        assert!(matches!(refused, TuneError::Forgeable(_)), "{refused}");
        if path == &journals {
            assert!(matches!(lock(&journals), Err(TuneError::Forgeable(_))));
        }
        set_mode(path, private);
    }
    // A journal elsewhere, or one that never ends.
    let aside = root.path().join("aside");
    fs::rename(&file, &aside).unwrap();
    symlink(&aside, &file).unwrap();
    assert!(matches!(Journal::newest(&journals), Err(TuneError::Forgeable(_))));
    fs::remove_file(&file).unwrap();
    symlink("/dev/zero", &file).unwrap();
    assert!(matches!(Journal::newest(&journals), Err(TuneError::Forgeable(_))));
}

#[test]
fn a_planted_lock_truncates_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (journals, target) = (root.path().join("journals"), root.path().join("target"));
    fs::create_dir(&journals).unwrap();
    fs::write(&target, "untouched").unwrap();
    symlink(&target, journals.join("lock")).unwrap();
    assert!(lock(&journals).is_err());
    assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
}

#[test]
fn a_journal_restores_nothing_but_settings_and_the_files_of_apply() {
    let root = host();
    let at = |path: &str| root.path().join(path);
    fs::create_dir_all(at("etc/sysctl.d")).unwrap();
    fs::write(at("etc/passwd"), "new").unwrap();
    let file =
        |path: &str| Item::File { path: at(path), old: Some("old".into()), new: "new".into() };
    let sysctl = |path| Item::Sysctl { path, old: "old".into(), new: "new".into() };
    for (number, change) in [
        file("etc/passwd"),
        file("etc/sysctl.d/../passwd"),
        file("etc/sysctl.d/other.conf"),
        file("etc/systemd/system/a/../../../passwd.service.d/60-plimsoll.conf"),
        file("proc/sys/fs/file-max"),
        sysctl(at("etc/passwd")),
        sysctl(at("proc/sys/../../etc/passwd")),
        sysctl(PathBuf::from("/proc/sys/fs/file-max")),
        sysctl(PathBuf::from("etc/passwd")),
    ]
    .into_iter()
    .enumerate()
    {
        let journals = at(&format!("journals-{number}"));
        let (machine, boot_id) = (machine(&HostDisk, root.path()), boot_id(&HostDisk, root.path()));
        let head = Record::Begin { machine, boot_id, version: String::new() };
        let mut journal = Journal::begin(&mut HostDisk, &journals, "a", head).unwrap();
        let intend = Record::Intend { item: 0, change: change.clone() };
        journal.push(&mut HostDisk, intend).unwrap();
        let before = dump(root.path());
        for force in [false, true] {
            let journal = Journal::newest(&journals).unwrap();
            let refused = revert(&mut HostDisk, root.path(), journal, force).unwrap_err();
            assert!(matches!(refused, TuneError::NotOurs { .. }), "{change:?}: {refused}");
        }
        assert_eq!(dump(root.path()), before);
    }
}

#[test]
fn a_kept_file_keeps_its_mode() {
    let root = host();
    let file = root.path().join("etc/sysctl.d/60-plimsoll.conf");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "kernel.sysrq = 0\n").unwrap();
    set_mode(&file, 0o600);
    let before = dump(root.path());
    let journals = root.path().join("journals");
    apply(&mut HostDisk, root.path(), &plan(root.path()), &journals, "a", true).unwrap();
    assert_ne!(dump(root.path()), before);
    assert_eq!(mode(&file), 0o600);
    revert(&mut HostDisk, root.path(), Journal::newest(&journals).unwrap(), false).unwrap();
    assert_eq!((dump(root.path()), mode(&file)), (before, 0o600));
}

#[test]
fn a_line_that_was_torn_within_a_character_is_cut_off() {
    let root = host();
    let journals = root.path().join("journals");
    apply(&mut HostDisk, root.path(), &plan(root.path()), &journals, "a", false).unwrap();
    let path = journals.join("a/journal.jsonl");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], b"{\"n\":9,\"error\":\"\xc3"].concat()).unwrap();
    Journal::newest(&journals).unwrap();
    assert_eq!(fs::read(&path).unwrap(), whole);
    // Just before its end, too.
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let journal = Journal::newest(&journals).unwrap();
    assert!(whole.starts_with(&fs::read(&path).unwrap()));
    let reverted = revert(&mut HostDisk, root.path(), journal, false).unwrap();
    assert!(reverted.iter().all(Reverted::is_settled));
}

/// A way in which the kernel treats one setting.
#[derive(Clone, Copy)]
enum Oddity {
    /// It writes another value.
    Clamps(&'static str),
    /// It cannot be read.
    Hidden,
    /// It cannot be read once it was written.
    HiddenOnceWritten,
    /// It is written, and an error is reported.
    WrittenWithAnError,
}

/// A host with a setting that is odd.
struct Odd {
    path: PathBuf,
    oddity: Oddity,
    is_written: bool,
}

impl Odd {
    fn file_max(root: &Path, oddity: Oddity) -> Self {
        Self { path: root.join("proc/sys/fs/file-max"), oddity, is_written: false }
    }
}

impl Disk for Odd {
    fn read(&self, path: &Path) -> io::Result<String> {
        let is_hidden = match self.oddity {
            Oddity::Hidden => true,
            Oddity::HiddenOnceWritten => self.is_written,
            Oddity::Clamps(_) | Oddity::WrittenWithAnError => false,
        };
        if is_hidden && path == self.path {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        HostDisk.read(path)
    }

    fn write_setting(&mut self, path: &Path, value: &str) -> io::Result<()> {
        if path != self.path {
            return HostDisk.write_setting(path, value);
        }
        self.is_written = true;
        let value = if let Oddity::Clamps(value) = self.oddity { value } else { value };
        HostDisk.write_setting(path, value)?;
        match self.oddity {
            Oddity::WrittenWithAnError => Err(io::ErrorKind::InvalidInput.into()),
            _ => Ok(()),
        }
    }

    fn append(&mut self, path: &Path, line: &str) -> io::Result<()> {
        HostDisk.append(path, line)
    }

    fn replace(&mut self, path: &Path, text: Option<&str>) -> io::Result<()> {
        HostDisk.replace(path, text)
    }
}

#[test]
fn a_setting_that_is_not_as_planned_is_no_success_and_has_a_way_back() {
    for (oddity, value, why) in [
        (Oddity::Clamps("420000"), "420000\n", "the kernel made 420000 of 530000"),
        (Oddity::Hidden, "100000\n", "cannot be read: permission denied"),
        (
            Oddity::HiddenOnceWritten,
            "530000\n",
            "written, but it cannot be read back: permission denied",
        ),
        (Oddity::WrittenWithAnError, "530000\n", "; it is 530000 now"),
    ] {
        let root = host();
        let before = dump(root.path());
        let journals = root.path().join("journals");
        let plan = plan(root.path());
        let mut odd = Odd::file_max(root.path(), oddity);
        let path = odd.path.clone();
        let applied = apply(&mut odd, root.path(), &plan, &journals, "a", true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), value);
        let [(name, reason)] = &applied.failed[..] else { panic!("{applied:?}") };
        assert_eq!(name, "fs.file-max");
        assert!(reason.contains(why), "{reason}");
        assert!(!applied.changed.iter().any(|(changed, _)| changed == name));
        let kept = fs::read_to_string(root.path().join("etc/sysctl.d/60-plimsoll.conf")).unwrap();
        assert!(!kept.contains(name), "{kept}");
        if matches!(oddity, Oddity::HiddenOnceWritten) {
            // What cannot be read cannot be restored; the journal stays open for it.
            let journal = Journal::newest(&journals).unwrap();
            let reverted = revert(&mut odd, root.path(), journal, false).unwrap();
            let settled = reverted.iter().filter(|one| one.is_settled()).count();
            assert_eq!(settled, reverted.len() - 1);
        }
        let journal = Journal::newest(&journals).unwrap();
        let reverted = revert(&mut HostDisk, root.path(), journal, false).unwrap();
        assert!(reverted.iter().all(Reverted::is_settled), "{reverted:?}");
        assert_eq!(dump(root.path()), before);
    }
}

#[test]
fn a_limit_that_was_raised_since_the_plan_is_not_lowered() {
    let root = host();
    let journals = root.path().join("journals");
    let plan = plan(root.path());
    let theirs = root.path().join("proc/sys/fs/file-max");
    fs::write(&theirs, "999999\n").unwrap();
    let applied = apply(&mut HostDisk, root.path(), &plan, &journals, "a", false).unwrap();
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "999999\n");
    let [(name, why)] = &applied.failed[..] else { panic!("{applied:?}") };
    assert!(name == "fs.file-max" && why.contains("set it to 999999 since"), "{name} {why}");
    assert_eq!(applied.changed.len(), plan.changes.len() - 1);
    let reverted = revert(&mut HostDisk, root.path(), Journal::newest(&journals).unwrap(), false);
    assert!(reverted.unwrap().iter().all(|one| one.path != theirs));
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "999999\n");
}

#[test]
fn a_limit_is_kept_for_the_unit_of_the_system_or_for_logins() {
    let root = host();
    let unit = |groups: &str| {
        fs::write(root.path().join("proc/7/cgroup"), groups).unwrap();
        match StartedBy::of(&HostDisk, root.path(), Some(7)) {
            StartedBy::Unit(unit) => unit,
            StartedBy::Login => "login".to_owned(),
        }
    };
    for (groups, expected) in [
        ("0::/system.slice/haproxy.service\n", "haproxy"),
        ("0::/system.slice/system-getty.slice/getty@tty1.service\n", "getty@tty1"),
        ("0::/own.slice/haproxy.service/inner/sshd.service\n", "haproxy"),
        ("0::/\n1:name=systemd:/system.slice/nginx.service\n", "nginx"),
        ("0::/user.slice/user-7.slice/user@7.service/app.slice/sshd.service\n", "login"),
        ("0::/user.slice/user-7.slice/session-1.scope/sshd.service\n", "login"),
        ("4:memory:/system.slice/sshd.service\n0::/\n", "login"),
        ("4:memory:/x:name=systemd:/system.slice/sshd.service\n", "login"),
        ("0::/docker/0123/system.slice/sshd.service\n", "login"),
        ("0::/../system.slice/sshd.service\n", "login"),
        ("0::/system.slice/a b.service\n", "login"),
        ("", "login"),
    ] {
        assert_eq!(unit(groups), expected, "{groups}");
    }
}

#[test]
fn only_one_at_a_time() {
    let root = tempfile::tempdir().unwrap();
    let held = lock(root.path()).unwrap();
    assert!(matches!(lock(root.path()), Err(TuneError::Busy { .. })));
    drop(held);
    assert!(lock(root.path()).is_ok());
}
