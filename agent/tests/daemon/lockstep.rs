// SPDX-License-Identifier: Apache-2.0
//! Virtual time: it goes on when the plan of the last snapshot was applied.

use crate::agent::{Agent, plan};
use crate::controller::{Controller, until};
use crate::node::ScriptedNode;
use cachepilot_agent::node::Pace;
use std::time::Duration;

#[tokio::test]
async fn time_waits_for_plans() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::Lockstep);
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(1_000).await;
    for sequence in 1..=50 {
        let snapshot = session.snapshot().await;
        // Fifty seconds pass at once, and none without a plan.
        assert_eq!((snapshot.sequence, snapshot.time_us), (sequence, sequence * 1_000_000));
        assert_eq!(script.state.lock().unwrap().ticks.len() as u64, sequence - 1);
        session.plan(plan(sequence, sequence, &["/a"])).await;
        assert_eq!(session.ack().await.refused, "");
    }
    until(|| script.state.lock().unwrap().ticks.len() == 50).await;
    assert!(script.state.lock().unwrap().ticks.iter().all(|t| *t == Duration::from_secs(1)));
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn time_stands_still_without_a_controller() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::Lockstep);
    let agent = Agent::start(node, controller.address, "plan_timeout_ms = 1000\n");
    let mut session = controller.sessions.welcome(1_000).await;
    assert_eq!(session.snapshot().await.time_us, 1_000_000);
    session.plan(plan(1, 1, &[])).await;
    assert_eq!(session.snapshot().await.time_us, 2_000_000);
    // An answer to what was asked before does not move time; no answer ends the session.
    session.plan(plan(2, 1, &[])).await;
    while session.hear().await.is_some() {}

    let mut session = controller.sessions.welcome(500).await;
    let snapshot = session.snapshot().await;
    assert_eq!((snapshot.sequence, snapshot.time_us), (1, 2_000_000));
    assert_eq!(script.state.lock().unwrap().ticks.len(), 1);
    session.plan(plan(3, 1, &[])).await;
    assert_eq!(session.snapshot().await.time_us, 2_500_000);
    agent.stop().await.unwrap();
}
