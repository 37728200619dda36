//! The nodes of an allocation of a real Slurm make one load, and the job ends as plimsoll does.

use e2e::plimsoll::Finished;
use e2e::slurm;
use e2e::ssh_hosts::URL;

fn submit(flags: &[&str], meanwhile: &str) -> Option<Finished> {
    let load = ["load", URL, "--rate", "300", "--json", "out.json", "--out", "run", "--no-ui"];
    let finished = slurm::submit(&[&load[..], flags].concat(), meanwhile)?;
    assert!(!finished.stderr.contains("LEFT"), "{}", finished.stderr);
    Some(finished)
}

#[test]
#[ignore = "starts a cluster of Slurm"]
fn the_sample_script_makes_one_load_from_all_nodes() {
    let flags = ["--duration", "2s", "--slo", "errors<100%"];
    let Some(finished) = submit(&flags, "") else { return };
    let code = finished.code.unwrap_or(-1);
    // A busy machine makes a load INVALID, which is no matter here.
    assert!([0, 98].contains(&code), "{}{}", finished.stdout, finished.stderr);
    let summary = finished.written(code);
    assert_eq!((summary.number("scheduled"), summary.number("ok")), (600.0, 600.0));
    let hosts = summary.at("load_hosts").as_object().expect("hosts").clone();
    assert_eq!(hosts.keys().collect::<Vec<_>>(), ["n1", "n2", "n3"]);
    for (name, host) in &hosts {
        assert_eq!(host["threads"], 2, "{name}: the CPUs of its node");
    }
    assert!(finished.stdout.contains("600 scheduled"), "{}", finished.stdout);
    assert!(finished.folder().join("run/summary.json").exists(), "{}", finished.stdout);
}

#[test]
#[ignore = "starts a cluster of Slurm"]
fn the_job_ends_with_the_exit_code_of_plimsoll() {
    let flags = ["--duration", "1s", "--slo", "p50<1us"];
    let Some(finished) = submit(&flags, "") else { return };
    let code = finished.code.unwrap_or(-1);
    assert!([98, 99].contains(&code), "{}{}", finished.stdout, finished.stderr);
    finished.written(code);
}

#[test]
#[ignore = "starts a cluster of Slurm"]
fn a_job_that_is_signalled_before_its_time_is_up_reports_what_there_is() {
    let flags = ["--duration", "10m"];
    // As --signal does it: to the script alone.
    let signal = "middle; scancel --batch --signal=TERM $(squeue -h -o %i)";
    let Some(finished) = submit(&flags, signal) else { return };
    assert_eq!(finished.code, Some(143), "{}{}", finished.stdout, finished.stderr);
    assert!(finished.written(143).at("partial") == true, "{}", finished.stdout);
}

#[test]
#[ignore = "starts a cluster of Slurm"]
fn a_job_that_is_cancelled_leaves_nothing_on_any_node() {
    let cancel = "middle; scancel $(squeue -h -o %i)";
    let Some(finished) = submit(&["--duration", "10m"], cancel) else { return };
    assert_ne!(finished.code, Some(0), "{}{}", finished.stdout, finished.stderr);
    let begun = std::fs::metadata(finished.folder().join("run/intervals.jsonl"));
    assert!(begun.is_ok_and(|file| file.len() > 0), "{}{}", finished.stdout, finished.stderr);
}
