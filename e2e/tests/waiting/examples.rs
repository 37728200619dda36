//! Examples, the project's workflows and its action: YAML, scripts of a shell, and names that fit each other.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Map, Value};

/// Debian's reader of YAML. A key such as `on` is its `true`.
const READER: &str =
    "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if matches!(path.extension().and_then(OsStr::to_str), Some("yml" | "yaml")) {
            found.push(path);
        }
    }
}

/// Returns the documents of a file.
fn read(path: &Path) -> Vec<Value> {
    let file = fs::File::open(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let mut python = Command::new("/usr/bin/python3");
    let output = python.args(["-c", READER]).stdin(file).output();
    let output = output.expect("python3 runs; if not: apt-get install python3-yaml");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {complaint}", path.display());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Fails if bash does not accept a script; `${{ … }}` of GitHub is a word to it.
fn assert_is_script(text: &str, place: &str) {
    let mut plain = String::new();
    for (index, part) in text.split("${{").enumerate() {
        let rest =
            if index == 0 { part } else { part.split_once("}}").map_or("", |(_, rest)| rest) };
        plain.push_str(if index == 0 { "" } else { "word" });
        plain.push_str(rest);
    }
    let output = Command::new("bash").args(["-n", "-c", &plain]).stdin(Stdio::null()).output();
    let output = output.expect("bash runs");
    assert!(output.status.success(), "{place}: {}", String::from_utf8_lossy(&output.stderr));
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Steps of a job or an action: each uses an action or runs a script. `needs_shell` as in an action.
fn check_steps(steps: &Value, needs_shell: bool, place: &str) {
    let steps = steps.as_array().unwrap_or_else(|| panic!("{place}: no steps"));
    for step in steps {
        assert!(step["uses"].is_string() != step["run"].is_string(), "{place}: {step}");
        if let Some(script) = step["run"].as_str() {
            assert!(!needs_shell || step["shell"] == "bash", "{place}: no shell in {step}");
            assert_is_script(script, place);
        }
    }
}

#[test]
fn every_example_and_workflow_is_yaml_with_scripts_that_a_shell_accepts() {
    let inputs = object(&read(&root().join("action.yml"))[0]["inputs"]);
    let mut found = Vec::new();
    files(&root().join("examples"), &mut found);
    files(&root().join(".github"), &mut found);
    let (mut jobs_seen, mut calls_seen) = (0, 0);
    for path in &found {
        let place = path.display().to_string();
        for document in read(path) {
            assert!(document.is_object(), "{place}: {document}");
            for (name, job) in object(&document["jobs"]) {
                jobs_seen += 1;
                assert!(job["runs-on"].is_string(), "{place}: {name} has no runs-on");
                check_steps(&job["steps"], false, &place);
                for step in job["steps"].as_array().into_iter().flatten() {
                    let is_ours =
                        step["uses"].as_str().is_some_and(|uses| uses.contains("plimsoll"));
                    for key in object(&step["with"]).keys().filter(|_| is_ours) {
                        calls_seen += 1;
                        assert!(inputs.contains_key(key), "{place}: action.yml has no input {key}");
                    }
                }
            }
            for line in document["load-line"]["script"].as_array().into_iter().flatten() {
                assert_is_script(line.as_str().expect("a line"), &place);
            }
        }
    }
    assert!(jobs_seen >= 3 && calls_seen >= 3, "{jobs_seen} jobs, {calls_seen} inputs");
}

#[test]
fn the_action_uses_the_inputs_that_it_declares_and_no_others() {
    let path = root().join("action.yml");
    let action = &read(&path)[0];
    assert_eq!(action["runs"]["using"], "composite");
    check_steps(&action["runs"]["steps"], true, "action.yml");
    let text = fs::read_to_string(&path).expect("action.yml");
    let used: Vec<&str> = text
        .split("inputs.")
        .skip(1)
        .filter_map(|rest| rest.split(|at: char| !at.is_ascii_alphanumeric() && at != '-').next())
        .collect();
    let inputs = object(&action["inputs"]);
    for name in &used {
        assert!(inputs.contains_key(*name), "no input {name}");
    }
    for name in inputs.keys() {
        assert!(used.contains(&name.as_str()), "{name} is used nowhere");
    }
}

#[test]
fn the_script_for_slurm_is_one_that_bash_accepts() {
    let path = "packaging/slurm/plimsoll.sbatch";
    assert_is_script(&fs::read_to_string(root().join(path)).expect(path), path);
}
