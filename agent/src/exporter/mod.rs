// SPDX-License-Identifier: Apache-2.0
//! Serves `/metrics` for Prometheus and `/healthz`: the last observation, and the agent's own
//! metrics.

mod agent;
mod encode;
mod example;
mod node;
mod process;
mod tenants;

pub use agent::AgentMetrics;
pub use example::example;

use crate::error::{Error, Result};
use crate::node::Observation;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// An agent is unhealthy if it has not observed its node for this many intervals and for at least
/// `STALE`.
const STALE_INTERVALS: u32 = 3;
const STALE: Duration = Duration::from_secs(30);
const VERSION: &str = env!("CARGO_PKG_VERSION");
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Data that the agent and its exporter share.
#[derive(Debug, Default)]
pub struct Shared {
    /// The agent's counters.
    pub metrics: Arc<AgentMetrics>,
    node: String,
    seen: RwLock<Option<Seen>>,
}

/// The last observation.
#[derive(Debug, Clone)]
pub struct Seen {
    /// What was observed.
    pub observation: Arc<Observation>,
    /// When.
    pub at: Instant,
    /// Time after which a newer one is expected.
    pub interval: Duration,
}

impl Shared {
    /// The shared data of the agent of `node`.
    pub fn of(node: &str) -> Self {
        Self { node: node.to_owned(), ..Self::default() }
    }

    /// Stores the last observation; the next one is expected after `interval`.
    pub fn saw(&self, observation: Arc<Observation>, interval: Duration) {
        let seen = Some(Seen { observation, at: Instant::now(), interval });
        *self.seen.write().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    /// The last observation; `None` before the first.
    pub fn seen(&self) -> Option<Seen> {
        self.seen.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All metrics in the text format of OpenMetrics.
    ///
    /// # Errors
    /// Returns an error only for a mistake in the names of metrics.
    pub fn text(self: &Arc<Self>) -> std::result::Result<String, std::fmt::Error> {
        let mut registry = Registry::default();
        let identity = [("node", self.node.clone()), ("version", VERSION.to_owned())];
        registry.register(
            "cachepilot_agent",
            "Always 1; the labels name the node and the version of the agent",
            Info::new(identity),
        );
        self.metrics.register(&mut registry);
        registry.register_collector(Box::new(process::Process));
        if let Some(seen) = self.seen() {
            registry.register_collector(Box::new(tenants::Tenants(Arc::clone(&seen.observation))));
            registry.register_collector(Box::new(node::NodeSeen(seen)));
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// Serves both pages in a task of its own.
///
/// # Errors
/// Returns [`Error::Listen`].
pub async fn listen(address: SocketAddr, shared: Arc<Shared>) -> Result<JoinHandle<()>> {
    let fail = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(fail)?;
    tracing::info!(address = %listener.local_addr().map_err(fail)?, "metrics");
    Ok(serve(listener, shared))
}

/// Serves both pages to the clients of `listener`.
pub fn serve(listener: TcpListener, shared: Arc<Shared>) -> JoinHandle<()> {
    let health = Arc::clone(&shared);
    let pages = Router::new()
        .route("/metrics", get(move || metrics(Arc::clone(&shared))))
        .route("/healthz", get(move || async move { healthz(&health) }));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, pages).await {
            tracing::error!("metrics: {error}");
        }
    })
}

async fn metrics(shared: Arc<Shared>) -> Response {
    // The text for many tenants takes milliseconds, and plans must not wait for it.
    match tokio::task::spawn_blocking(move || shared.text()).await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Reports whether the agent observes its node, with or without a controller.
fn healthz(shared: &Shared) -> Response {
    let seen = shared.seen();
    let age = seen.as_ref().map(|seen| seen.at.elapsed());
    let bound = seen.map_or(STALE, |seen| STALE.max(seen.interval * STALE_INTERVALS));
    let well = age.is_some_and(|age| age < bound);
    let status = if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = serde_json::json!({
        "well": well,
        "connected": shared.metrics.connected.get() == 1,
        "observation_age_ms": age.map(|age| age.as_millis() as u64),
    });
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

#[cfg(test)]
mod tests;
