//! .hgrm judged by a plotter of such files, .hlog by the HdrHistogram of Python.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;
use serde_json::Value;

use crate::alone;

/// The plotter asks setuptools for its own version, in a way that newer ones lack.
const PACKAGES: [&str; 3] = ["hdr-plot==0.6.2", "hdrhistogram==0.10.8", "setuptools<81"];
/// Adds up the corrected latencies of a log, ns, in buckets like ours, the least of which is a microsecond.
const READER: &str = "\
import json, sys
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
empty = lambda: HdrHistogram(1000, 3600 * 10**9, 3)
whole, reader = empty(), HistogramLogReader(sys.argv[1], empty())
while one := reader.get_next_interval_histogram():
    if one.get_tag() == 'corrected':
        whole.add(one)
at = whole.get_value_at_percentile
print(json.dumps({'count': whole.get_total_count(), 'p50': at(50), 'p99': at(99), 'max': whole.get_max_value()}))
";

/// Returns a folder with both, and the program above.
fn prepared() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("histograms");
    fs::create_dir_all(&folder).expect("the target folder is writable");
    if !folder.join("hdrh").exists() {
        let install = ["-m", "pip", "install", "--quiet", "--target", "."];
        run(python(&folder).args(install).args(PACKAGES));
    }
    fs::write(folder.join("reader.py"), READER).expect("it is writable");
    folder
}

fn python(folder: &Path) -> Command {
    let mut command = Command::new("python3");
    command.current_dir(folder).env("PYTHONPATH", folder).env("MPLBACKEND", "Agg");
    command.stdin(Stdio::null());
    command
}

/// Returns the output.
fn run(command: &mut Command) -> Vec<u8> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", output.status);
    output.stdout
}

#[test]
#[ignore = "installs hdr-plot and hdrhistogram"]
fn other_programs_plot_and_add_up_our_histograms() {
    let _alone = alone();
    let folder = prepared();
    let serve = Serve::plain();
    let ran = Plimsoll::load(serve.url(), &["--rate", "500", "-d", "5s", "--out", "run"]).run();
    let summary = ran.summary(0);
    let place = |name: &str| ran.folder().join(name).display().to_string();
    let (archive, hgrm, hlog, png) =
        (place("run"), place("a.hgrm"), place("a.hlog"), place("a.png"));
    let report = Plimsoll::new(["report", &archive, "--hgrm", &hgrm, "--hlog", &hlog]).run();
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    run(python(&folder).args(["bin/hdr-plot", "--output", &png, &hgrm]));
    let plotted = fs::read(&png).expect("it was plotted");
    assert!(plotted.starts_with(b"\x89PNG") && plotted.len() > 20_000, "{}", plotted.len());
    let read = run(python(&folder).args(["reader.py", &hlog]));
    let read: Value = serde_json::from_slice(&read).expect("JSON");
    assert_eq!(read["count"].as_u64(), Some(summary.count("ok")));
    for name in ["p50", "p99", "max"] {
        let theirs = read[name].as_f64().expect("a number") / 1e6;
        let ours = summary.number(&format!("latency_ms.corrected.{name}"));
        assert!((theirs / ours - 1.0).abs() < 1e-6, "{name}: {theirs} {ours}");
    }
}
