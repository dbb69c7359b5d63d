// SPDX-License-Identifier: Apache-2.0
//! The session with the controller. It connects, sends hello, snapshots and acknowledgements,
//! receives plans, and starts again whenever the connection ends.
//!
//! It runs beside the rest of the agent and shares only bounded channels with it, so that a slow
//! controller never delays what happens on the node.

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

/// The most messages that wait to be sent to the controller. A further snapshot is dropped and
/// counted; the next one makes up for it, as counters are totals.
pub const UP_QUEUE: usize = 4;
/// The most events that wait for the agent. A further plan is refused.
pub const DOWN_QUEUE: usize = 8;

/// A message to the controller.
#[derive(Debug)]
pub enum Up {
    /// An observation, which becomes a snapshot. The number counts from 1 within a session.
    Observation(u64, Arc<Observation>),
    /// The results of a plan.
    Ack(wire::Ack),
}

/// An event from the session.
#[derive(Debug)]
pub enum Down {
    /// A session has begun. It ends when `up` is dropped.
    Connected {
        /// Time between snapshots.
        interval: Duration,
        /// Sender for messages in this session.
        up: mpsc::Sender<Up>,
    },
    /// A plan as it was received.
    Plan(wire::Plan),
    /// The session has ended.
    Lost,
}

/// What a session needs.
pub struct Session<D> {
    /// Makes connections.
    pub dial: D,
    /// Time-outs.
    pub times: Times,
    /// The first message of a session. Its last epoch changes.
    pub hello: watch::Receiver<wire::Hello>,
    /// Receiver of events. The session ends for good when it is dropped.
    pub down: mpsc::Sender<Down>,
    /// Pauses after a session that ended.
    pub backoff: Backoff,
    /// Makes snapshots.
    pub outgoing: Outgoing,
    /// The agent's counters.
    pub metrics: Arc<AgentMetrics>,
}

impl<D: Dial> Session<D> {
    /// Runs sessions until the receiver of `down` is dropped.
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

    /// Runs one session from connecting to its end. Returns the reason, unless the agent ended it.
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
        // This fails only if nobody receives events any more.
        let _ = self.down.send(Down::Lost).await;
        ended
    }
}
