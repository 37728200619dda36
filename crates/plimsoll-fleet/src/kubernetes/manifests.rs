//! The objects of a run in Kubernetes: a Job for each agent, a Job of the coordinator that they connect to, its name in
//! DNS, Secrets, and who may reach whom. No role, no resource type of our own.
//!
//! A Job has its own Secret, so that no pod gets the key of another. The command and its files are in the
//! coordinator's: what is in the arguments of a container, everybody reads who may look at pods.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plimsoll_tls::RunKeys;
use serde_json::{Value, json};

use super::order::Order;
use crate::joined::{coordinator_files, files_of_agent};

/// Port to which agents connect.
const PORT: u16 = 7461;
/// The user of the image.
const USER: u32 = 65_532;
/// Time after which the cluster removes the objects of a run whose command has ended.
const LEFT_FOR_S: u32 = 600;
/// The label that all objects of a run have, with its name.
pub(crate) const RUN_LABEL: &str = "plimsoll.run";
/// The label that distinguishes coordinator and agents.
pub(crate) const ROLE_LABEL: &str = "plimsoll.role";
/// The folder of the coordinator's results.
pub(crate) const RESULTS_DIR: &str = "/results";
/// The container of each pod.
pub(crate) const CONTAINER: &str = "plimsoll";
/// Directory of the Secret in a pod.
pub(crate) const KEYS_DIR: &str = "/keys";
/// Most agents: each is two objects, which kubectl makes one after the other.
pub const AGENTS_MAX: u32 = 500;

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesRun {
    /// The name of its objects.
    pub name: String,
    /// The image of plimsoll.
    pub image: String,
    /// Number of agents, each in its own pod; at most [`AGENTS_MAX`].
    pub agents: u32,
    /// Whole CPUs of each.
    pub cpus: u32,
    /// Memory of each, as Kubernetes writes it.
    pub memory: String,
    /// The longest that it may take, with everything.
    pub active_for_s: u32,
    /// Command to run.
    pub command: Order,
}

/// The objects of a run, in the order in which they are made.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifests {
    /// The Job that owns all others: with it they are removed.
    pub owner: Value,
    /// All others.
    pub owned: Vec<Value>,
}

impl KubernetesRun {
    /// Returns the objects of the run. Without keys the Secrets are empty: they are not shown.
    pub fn manifests(&self, keys: Option<&RunKeys>) -> Manifests {
        let mut owned = vec![self.coordinator_secret(keys), self.service(), self.network_policy()];
        for index in 0..self.agents {
            owned.extend([self.agent_secret(index, keys), self.agent_job(index)]);
        }
        Manifests { owner: self.coordinator_job(), owned }
    }

