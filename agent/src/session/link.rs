// SPDX-License-Identifier: Apache-2.0
//! One session over one connection.

use super::dial::{Dial, reasons};
use super::{Down, Session, Up};
use crate::config::Times;
use crate::wire;
use prost::Message as _;
use std::future::Future;
use std::time::Duration;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use wire::agent_message::Message as Said;
use wire::controller_message::Message as Heard;

/// Bounds of `Welcome.interval_ms`.
const INTERVAL_MS: std::ops::RangeInclusive<u32> = 10..=600_000;

type Reason = String;

/// A stream in both directions.
pub struct Link {
    out: mpsc::Sender<wire::AgentMessage>,
    inbound: Streaming<wire::ControllerMessage>,
    /// The first snapshot that was not answered by a plan, and the time until which it must be.
    awaited: Option<(u64, Instant)>,
}

/// Connects, sends hello and waits for the welcome. Returns the interval that the controller wants.
pub async fn open(
    dial: &impl Dial,
    times: &Times,
    hello: wire::Hello,
) -> Result<(Link, Duration), Reason> {
    let channel = in_time("connecting", times.connect, dial.dial()).await?;
    let mut client = wire::fleet_client::FleetClient::new(channel);
    let (out, outbound) = mpsc::channel(1);
    // This is sent before the call, as a server may hold back its headers until it has something to
    // answer.
    out.try_send(message(Said::Hello(hello))).map_err(|e| e.to_string())?;
    let call = async {
        let answer = client.session(ReceiverStream::new(outbound)).await.map_err(status)?;
        let mut inbound = answer.into_inner();
        Ok((inbound.message().await.map_err(status)?, inbound))
    };
    let (first, inbound) = in_time("waiting for a welcome", times.connect, call).await?;
    let Some(Heard::Welcome(welcome)) = first.and_then(|m| m.message) else {
        return Err("the controller did not begin with a welcome".into());
    };
    if !INTERVAL_MS.contains(&welcome.interval_ms) {
        let (least, most) = (INTERVAL_MS.start(), INTERVAL_MS.end());
        let got = welcome.interval_ms;
        return Err(format!(
            "the controller wants interval_ms = {got}: {least} to {most} is allowed"
        ));
    }
    let interval = Duration::from_millis(welcome.interval_ms.into());
    Ok((Link { out, inbound, awaited: None }, interval))
}

impl Link {
    /// Runs until the agent drops its sender, which is not an error, or until something fails, with
    /// the reason.
    pub async fn run<D: Dial>(
        mut self,
        session: &mut Session<D>,
        mut incoming: mpsc::Receiver<Up>,
    ) -> Result<(), Reason> {
        let times = session.times;
        loop {
            let overdue = self.awaited.map(|(_, until)| until);
            tokio::select! {
                up = incoming.recv() => match up {
                    Some(up) => self.say(session, up, &times).await?,
                    None => return Ok(()),
                },
                heard = self.inbound.message() => {
                    let heard = heard.map_err(status)?.ok_or("the controller ended the session")?;
                    self.hear(session, heard)?;
                }
                () = sleep_until(overdue.unwrap_or_else(Instant::now)), if overdue.is_some() => {
                    session.metrics.plans_missed.inc();
                    return Err(format!("no plan for {} ms", times.plan.as_millis()));
                }
            }
        }
    }

    async fn say<D: Dial>(
        &mut self,
        session: &mut Session<D>,
        up: Up,
        times: &Times,
    ) -> Result<(), Reason> {
        let said = match up {
            Up::Ack(ack) => Said::Ack(ack),
            Up::Observation(sequence, observation) => {
                let composed = session.outgoing.compose(sequence, &observation);
                session.metrics.snapshots_sent.inc();
                session.metrics.curves_deferred.inc_by(composed.deferred_curves);
                session.metrics.tenants_left_out.inc_by(composed.left_out_tenants);
                session.metrics.snapshot_bytes.set(composed.snapshot.encoded_len() as i64);
                self.awaited.get_or_insert((sequence, Instant::now() + times.plan));
                Said::Snapshot(composed.snapshot)
            }
        };
        let sending = async { self.out.send(message(said)).await.map_err(|e| e.to_string()) };
        in_time("sending", times.send, sending).await
    }

    fn hear<D: Dial>(
        &mut self,
        session: &mut Session<D>,
        heard: wire::ControllerMessage,
    ) -> Result<(), Reason> {
        let plan = match heard.message {
            Some(Heard::Plan(plan)) => plan,
            Some(Heard::Welcome(_)) => return Err("the controller sent a second welcome".into()),
            // The message is from a newer controller, and is ignored by this agent.
            None => return Ok(()),
        };
        session.backoff.reset();
        if self.awaited.is_some_and(|(sequence, _)| plan.snapshot >= sequence) {
            self.awaited = None;
        }
        match session.down.try_send(Down::Plan(plan)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Ok(()),
            Err(TrySendError::Full(_)) => {
                session.metrics.plans_overrun.inc();
                Err("plans come faster than they can be applied".into())
            }
        }
    }
}

fn message(said: Said) -> wire::AgentMessage {
    wire::AgentMessage { message: Some(said) }
}

fn status(status: tonic::Status) -> Reason {
    let said = format!("{}: {}", status.code(), status.message());
    // The cause of the status, and not the status, names a refused certificate.
    match std::error::Error::source(&status) {
        Some(cause) => format!("{said}: {}", reasons(cause)),
        None => said,
    }
}

async fn in_time<T>(
    what: &str,
    time: Duration,
    future: impl Future<Output = Result<T, Reason>>,
) -> Result<T, Reason> {
    match timeout(time, future).await {
        Ok(result) => result.map_err(|reason| format!("{what}: {reason}")),
        Err(_) => Err(format!("{what}: nothing for {} ms", time.as_millis())),
    }
}
