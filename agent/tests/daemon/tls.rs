// SPDX-License-Identifier: Apache-2.0
//! Beyond this host both sides show certificates.

use crate::agent::{Agent, config};
use crate::controller::{Controller, until};
use crate::node::ScriptedNode;
use cachepilot_agent::config::Config;
use cachepilot_agent::daemon::clock::SystemClock;
use cachepilot_agent::node::Pace;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

/// An authority, and what it vouches for.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for `localhost` and its key.
    fn issue(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

/// A configuration whose files are in `dir`: who is trusted, and what the agent shows.
fn with_tls(dir: &Path, controller: SocketAddr, trusted: &Authority, own: &Authority) -> Config {
    let (certificate, key) = own.issue();
    for (name, text) in [("ca", trusted.pem()), ("certificate", certificate), ("key", key)] {
        fs::write(dir.join(name), text).unwrap();
    }
    let mut config = config(dir, controller, "");
    config.controller = format!("https://localhost:{}", controller.port());
    config.tls = Some(cachepilot_agent::config::Tls {
        ca: dir.join("ca"),
        certificate: dir.join("certificate"),
        key: dir.join("key"),
    });
    config
}

#[tokio::test]
async fn only_agents_with_a_certificate_have_a_session_and_only_with_the_right_controller() {
    let (fleet, stranger) = (Authority::new(), Authority::new());
    let (certificate, key) = fleet.issue();
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(certificate, key))
        .client_ca_root(Certificate::from_pem(fleet.pem()));
    let server = Server::builder().tls_config(tls).unwrap();
    let controller = Controller::start_at("127.0.0.1:0".parse().unwrap(), server).await;
    let start = |trusted: &Authority, own: &Authority| {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let config = with_tls(dir.path(), controller.address, trusted, own);
        let (node, _) = ScriptedNode::new(Pace::RealTime);
        Agent::start_with(node, config, dir, Arc::new(SystemClock))
    };
    for (trusted, own) in [(&fleet, &stranger), (&stranger, &fleet)] {
        let agent = start(trusted, own);
        until(|| agent.shared.metrics.sessions_failed.get() > 2).await;
        assert_eq!(agent.shared.metrics.sessions.get(), 0);
        agent.stop().await.unwrap();
    }
    let agent = start(&fleet, &fleet);
    let mut session = controller.sessions.welcome(20).await;
    assert_eq!(session.snapshot().await.sequence, 1);
    agent.stop().await.unwrap();
}