    /// Returns the words of the coordinator: the command, and the flags that make agents of pods.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = self.command.words.clone();
        let listen = format!("0.0.0.0:{PORT}");
        for (flag, value) in [
            ("--agents", self.agents.to_string()),
            ("--listen", listen),
            ("--keys", KEYS_DIR.to_owned()),
            ("--out", format!("{RESULTS_DIR}/run")),
        ] {
            words.extend([flag.to_owned(), value]);
        }
        let is_threads = |word: &String| word == "--threads" || word.starts_with("--threads=");
        if !self.command.words.iter().any(is_threads) {
            // A pod sees all CPUs of its node, whatever it may use of them.
            words.extend(["--threads".to_owned(), self.cpus.to_string()]);
        }
        words
    }

    fn metadata(&self, name: &str) -> Value {
        json!({ "name": name, "labels": { RUN_LABEL: self.name } })
    }

    fn agent_name(&self, index: u32) -> String {
        format!("{}-agent-{index}", self.name)
    }

    /// Returns the name of the coordinator's Secret. The Job of the coordinator has the name of the run.
    fn coordinator_name(&self) -> String {
        format!("{}-coordinator", self.name)
    }

    fn coordinator_secret(&self, keys: Option<&RunKeys>) -> Value {
        let files = keys.map(coordinator_files).unwrap_or_default();
        let order = keys.map(|_| self.command.entries(&self.words())).unwrap_or_default();
        self.secret(&self.coordinator_name(), files, order)
    }

    fn agent_secret(&self, index: u32, keys: Option<&RunKeys>) -> Value {
        let files = keys.map(|keys| files_of_agent(keys, index)).unwrap_or_default();
        self.secret(&self.agent_name(index), files, Vec::new())
    }

    /// Returns a Secret of files with keys, and of the entries of an order.
    fn secret(
        &self,
        name: &str,
        files: Vec<(String, &str)>,
        order: Vec<(String, Vec<u8>)>,
    ) -> Value {
        let files = files.into_iter().map(|(name, text)| (name, STANDARD.encode(text)));
        let order = order.into_iter().map(|(name, content)| (name, STANDARD.encode(content)));
        let data: BTreeMap<String, String> = files.chain(order).collect();
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": self.metadata(name),
            "type": "Opaque",
            "immutable": true,
            "data": data,
        })
    }

    /// Returns a headless service, which gives the coordinator a name: no proxy is between it and the agents.
    fn service(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(&self.name),
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": true,
                "selector": { RUN_LABEL: self.name, ROLE_LABEL: "coordinator" },
                "ports": [{ "name": "agents", "port": PORT, "protocol": "TCP" }],
            },
        })
    }

    /// Returns a network policy: only pods of the run reach the coordinator's port, and no pod reaches the agents.
    fn network_policy(&self) -> Value {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": self.metadata(&self.name),
            "spec": {
                "podSelector": { "matchLabels": { RUN_LABEL: self.name } },
                "policyTypes": ["Ingress"],
                "ingress": [{
                    "from": [{ "podSelector": { "matchLabels": { RUN_LABEL: self.name } } }],
                    "ports": [{ "protocol": "TCP", "port": PORT }],
                }],
            },
        })
    }

    fn coordinator_job(&self) -> Value {
        let args = ["pod", "coordinate", "--results", RESULTS_DIR, "--order", KEYS_DIR];
        let resources = json!({ "cpu": "1", "memory": "1Gi" });
        let secret = self.coordinator_name();
        let mut pod = self.pod("coordinator", &secret, &args.map(str::to_owned), &resources);
        pod["spec"]["volumes"].as_array_mut().into_iter().for_each(|volumes| {
            volumes.push(json!({ "name": "results", "emptyDir": { "sizeLimit": "2Gi" } }));
        });
        let mounts = &mut pod["spec"]["containers"][0]["volumeMounts"];
        mounts.as_array_mut().into_iter().for_each(|mounts| {
            mounts.push(json!({ "name": "results", "mountPath": RESULTS_DIR }));
        });
        // A run that is repeated is another run.
        self.job(&self.name, 0, &pod)
    }

    fn agent_job(&self, index: u32) -> Value {
        let (to, own) = (format!("{}:{PORT}", self.name), index.to_string());
        let args = ["agent", "--join", &to, "--keys", KEYS_DIR, "--index", &own];
        let resources = json!({ "cpu": self.cpus.to_string(), "memory": self.memory });
        let name = self.agent_name(index);
        let mut pod = self.pod("agents", &name, &args.map(str::to_owned), &resources);
        let labels = json!({ RUN_LABEL: self.name, ROLE_LABEL: "agents" });
        // A share of one node is no share of another one's CPUs and ports.
        pod["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": labels },
        }]);
        // Ports for 64,512 connections to each address; every version of Kubernetes from 1.25 on allows this one.
        pod["spec"]["securityContext"]["sysctls"] =
            json!([{ "name": "net.ipv4.ip_local_port_range", "value": "1024 65535" }]);
        // One that is lost comes again before the next trial of a search.
        self.job(&name, 3, &pod)
    }

    /// Returns a job that restarts its pod up to `again` times.
    fn job(&self, name: &str, again: u32, pod: &Value) -> Value {
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": self.metadata(name),
            "spec": {
                "backoffLimit": again,
                "activeDeadlineSeconds": self.active_for_s,
                "ttlSecondsAfterFinished": LEFT_FOR_S,
                "template": pod,
            },
        })
    }

    /// Returns a pod as the restricted profile of Pod Security wants it. Requests and limits are equal, so that no
    /// neighbour takes what was promised.
    fn pod(&self, role: &str, secret: &str, args: &[String], resources: &Value) -> Value {
        json!({
            "metadata": {
                "labels": { RUN_LABEL: self.name, ROLE_LABEL: role },
                // A proxy beside the load would be measured with it.
                "annotations": {
                    "sidecar.istio.io/inject": "false",
                    "linkerd.io/inject": "disabled",
                },
            },
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "terminationGracePeriodSeconds": 10,
                "securityContext": {
                    "runAsNonRoot": true,
                    "runAsUser": USER,
                    "runAsGroup": USER,
                    "fsGroup": USER,
                    "seccompProfile": { "type": "RuntimeDefault" },
                },
                "containers": [{
                    "name": CONTAINER,
                    "image": self.image,
                    "args": args,
                    "resources": { "requests": resources, "limits": resources },
                    "securityContext": {
                        "allowPrivilegeEscalation": false,
                        "readOnlyRootFilesystem": true,
                        "capabilities": { "drop": ["ALL"] },
                    },
                    "volumeMounts": [
                        { "name": "keys", "mountPath": KEYS_DIR, "readOnly": true },
                    ],
                }],
                "volumes": [{
                    "name": "keys",
                    "secret": { "secretName": secret, "defaultMode": 0o440 },
                }],
            },
        })
    }
}

