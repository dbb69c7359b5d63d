// SPDX-License-Identifier: Apache-2.0
//! The session with the controller: connects, says hello, sends snapshots and acknowledgements,
//! receives plans, and starts again whenever that ends.
//!
//! It runs beside the rest of the agent and shares nothing with it but bounded channels, so that a
//! slow controller never holds up what happens on the node.

pub mod backoff;
pub mod dial;
mod link;
pub mod outgoing;

use crate::config::Times;
use crate::exporter::AgentMetrics;
use crate::node::Observation;
use crate::wire;
use backoff::Backoff;
use dial::Dial;
use outgoing::Outgoing;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Messages that wait at most on their way to the controller; a snapshot more is dropped and
/// counted, since totals make it up.
pub const UP_QUEUE: usize = 4;
/// Events that wait at most for the agent; a plan more is refused.
pub const DOWN_QUEUE: usize = 8;

/// To the controller.
#[derive(Debug)]
pub enum Up {
    /// A snapshot is made of it. The number counts from 1 within a session.
    Observation(u64, Arc<Observation>),
    /// What became of a plan.
    Ack(wire::Ack),
}

/// From the session.
#[derive(Debug)]
pub enum Down {
    /// There is a session; it ends when `up` is dropped.
    Connected {
        /// Between snapshots.
        interval: Duration,
        /// Where to say something in this session.
        up: mpsc::Sender<Up>,
    },
    /// A plan, as it came.
    Plan(wire::Plan),
    /// There is no session any more.
    Lost,
}

/// What a session needs.
pub struct Session<D> {
    /// Makes connections.
    pub dial: D,
    /// Bounds in time.
    pub times: Times,
    /// What to say first; the last epoch changes.
    pub hello: watch::Receiver<wire::Hello>,
    /// Where events go. The session ends for good when nobody listens.
    pub down: mpsc::Sender<Down>,
    /// Pauses after a session that ended.
    pub backoff: Backoff,
    /// Makes snapshots.
    pub outgoing: Outgoing,
    /// What is counted.
    pub metrics: Arc<AgentMetrics>,
}

impl<D: Dial> Session<D> {
    /// Keeps a session until nobody listens to `down`.
    pub async fn run(mut self) {
        while !self.down.is_closed() {
            let ended = self.once().await;
            self.metrics.connected.set(0);
            match ended {
                Ok(()) => tracing::info!("session ended"),
                Err(reason) => {
                    self.metrics.sessions_failed.inc();
                    tracing::warn!("no session: {reason}");
                }
            }
            let pause = self.backoff.pause();
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.down.closed() => {}
            }
        }
    }

    /// One session, from dialling to its end; the reason unless the agent ended it.
    async fn once(&mut self) -> Result<(), String> {
        let opening = link::open(&self.dial, &self.times, self.hello.borrow().clone());
        let (link, interval) = tokio::select! {
            opened = opening => opened?,
            () = self.down.closed() => return Ok(()),
        };
        tracing::info!(?interval, "session with the controller");
        self.metrics.connected.set(1);
        self.metrics.sessions.inc();
        self.outgoing.begin();
        let (up, incoming) = mpsc::channel(UP_QUEUE);
        if self.down.send(Down::Connected { interval, up }).await.is_err() {
            return Ok(());
        }
        let ended = link.run(self, incoming).await;
        // Without listener there is nobody to tell.
        let _ = self.down.send(Down::Lost).await;
        ended
    }
}
