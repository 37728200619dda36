//! Archives: no content of their files panics, and an error is one line. The input is the files, each after its name on a
//! line that begins with `=`; what has no manifest gets one.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use plimsoll_report::archive::{read_hosts, summarise_hosts};
use plimsoll_report::{Archive, ReportError};

const FILES: [&str; 7] = [
    "manifest.json",
    "intervals.jsonl",
    "trials.jsonl",
    "events.jsonl",
    "hosts.jsonl",
    "rows.jsonl",
    "summary.json",
];
const MANIFEST: &[u8] = include_bytes!(
    "../../crates/plimsoll-report/src/archive/stored_run/manifest.json"
);

/// A folder that is filled anew for each input.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("plimsoll-fuzz-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        path
    })
}

fn write_files(dir: &Path, input: &[u8]) {
    for name in FILES {
        let _ = fs::remove_file(dir.join(name));
    }
    fs::write(dir.join(FILES[0]), MANIFEST).unwrap();
    for name in &FILES[1..4] {
        fs::write(dir.join(name), b"").unwrap();
    }
    let (mut name, mut content) = (None, Vec::new());
    for line in input.split_inclusive(|byte| *byte == b'\n').chain([&b"="[..]]) {
        let Some(next) = line.strip_prefix(b"=") else {
            content.extend_from_slice(line);
            continue;
        };
        if let Some(name) = name {
            fs::write(dir.join(name), &content).unwrap();
        }
        name = FILES.into_iter().find(|name| next.trim_ascii_end() == name.as_bytes());
        content.clear();
    }
}

/// Reads every file of the archive; the first error ends it.
fn read(dir: &Path) -> Result<(), ReportError> {
    summarise_hosts(dir)?;
    read_hosts(dir)?;
    let archive = Archive::open(dir)?;
    let lines = archive.intervals()?.try_fold(0, |count, line| line.map(|_| count + 1))?;
    assert!(lines == archive.interval_count()?);
    archive.rows()?.into_iter().flatten().try_for_each(|batch| batch.map(drop))
}

fuzz_target!(|input: &[u8]| {
    write_files(folder(), input);
    if let Err(error) = read(folder()) {
        let text = error.to_string();
        assert!(!text.contains('\n'), "{text}");
    }
});