impl Manifests {
    /// Returns all objects as YAML documents.
    pub fn yaml(&self) -> String {
        let all = std::iter::once(&self.owner).chain(&self.owned);
        all.map(|object| format!("---\n{}", super::yaml::document(object))).collect()
    }

    /// Returns all objects but the owner, as one list that the owner owns: the cluster removes them with it.
    pub(crate) fn owned_by(&self, name: &str, uid: &str) -> Value {
        let mut items = self.owned.clone();
        for item in &mut items {
            item["metadata"]["ownerReferences"] =
                json!([{ "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid }]);
        }
        json!({ "apiVersion": "v1", "kind": "List", "items": items })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::OrderFile;

    /// The published schemas of the kinds that are used, without descriptions: the oldest version that has all fields,
    /// one between, and the newest.
    const SCHEMAS: [(&str, &str); 3] = [
        ("1.25", include_str!("../../tests/kubernetes/v1.25.json")),
        ("1.31", include_str!("../../tests/kubernetes/v1.31.json")),
        ("1.37", include_str!("../../tests/kubernetes/v1.37.json")),
    ];

    const SECRET: &str = "hunter2-sesame-open";
    const ODD_WORDS: [&str; 9] = [
        "load",
        "http://web.shop/?k=hunter2-sesame-open",
        "-H",
        "x: hunter2-sesame-open $(HOSTNAME) $$",
        "--data=$(X)",
        "--users",
        "users",
        "--rate",
        "1k",
    ];

    fn run() -> KubernetesRun {
        KubernetesRun {
            name: "plimsoll-0123abcd".to_owned(),
            image: "registry.example/plimsoll:1".to_owned(),
            agents: 3,
            cpus: 2,
            memory: "1Gi".to_owned(),
            active_for_s: 7_200,
            command: Order {
                words: ODD_WORDS.map(str::to_owned).to_vec(),
                files: vec![OrderFile { path: "users".to_owned(), content: SECRET.into() }],
            },
        }
    }

    fn objects() -> Vec<Value> {
        let keys = RunKeys::new(3, 0..4_000_000_000).unwrap();
        let manifests = run().manifests(Some(&keys));
        let owned =
            manifests.owned_by("plimsoll-0123abcd", "7")["items"].as_array().unwrap().clone();
        [vec![manifests.owner], owned].concat()
    }

    fn definition(kind: &str) -> &'static str {
        match kind {
            "Job" => "io.k8s.api.batch.v1.Job",
            "NetworkPolicy" => "io.k8s.api.networking.v1.NetworkPolicy",
            "Secret" => "io.k8s.api.core.v1.Secret",
            "Service" => "io.k8s.api.core.v1.Service",
            other => panic!("{other}"),
        }
    }

    /// Finds parts of `value` that the schema does not allow; fields that it does not name are not allowed.
    fn faults(value: &Value, schema: &Value, all: &Value, at: &str, faults: &mut Vec<String>) {
        if let Some(name) = schema["$ref"].as_str() {
            let target = &all[name];
            assert!(target.is_object(), "{name} is missing");
            return self::faults(value, target, all, at, faults);
        }
        if let Some(either) = schema["oneOf"].as_array() {
            let fits = |one: &&Value| {
                let mut own = Vec::new();
                self::faults(value, one, all, at, &mut own);
                own.is_empty()
            };
            if either.iter().filter(fits).count() != 1 {
                faults.push(format!("{at}: fits none of {schema}"));
            }
            return;
        }
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let is_kind = |wanted: &Value| *wanted == kind || kind == "integer" && *wanted == "number";
        let is_allowed = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().any(is_kind),
            Value::Null => true,
            one => is_kind(one),
        };
        if !is_allowed {
            faults.push(format!("{at}: {value} is no {}", schema["type"]));
        }
        if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
            faults.push(format!("{at}: {value} is none of {}", schema["enum"]));
        }
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            self::faults(item, &schema["items"], all, &format!("{at}[{index}]"), faults);
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if value.is_object() && value.get(name).is_none() {
                faults.push(format!("{at}: {name} is missing"));
            }
        }
        for (name, field) in value.as_object().into_iter().flatten() {
            let at = format!("{at}.{name}");
            match (&schema["properties"][name], &schema["additionalProperties"]) {
                (Value::Object(known), _) => {
                    self::faults(field, &Value::Object(known.clone()), all, &at, faults);
                }
                (_, Value::Object(any)) => {
                    self::faults(field, &Value::Object(any.clone()), all, &at, faults);
                }
                _ => faults.push(format!("{at}: no such field")),
            }
        }
    }

