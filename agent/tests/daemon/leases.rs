// SPDX-License-Identifier: Apache-2.0
//! Leases: what was given for a while goes back by itself.

use crate::agent::{Agent, SetClock, plan};
use crate::controller::{Controller, until};
use crate::node::ScriptedNode;
use cachepilot_agent::daemon::clock::{Clock, SystemClock};
use cachepilot_agent::node::Pace;
use cachepilot_agent::wire;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

fn lease(epoch: u64, lease_ms: u32) -> wire::Plan {
    wire::Plan { lease_ms, ..plan(epoch, 1, &["/a"]) }
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_releases_once() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(20).await;
    session.plan(lease(1, 50)).await;
    session.ack().await;
    until(|| script.released() == 1).await;
    until(|| agent.shared.metrics.leases_expired.get() == 1).await;
    let observed = script.observed();
    until(|| script.observed() > observed + 5).await;
    assert_eq!(script.released(), 1);
    // A newer plan is welcome after that.
    session.plan(plan(2, 1, &["/b"])).await;
    assert_eq!(session.ack().await.refused, "");
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn newer_plans_renew_a_lease_and_refused_ones_do_not() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(20).await;
    let began = Instant::now();
    session.plan(lease(10, 1_000)).await;
    session.ack().await;
    session.plan(lease(11, 3_600_000)).await;
    session.ack().await;
    until(|| began.elapsed().as_millis() > 1_200).await;
    assert_eq!(script.released(), 0);
    // None at all from now on.
    session.plan(plan(12, 1, &[])).await;
    session.ack().await;
    assert!(agent.shared.text().unwrap().contains("lease_deadline_timestamp_seconds 0\n"));
    session.plan(lease(13, 50)).await;
    session.ack().await;
    while script.released() == 0 {
        session.plan(lease(9, 3_600_000)).await;
        assert_ne!(session.ack().await.refused, "");
    }
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn a_release_that_fails_is_tried_again() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    script.state.lock().unwrap().release_fails = 1;
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(20).await;
    session.plan(lease(1, 20)).await;
    session.ack().await;
    until(|| script.released() == 2).await;
    until(|| agent.shared.metrics.leases_expired.get() == 1).await;
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn a_lease_that_ended_meanwhile_releases_at_the_start() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(20).await;
    session.plan(lease(1, 60_000)).await;
    session.ack().await;
    let dir = Arc::clone(&agent.dir);
    agent.stop().await.unwrap();
    assert_eq!(script.released(), 0, "an end leaves everything as it is");

    let now = SystemClock.wall().as_millis() as u64;
    let clock = Arc::new(SetClock(now.into()));
    let start = |clock: &Arc<SetClock>| {
        let (node, script) = ScriptedNode::new(Pace::RealTime);
        let clock: Arc<dyn Clock> = clock.clone();
        (Agent::restart(node, controller.address, "", Arc::clone(&dir), clock), script)
    };
    let (agent, script) = start(&clock);
    controller.sessions.welcome(20).await.snapshot().await;
    assert_eq!(script.released(), 0, "half of it is left");
    agent.stop().await.unwrap();

    clock.0.store(now + 61_000, Ordering::Relaxed);
    let (agent, script) = start(&clock);
    let hello = controller.sessions.next().await.hello;
    assert_eq!((script.released(), hello.last_epoch), (1, 1), "before anything else");
    agent.stop().await.unwrap();

    let (agent, script) = start(&clock);
    controller.sessions.next().await;
    assert_eq!(script.released(), 0, "once is enough");
    agent.stop().await.unwrap();
}
