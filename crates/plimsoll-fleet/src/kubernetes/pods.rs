//! The state of the pods of a run, read from the API server's lists of pods and events.
//!
//! [`Pods::read`] reduces both lists to a few facts: the coordinator's pod, the number of running agents and the
//! reasons for waiting. The first fault that waiting does not cure ([`HOPELESS`], or a refused creation) is stored
//! apart. Missing JSON fields count as absent. Texts are shortened to 600 characters on one line, without control
//! characters. Start reading at [`Pods::add`].

use serde_json::Value;

use super::manifests::ROLE_LABEL;

/// The state of the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pods {
    /// The coordinator's, where it is there.
    pub(super) coordinator: Option<Coordinator>,
    /// Agents that run.
    pub(super) agents_running: usize,
    /// Why some do not run, each once, with how many.
    pub(super) waiting: Vec<String>,
    /// A fault that waiting does not cure.
    pub(super) hopeless: Option<String>,
}

/// The coordinator's pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Coordinator {
    pub(super) name: String,
    pub(super) is_running: bool,
    /// Exit code of its container.
    pub(super) exit_code: Option<i32>,
    /// Why its pod ended without that: evicted, or out of time.
    pub(super) failed: Option<String>,
}

/// Reasons of a waiting container that no waiting mends.
const HOPELESS: &[&str] = &[
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

impl Pods {
    /// Reads a list of pods and a list of events.
    pub(super) fn read(pods: &Value, events: &Value) -> Self {
        let mut known = Self::default();
        for pod in pods["items"].as_array().into_iter().flatten() {
            let is_agent = pod["metadata"]["labels"][ROLE_LABEL] == "agents";
            known.add(pod, is_agent);
        }
        for event in events["items"].as_array().into_iter().flatten() {
            if event["reason"] == "FailedCreate"
                && known.hopeless.is_none()
                && (known.coordinator.is_none() || known.agents_running == 0)
            {
                let message = text(&event["message"]);
                known.hopeless = Some(format!("the pods are refused: {message}"));
            }
        }
        known
    }

    fn add(&mut self, pod: &Value, is_agent: bool) {
        let status = &pod["status"];
        let state = &status["containerStatuses"][0]["state"];
        let is_running = state["running"].is_object();
        let waits = &state["waiting"];
        let reason = text(&waits["reason"]);
        if HOPELESS.contains(&reason.as_str()) {
            let image = text(&pod["spec"]["containers"][0]["image"]);
            let message = text(&waits["message"]);
            let why = format!("a pod cannot start with the image {image} ({reason}): {message}");
            self.hopeless.get_or_insert(why);
        }
        let conditions = status["conditions"].as_array().into_iter().flatten();
        for condition in conditions {
            if condition["type"] == "PodScheduled" && condition["status"] == "False" {
                let message = text(&condition["message"]);
                let line = format!("no node has room for a pod: {message}");
                if !self.waiting.contains(&line) {
                    self.waiting.push(line);
                }
            }
        }
        if is_agent {
            self.agents_running += usize::from(is_running);
            return;
        }
        let exit_code = state["terminated"]["exitCode"].as_i64();
        let is_failed = status["phase"] == "Failed" && exit_code.is_none();
        self.coordinator = Some(Coordinator {
            name: text(&pod["metadata"]["name"]),
            is_running,
            exit_code: exit_code.and_then(|code| i32::try_from(code).ok()),
            failed: is_failed
                .then(|| format!("{} {}", text(&status["reason"]), text(&status["message"]))),
        });
    }
}

/// Returns a text of the API server in one line, without control characters.
fn text(value: &Value) -> String {
    let words: Vec<&str> = value.as_str().unwrap_or_default().split_whitespace().collect();
    words.join(" ").chars().filter(|letter| !letter.is_control()).take(600).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(role: &str, status: Value) -> Value {
        json!({
            "metadata": { "name": role, "labels": { ROLE_LABEL: role } },
            "spec": { "containers": [{ "image": "registry.example/plimsoll:1" }] },
            "status": status,
        })
    }

    fn read(pods: &[Value], events: &[Value]) -> Pods {
        Pods::read(&json!({ "items": pods }), &json!({ "items": events }))
    }

    #[test]
    fn troubles_are_told_apart() {
        let running =
            json!({ "phase": "Running", "containerStatuses": [{ "state": { "running": {} } }] });
        let pulls = json!({ "containerStatuses": [{ "state": { "waiting": {
            "reason": "ImagePullBackOff", "message": "Back-off pulling\nimage" } } }] });
        let full = json!({ "conditions": [{ "type": "PodScheduled", "status": "False",
            "message": "0/3 nodes are available: 3 Insufficient cpu." }] });
        let known = read(&[pod("coordinator", running.clone()), pod("agents", running)], &[]);
        assert_eq!((known.agents_running, known.hopeless, known.waiting.len()), (1, None, 0));
        assert!(known.coordinator.is_some_and(|pod| pod.is_running && pod.exit_code.is_none()));
        let known = read(&[pod("agents", pulls)], &[]);
        let why = known.hopeless.expect("an image that cannot be pulled");
        assert!(
            why.contains("registry.example/plimsoll:1 (ImagePullBackOff): Back-off pulling image"),
            "{why}"
        );
        let known = read(&[pod("agents", full.clone()), pod("agents", full)], &[]);
        assert_eq!(
            known.waiting,
            ["no node has room for a pod: 0/3 nodes are available: 3 Insufficient cpu."]
        );
        let refused = json!({ "reason": "FailedCreate", "message": "exceeded quota: q" });
        let known = read(&[], &[refused]);
        assert_eq!(known.hopeless.as_deref(), Some("the pods are refused: exceeded quota: q"));
        let ended = json!({ "phase": "Failed", "containerStatuses": [{ "state": { "terminated": { "exitCode": 98 } } }] });
        let evicted = json!({ "phase": "Failed", "reason": "Evicted", "message": "disk" });
        let code = |status| read(&[pod("coordinator", status)], &[]).coordinator.expect("there");
        assert_eq!(
            (code(ended).exit_code, code(evicted).failed),
            (Some(98), Some("Evicted disk".to_owned()))
        );
    }
}