    fn faults_of(object: &Value, schemas: &str) -> Vec<String> {
        let all: Value = serde_json::from_str(schemas).unwrap();
        let name = definition(object["kind"].as_str().unwrap());
        let mut found = Vec::new();
        faults(object, &json!({ "$ref": name }), &all, name, &mut found);
        found
    }

    #[test]
    fn objects_fit_the_published_schemas_of_three_versions() {
        for (version, schemas) in SCHEMAS {
            for object in objects() {
                assert_eq!(faults_of(&object, schemas), [""; 0], "{version}");
            }
            // The check finds what is wrong.
            let mut job = objects().remove(0);
            job["spec"]["template"]["spec"]["restartPolicie"] = json!("Never");
            job["spec"]["backoffLimit"] = json!("0");
            job["spec"]["template"]["spec"]["containers"][0]["name"] = Value::Null;
            let found = faults_of(&job, schemas).join("\n");
            assert!(found.contains("restartPolicie: no such field"), "{version}: {found}");
            assert!(found.contains("backoffLimit: \"0\" is no"), "{version}: {found}");
        }
    }

    #[test]
    fn pods_fit_the_restricted_profile() {
        for job in objects().iter().filter(|object| object["kind"] == "Job") {
            let pod = &job["spec"]["template"]["spec"];
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
            assert_eq!(pod["automountServiceAccountToken"], false);
            assert_eq!((&pod["hostNetwork"], &pod["hostPID"]), (&Value::Null, &Value::Null));
            let volumes = pod["volumes"].as_array().unwrap();
            assert!(volumes.iter().all(|volume| volume.get("hostPath").is_none()));
            for container in pod["containers"].as_array().unwrap() {
                let security = &container["securityContext"];
                assert_eq!(security["allowPrivilegeEscalation"], false);
                assert_eq!(security["readOnlyRootFilesystem"], true);
                assert_eq!(security["capabilities"], json!({ "drop": ["ALL"] }));
                let resources = &container["resources"];
                assert_eq!(resources["requests"], resources["limits"]);
            }
        }
    }

    #[test]
    fn all_belong_to_the_coordinators_job_and_only_it_has_its_key() {
        let objects = objects();
        for object in &objects[1..] {
            assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "7", "{object}");
        }
        // The files of the one Secret that a pod mounts.
        let files = |job: &Value| {
            let volumes = job["spec"]["template"]["spec"]["volumes"].as_array().unwrap().iter();
            let names: Vec<_> =
                volumes.filter_map(|one| one["secret"]["secretName"].as_str()).collect();
            let [name] = names[..] else { panic!("{job}") };
            let is_it =
                |object: &&Value| object["kind"] == "Secret" && object["metadata"]["name"] == name;
            let data = &objects.iter().find(is_it).unwrap()["data"];
            data.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        let jobs: Vec<_> = objects.iter().filter(|object| object["kind"] == "Job").collect();
        assert_eq!(jobs.len(), 4);
        let own = ["ca.pem", "command", "coordinator.key", "coordinator.pem", "file-0"];
        assert_eq!(files(jobs[0]), own);
        for (index, job) in jobs[1..].iter().enumerate() {
            let own =
                [format!("agent-{index}.key"), format!("agent-{index}.pem"), "ca.pem".to_owned()];
            assert_eq!(files(job), own);
            let args = job["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
            assert_eq!(args.last(), Some(&json!(index.to_string())));
        }
        // Nothing of them is shown where that was not asked for.
        assert!(!run().manifests(None).yaml().contains("pem"));
    }

    #[test]
    fn the_command_is_in_a_secret_alone_and_nothing_expands_it() {
        let manifests = run().manifests(None);
        assert!(!manifests.yaml().contains("web.shop") && !manifests.yaml().contains(SECRET));
        for object in objects().iter().filter(|object| object["kind"] != "Secret") {
            let text = object.to_string();
            assert!(!text.contains(SECRET) && !text.contains("web.shop"), "{text}");
            // The cluster expands these in arguments.
            assert!(!text.contains('$'), "{text}");
            assert!(!text.contains(&STANDARD.encode(SECRET)), "{text}");
        }
        let objects = objects();
        let is_it = |object: &&Value| object["metadata"]["name"] == "plimsoll-0123abcd-coordinator";
        let data = objects.iter().find(is_it).unwrap()["data"].as_object().unwrap();
        let mounted = tempfile::tempdir().unwrap();
        for (name, content) in data {
            let content = STANDARD.decode(content.as_str().unwrap()).unwrap();
            std::fs::write(mounted.path().join(name), content).unwrap();
        }
        let order = Order::read(mounted.path()).unwrap();
        assert_eq!(order.words, run().words());
        assert_eq!(order.words[..ODD_WORDS.len()], ODD_WORDS);
        assert!(order.files == run().command.files);
    }
}
