//! Limits and use of disks by the control group of a process, in
//! both versions of their file system.

use std::path::{Path, PathBuf};

use plimsoll_model::host::{Label, Metric, Reading};

use crate::file;
use crate::limits::{group_of, groups_of};

/// One way to use a disk, and the names of its files and fields.
struct Way {
    direction: &'static str,
    /// The counter, and its limit per second.
    metrics: [Metric; 2],
    /// Version 2, in `io.max` and `io.stat`.
    fields: [&'static str; 2],
    /// Version 1: the file of the limit, the file that counts, and the word before the count.
    files: [&'static str; 3],
}

const OPERATIONS: [Metric; 2] =
    [Metric::CgroupDiskOperations, Metric::CgroupDiskOperationsPerSecondMax];
const BYTES: [Metric; 2] = [Metric::CgroupDiskBytes, Metric::CgroupDiskBytesPerSecondMax];
const SERVICED: &str = "blkio.throttle.io_serviced";
const SERVICE_BYTES: &str = "blkio.throttle.io_service_bytes";

const WAYS: [Way; 4] = [
    Way {
        direction: "write",
        metrics: OPERATIONS,
        fields: ["wiops", "wios"],
        files: ["blkio.throttle.write_iops_device", SERVICED, "Write"],
    },
    Way {
        direction: "read",
        metrics: OPERATIONS,
        fields: ["riops", "rios"],
        files: ["blkio.throttle.read_iops_device", SERVICED, "Read"],
    },
    Way {
        direction: "write",
        metrics: BYTES,
        fields: ["wbps", "wbytes"],
        files: ["blkio.throttle.write_bps_device", SERVICE_BYTES, "Write"],
    },
    Way {
        direction: "read",
        metrics: BYTES,
        fields: ["rbps", "rbytes"],
        files: ["blkio.throttle.read_bps_device", SERVICE_BYTES, "Read"],
    },
];

/// A limit of one disk, as `major:minor`, and what was done since the group was made.
struct Limited {
    disk: String,
    per_second: f64,
    done: f64,
}

/// Adds what is limited of the group of `process` (an entry of `/proc`), shown as `name`.
pub(super) fn add(root: &Path, process: &str, name: &str, reading: &mut Reading) {
    let version_1 = group_of(root, process, "blkio");
    let is_first = version_1.as_ref().is_some_and(|group| group.join(SERVICED).exists());
    // A limit of version 1 holds for its own group alone.
    let groups = match version_1.filter(|_| is_first) {
        Some(group) => vec![group],
        None => groups_of(root, process, "io"),
    };
    for way in &WAYS {
        let mut all: Vec<Limited> = groups
            .iter()
            .flat_map(|group| if is_first { of_version_1(group, way) } else { limited(group, way) })
            .collect();
        // Of several groups that one is in, the least limit of a disk is met first.
        all.sort_by(|a, b| a.disk.cmp(&b.disk).then(a.per_second.total_cmp(&b.per_second)));
        all.dedup_by(|later, first| later.disk == first.disk);
        for Limited { disk, per_second, done } in all {
            let disk = disk_name(root, &disk);
            let labels = [
                (Label::Cgroup, name),
                (Label::Device, disk.as_str()),
                (Label::Direction, way.direction),
            ];
            let [counted, limit] = way.metrics;
            reading.add(counted, &labels, done);
            reading.add(limit, &labels, per_second);
        }
    }
}

/// `254:0 wiops=250 rbps=max`, and `254:0 rbytes=1 wios=2`.
fn limited(group: &Path, way: &Way) -> Vec<Limited> {
    let [limit, count] = way.fields;
    let limits = text(group, "io.max");
    if limits.is_empty() {
        return Vec::new();
    }
    let field = |line: &str, name: &str| {
        let values = line.split_ascii_whitespace().filter_map(|word| word.split_once('='));
        values.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse::<f64>().ok())
    };
    let stat = text(group, "io.stat");
    let of = |disk: &str| {
        let line = stat.lines().find(|line| line.split_once(' ').is_some_and(|l| l.0 == disk));
        // A disk that was not used is not listed.
        line.map_or(Some(0.0), |line| field(line, count))
    };
    let found = |line: &str| {
        let disk = line.split_once(' ')?.0;
        let per_second = field(line, limit)?;
        Some(Limited { disk: disk.to_owned(), per_second, done: of(disk)? })
    };
    limits.lines().filter_map(found).collect()
}

/// `254:0 250`, and `254:0 Write 2002`.
fn of_version_1(group: &Path, way: &Way) -> Vec<Limited> {
    let [limit, counter, kind] = way.files;
    let limits = text(group, limit);
    if limits.is_empty() {
        return Vec::new();
    }
    let counted = text(group, counter);
    let of = |disk: &str| {
        counted.lines().find_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let is_it = words.len() == 3 && words[0] == disk && words[1] == kind;
            is_it.then(|| words[2].parse::<f64>().ok())?
        })
    };
    let found = |line: &str| {
        let (disk, per_second) = line.split_once(' ')?;
        let per_second = per_second.trim().parse().ok()?;
        Some(Limited { disk: disk.to_owned(), per_second, done: of(disk).unwrap_or(0.0) })
    };
    limits.lines().filter_map(found).collect()
}

fn text(group: &Path, file: &str) -> String {
    file::text(group.join(file)).unwrap_or_default()
}

/// `vda` for `254:0`.
fn disk_name(root: &Path, disk: &str) -> String {
    let folder: PathBuf = root.join("sys/dev/block").join(disk);
    let uevent = file::text(folder.join("uevent")).unwrap_or_default();
    let name = uevent.lines().find_map(|line| line.strip_prefix("DEVNAME="));
    name.unwrap_or(disk).to_owned()
}
