// SPDX-License-Identifier: Apache-2.0
//! Connections to the controller.

use crate::config::{Config, Tls};
use std::fs;
use std::future::Future;
use std::path::Path;
use std::time::Duration;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// Time after which a silent connection is probed. By default, gRPC servers close the connection of
/// a client that probes more than once in five minutes without sending anything else. A controller
/// that is gone is detected far earlier, as its plan does not arrive.
const KEEP_ALIVE: Duration = Duration::from_secs(310);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(10);

/// Makes connections.
pub trait Dial: Send + Sync + 'static {
    /// Tries once to connect. Returns the reason if that fails.
    fn dial(&self) -> impl Future<Output = Result<Channel, String>> + Send;
}

/// Connects to the controller of a configuration.
#[derive(Debug, Clone)]
pub struct Dialer {
    url: String,
    tls: Option<Tls>,
    time_out: Duration,
}

impl Dialer {
    /// A dialer for the controller in `config`.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let (url, tls) = (config.controller.clone(), config.tls.clone());
        Self { url, tls, time_out: config.times.connect }
    }

    fn endpoint(&self) -> Result<Endpoint, String> {
        let endpoint = Endpoint::from_shared(self.url.clone()).map_err(|e| reasons(&e))?;
        let endpoint = with_keep_alive(endpoint).connect_timeout(self.time_out);
        let Some(tls) = &self.tls else { return Ok(endpoint) };
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(pem(&tls.ca)?))
            .identity(Identity::from_pem(pem(&tls.certificate)?, pem(&tls.key)?));
        endpoint.tls_config(tls).map_err(|e| reasons(&e))
    }
}

impl Dial for Dialer {
    async fn dial(&self) -> Result<Channel, String> {
        self.endpoint()?.connect().await.map_err(|e| reasons(&e))
    }
}

/// An endpoint whose connections detect that the other side is gone.
#[must_use]
pub fn with_keep_alive(endpoint: Endpoint) -> Endpoint {
    endpoint
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_ANSWER)
        .keep_alive_while_idle(true)
}

fn pem(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// An error and its causes, in one line.
pub(super) fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
