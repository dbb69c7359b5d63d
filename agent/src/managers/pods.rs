// SPDX-License-Identifier: Apache-2.0
//! Names of Kubernetes workloads: which pod or container a cgroup is, according to the container
//! runtime of the node.
//!
//! The kubelet and the runtimes name the cgroup of a pod after its uid, and that of a container
//! after its id, with either of their two drivers: `kubepods-burstable-pod1b4c_2e.slice` and
//! `cri-containerd-3f9a….scope` by systemd, `pod1b4c-2e` and `3f9a…` by cgroupfs. Querying the
//! runtime requires its socket and no rights in the cluster. The runtime knows the labels of a pod
//! as they were when its sandbox was created: a label that is changed later is seen when the pod is
//! recreated.

use super::Finding;
use crate::wire::Workload;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;
use tonic::transport::Endpoint;

#[allow(missing_docs, clippy::all, clippy::unwrap_used, clippy::expect_used)]
mod cri {
    tonic::include_proto!("runtime.v1");
}

use cri::runtime_service_client::RuntimeServiceClient;
use cri::{ListContainersRequest, ListPodSandboxRequest};

/// Sockets of containerd, CRI-O, k3s and Docker's adapter.
pub const SOCKETS: [&str; 4] = [
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/cri-dockerd.sock",
];
/// The most labels of a pod that are reported, in the order of their names.
const LABELS_MAX: usize = 64;
/// The most bytes of all label names and values: a snapshot has room for those of a thousand pods.
const LABEL_BYTES_MAX: usize = 1024;
/// The size that the kubelet accepts, too: a thousand containers with their annotations.
const ANSWER_BYTES_MAX: usize = 16 << 20;
const TIMEOUT: Duration = Duration::from_secs(5);
/// Labels with this prefix repeat what the workload's names say anyway.
const OWN_LABELS: &str = "io.kubernetes.";
/// The annotation that the admission controller of the VerticalPodAutoscaler sets on pods.
const AUTOSCALED: &str = "vpaUpdates";
const REMARK_CHARS_MAX: usize = 200;
/// cAdvisor's name for the container that holds the network of a pod.
const SANDBOX_CONTAINER: &str = "POD";
const CONTAINER_ID_DIGITS: usize = 64;

/// What a cgroup is in Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Place {
    /// A container, by its id.
    Container(String),
    /// A pod, by its uid.
    Pod(String),
}

impl Place {
    /// The innermost container or pod that a cgroup is, or is in.
    fn of(cgroup: &str) -> Option<Self> {
        let is_of_kubernetes = cgroup.split('/').any(|name| name.starts_with("kubepods"));
        is_of_kubernetes.then(|| cgroup.rsplit('/').find_map(Self::of_name))?
    }

    fn of_name(name: &str) -> Option<Self> {
        let bare = name.strip_suffix(".scope").unwrap_or(name);
        let id = bare.rsplit('-').next().unwrap_or(bare);
        if id.len() == CONTAINER_ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Some(Self::Container(id.into()));
        }
        let bare = name.strip_suffix(".slice").unwrap_or(name);
        let at = bare.rfind("pod")? + "pod".len();
        let uid = bare[at..].replace('_', "-");
        let is_uid = |c: char| c.is_ascii_hexdigit() || c == '-';
        (uid.len() > 8 && uid.chars().all(is_uid)).then_some(Self::Pod(uid))
    }
}

/// Whether a cgroup belongs to Kubernetes.
#[must_use]
pub fn is_pod(cgroup: &str) -> bool {
    Place::of(cgroup).is_some()
}

/// A workload, and the other programs that manage it according to its annotations.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// Its names.
    pub workload: Workload,
    /// Programs that set its requests and limits.
    pub findings: Vec<Finding>,
}

/// All pods and containers of a node.
#[derive(Debug, Clone, Default)]
pub struct Pods {
    known: HashMap<Place, Named>,
}

impl Pods {
    /// Queries the container runtime that listens at `socket`.
    ///
    /// # Errors
    /// Returns the reason if there is no answer, or not a valid one.
    pub async fn ask(socket: &Path) -> Result<Self, String> {
        let fail = |error: &dyn std::fmt::Display| format!("{}: {error}", socket.display());
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()))
            .map_err(|error| fail(&error))?
            .connect_timeout(TIMEOUT)
            .timeout(TIMEOUT);
        let channel = endpoint.connect().await.map_err(|error| fail(&error))?;
        let mut runtime =
            RuntimeServiceClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        let sandboxes = runtime.list_pod_sandbox(ListPodSandboxRequest {}).await;
        let sandboxes = sandboxes.map_err(|status| fail(&status.message()))?.into_inner().items;
        let containers = runtime.list_containers(ListContainersRequest {}).await;
        let containers = containers.map_err(|status| fail(&status.message()))?.into_inner();
        Ok(Self::of(sandboxes, containers.containers))
    }

    fn of(sandboxes: Vec<cri::PodSandbox>, containers: Vec<cri::Container>) -> Self {
        let mut known = HashMap::new();
        let mut by_sandbox: HashMap<String, Named> = HashMap::new();
        for sandbox in sandboxes {
            let named = named(&sandbox);
            let uid = sandbox.metadata.map(|metadata| metadata.uid).unwrap_or_default();
            known.insert(Place::Pod(uid), named.clone());
            // The sandbox is a container, too, whose cgroup is beside those of the others.
            let mut holder = named.clone();
            holder.workload.container = SANDBOX_CONTAINER.into();
            known.insert(Place::Container(sandbox.id.clone()), holder);
            by_sandbox.insert(sandbox.id, named);
        }
        for container in containers {
            let Some(pod) = by_sandbox.get(&container.pod_sandbox_id) else { continue };
            let mut named = pod.clone();
            named.workload.container = container.metadata.map(|m| m.name).unwrap_or_default();
            known.insert(Place::Container(container.id), named);
        }
        Self { known }
    }

    /// The workload that a cgroup is, or is in.
    #[must_use]
    pub fn of_cgroup(&self, cgroup: &str) -> Option<&Named> {
        self.known.get(&Place::of(cgroup)?)
    }
}

fn named(sandbox: &cri::PodSandbox) -> Named {
    let metadata = sandbox.metadata.clone().unwrap_or_default();
    let mut labels: Vec<(&String, &String)> = sandbox.labels.iter().collect();
    labels.retain(|(name, _)| !name.starts_with(OWN_LABELS));
    labels.sort();
    let count = labels.len();
    let mut left = LABEL_BYTES_MAX;
    let fits = |(name, value): &(&String, &String)| {
        let bytes = name.len() + value.len();
        let fits = bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    };
    let labels: Vec<_> = labels.into_iter().take(LABELS_MAX).take_while(fits).collect();
    let mut findings = Vec::new();
    if labels.len() < count {
        findings.push(Finding {
            key: "labels".into(),
            message: format!(
                "of the {count} labels of its pod the first {} are told",
                labels.len()
            ),
        });
    }
    findings.extend(sandbox.annotations.get(AUTOSCALED).map(|update| Finding {
        key: AUTOSCALED.into(),
        message: format!(
            "a VerticalPodAutoscaler sets its requests and limits: {}",
            update.chars().take(REMARK_CHARS_MAX).collect::<String>()
        ),
    }));
    Named {
        workload: Workload {
            namespace: metadata.namespace,
            pod: metadata.name,
            container: String::new(),
            labels: labels.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        },
        findings,
    }
}

#[cfg(test)]
#[path = "pods_tests.rs"]
mod tests;
