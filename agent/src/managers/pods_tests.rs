// SPDX-License-Identifier: Apache-2.0

use super::*;
use cri::runtime_service_server::{RuntimeService, RuntimeServiceServer};
use cri::{
    Container, ContainerMetadata, ListContainersResponse, ListPodSandboxResponse, PodSandbox,
    PodSandboxMetadata,
};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

const ID: &str = "3f9a3f9a3f9a3f9a3f9a3f9a3f9a3f9a3f9a3f9a3f9a3f9a3f9a3f9a3f9a3f9a";
const SANDBOX: &str = "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";
const UID: &str = "1b4c8d2e-0000-4000-8000-00000000abcd";

/// A container runtime that has one pod with one container.
struct Runtime;

fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|&(name, value)| (name.into(), value.into())).collect()
}

fn sandbox() -> PodSandbox {
    PodSandbox {
        id: SANDBOX.into(),
        metadata: Some(PodSandboxMetadata {
            name: "db-0".into(),
            uid: UID.into(),
            namespace: "shop".into(),
        }),
        labels: map(&[("app", "db"), ("io.kubernetes.pod.name", "db-0")]),
        annotations: map(&[("vpaUpdates", "Pod resources updated by db: container 0: memory")]),
    }
}

#[tonic::async_trait]
impl RuntimeService for Runtime {
    async fn list_pod_sandbox(
        &self,
        _: Request<ListPodSandboxRequest>,
    ) -> Result<Response<ListPodSandboxResponse>, Status> {
        Ok(Response::new(ListPodSandboxResponse { items: vec![sandbox()] }))
    }

    async fn list_containers(
        &self,
        _: Request<ListContainersRequest>,
    ) -> Result<Response<ListContainersResponse>, Status> {
        let container = |id: &str, pod: &str, name: &str| Container {
            id: id.into(),
            pod_sandbox_id: pod.into(),
            metadata: Some(ContainerMetadata { name: name.into() }),
        };
        let containers = vec![container(ID, SANDBOX, "postgres"), container("x", "gone", "y")];
        Ok(Response::new(ListContainersResponse { containers }))
    }
}

#[test]
fn cgroups_of_both_drivers_are_recognised() {
    let container = Place::Container(ID.into());
    let pod = Place::Pod(UID.into());
    let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
    for (cgroup, place) in [
        (format!("/kubepods.slice/kubepods-burstable.slice/{slice}"), &pod),
        (format!("/kubepods.slice/x.slice/{slice}/cri-containerd-{ID}.scope"), &container),
        (format!("/kubepods.slice/x.slice/{slice}/crio-{ID}.scope"), &container),
        (format!("/kubepods/besteffort/pod{UID}"), &pod),
        (format!("/kubepods/besteffort/pod{UID}/{ID}"), &container),
        (format!("/kubepods/besteffort/pod{UID}/{ID}/worker"), &container),
    ] {
        assert_eq!(Place::of(&cgroup).as_ref(), Some(place), "{cgroup}");
    }
    for other in ["/kubepods.slice", "/kubepods.slice/kubepods-burstable.slice", "/db.service"] {
        assert_eq!(Place::of(other), None, "{other}");
    }
    assert_eq!(Place::of(&format!("/system.slice/docker-{ID}.scope")), None);
}

#[test]
fn labels_are_sent_as_far_as_they_fit() {
    let long = "v".repeat(100);
    let labels: Vec<(String, &str)> = (0..60).map(|n| (format!("label-{n:02}"), &*long)).collect();
    let labels = labels.iter().map(|(name, value)| (name.as_str(), *value)).collect::<Vec<_>>();
    let named = named(&PodSandbox { labels: map(&labels), ..sandbox() });
    assert_eq!(named.workload.labels.len(), LABEL_BYTES_MAX / 108);
    assert!(named.workload.labels.contains_key("label-00"));
    assert_eq!(named.findings[0].message, "of the 60 labels of its pod the first 9 are told");
    let labels: Vec<String> = (0..99).map(|n| format!("{n:02}")).collect();
    let labels: Vec<(&str, &str)> = labels.iter().map(|name| (name.as_str(), "")).collect();
    let named = super::named(&PodSandbox { labels: map(&labels), ..sandbox() });
    assert_eq!(named.workload.labels.len(), LABELS_MAX);
}

#[tokio::test]
async fn a_runtime_is_asked_over_its_socket() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("runtime.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let server = tonic::transport::Server::builder()
        .add_service(RuntimeServiceServer::new(Runtime))
        .serve_with_incoming(UnixListenerStream::new(listener));
    let server = tokio::spawn(server);
    let pods = Pods::ask(&socket).await.unwrap();
    let container = pods.of_cgroup(&format!("/kubepods/pod{UID}/{ID}")).unwrap();
    let workload = &container.workload;
    assert_eq!((workload.namespace.as_str(), workload.pod.as_str()), ("shop", "db-0"));
    assert_eq!(
        (workload.container.as_str(), &workload.labels),
        ("postgres", &map(&[("app", "db")]))
    );
    assert!(container.findings[0].message.starts_with("a VerticalPodAutoscaler sets its requests"));
    let pod = pods.of_cgroup(&format!("/kubepods/pod{UID}")).unwrap();
    assert_eq!((pod.workload.pod.as_str(), pod.workload.container.as_str()), ("db-0", ""));
    let holder = pods.of_cgroup(&format!("/kubepods/pod{UID}/{SANDBOX}")).unwrap();
    assert_eq!(holder.workload.container, "POD");
    assert_eq!(pods.of_cgroup(&format!("/kubepods/pod{UID}/{}", ID.replace('3', "4"))), None);
    server.abort();
}

#[tokio::test]
async fn a_socket_without_an_answer_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("runtime.sock");
    let error = Pods::ask(&socket).await.unwrap_err();
    assert!(error.contains("runtime.sock"), "{error}");
}
