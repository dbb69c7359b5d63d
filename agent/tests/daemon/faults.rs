// SPDX-License-Identifier: Apache-2.0
//! Nodes that hang or fail.

use crate::agent::{Agent, plan};
use crate::controller::{Controller, until};
use crate::node::ScriptedNode;
use cachepilot_agent::Error;
use cachepilot_agent::daemon::clock::SystemClock;
use cachepilot_agent::node::Pace;
use cachepilot_agent::wire::result::Outcome;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn an_action_that_hangs_is_reported_and_snapshots_go_on_after_it() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    script.state.lock().unwrap().hanging = vec!["/b".into()];
    let agent = Agent::start(node, controller.address, "apply_timeout_ms = 300\n");
    let mut session = controller.sessions.welcome(20).await;
    session.plan(plan(1, 1, &["/a", "/b", "/c"])).await;
    let ack = session.ack().await;
    let outcomes: Vec<Outcome> = ack.results.iter().map(|result| result.outcome()).collect();
    assert_eq!(outcomes, [Outcome::Applied, Outcome::Failed, Outcome::Failed]);
    assert_eq!(ack.results[1].reason, "no answer for 300 ms");
    let reason = &ack.results[2].reason;
    assert!(reason.starts_with("the node is still busy: an action on /b for "), "{reason}");
    assert_eq!(script.applied(), ["/a"]);
    // Nothing is seen meanwhile, which is counted and no reason to drop the session.
    let failed = agent.shared.metrics.observations_failed.get();
    until(|| agent.shared.metrics.observations_failed.get() > failed + 1).await;
    assert_eq!(agent.shared.metrics.connected.get(), 1);
    script.free();
    session.snapshot().await;
    session.plan(plan(2, 1, &["/c"])).await;
    assert_eq!(session.ack().await.results[0].outcome(), Outcome::Applied);
    assert_eq!(script.applied(), ["/a", "/b", "/c"]);
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn a_long_plan_takes_no_longer_than_its_first_hanging_action() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    script.state.lock().unwrap().hanging = vec!["/a".into()];
    let agent = Agent::start(node, controller.address, "apply_timeout_ms = 100\n");
    let mut session = controller.sessions.welcome(10).await;
    session.plan(plan(1, 1, &["/a"; 500])).await;
    // Each of them, or a look between them, would take a tenth of a second: a minute and more.
    let results = session.ack().await.results;
    assert!(results.len() == 500 && results.iter().all(|r| r.outcome() == Outcome::Failed));
    script.free();
    session.snapshot().await;
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_that_never_answers_ends_the_agent_for_a_new_start() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    script.state.lock().unwrap().hanging = vec!["/b".into()];
    let times = "apply_timeout_ms = 20\nstuck_timeout_ms = 200\n";
    let agent = Agent::start(node, controller.address, times);
    let mut session = controller.sessions.welcome(20).await;
    session.plan(plan(1, 1, &["/b"])).await;
    session.ack().await;
    let error = agent.ended().await.unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("the node does not answer: an action on /b for "), "{message}");
    assert_eq!(error.exit_status(), 1);
    script.free();
}

#[tokio::test]
async fn a_tick_that_fails_ends_the_agent_with_the_reason() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "");
    controller.sessions.welcome(20).await.snapshot().await;
    script.state.lock().unwrap().tick_error = Some("lost its ring buffer");
    let error = agent.ended().await.unwrap_err();
    assert_eq!(error.to_string(), "the node lost its ring buffer");
}

#[tokio::test]
async fn an_end_amid_a_plan_tries_nothing_more() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    script.state.lock().unwrap().hanging = vec!["/a".into()];
    let agent = Agent::start(node, controller.address, "apply_timeout_ms = 5000\n");
    let session = controller.sessions.welcome(20).await;
    session.plan(plan(1, 1, &["/a", "/b"])).await;
    until(|| agent.shared.text().unwrap().contains("cachepilot_agent_epoch 1\n")).await;
    let ending = tokio::spawn(agent.stop());
    tokio::task::yield_now().await;
    script.free();
    ending.await.unwrap().unwrap();
    assert!(!script.applied().contains(&"/b".into()));
    assert_eq!(script.released(), 0);
}

#[tokio::test]
async fn a_second_agent_over_the_same_state_is_refused() {
    let controller = Controller::start().await;
    let (node, _) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "");
    controller.sessions.next().await;
    let (node, _) = ScriptedNode::new(Pace::RealTime);
    let dir = Arc::clone(&agent.dir);
    let second = Agent::restart(node, controller.address, "", dir, Arc::new(SystemClock));
    let opened = Arc::clone(&second.opened);
    assert!(matches!(second.ended().await, Err(Error::AgentRuns(_))));
    assert!(!opened.load(Ordering::Relaxed), "opening a node changes what it adopts");
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn a_disk_that_takes_nothing_keeps_no_agent_from_starting() {
    let controller = Controller::start().await;
    let dir = Arc::new(tempfile::tempdir().unwrap());
    // A folder in the place of the new file: no write can open it, not even by root.
    fs::create_dir(dir.path().join("agent.new")).unwrap();
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::restart(node, controller.address, "", dir, Arc::new(SystemClock));
    let mut session = controller.sessions.welcome(10).await;
    session.snapshot().await;
    session.plan(plan(1, 1, &["/a"])).await;
    let refused = session.ack().await.refused;
    assert!(refused.starts_with("its epoch cannot be stored: "), "{refused}");
    fs::remove_dir(agent.dir.path().join("agent.new")).unwrap();
    session.plan(plan(2, 1, &["/a"])).await;
    assert_eq!(session.ack().await.results[0].outcome(), Outcome::Applied);
    assert_eq!(script.applied(), ["/a"]);
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn a_damaged_state_is_put_aside_and_what_is_held_given_back() {
    let controller = Controller::start().await;
    let dir = Arc::new(tempfile::tempdir().unwrap());
    fs::write(dir.path().join("agent.json"), "{\"last_ep").unwrap();
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::restart(node, controller.address, "", dir, Arc::new(SystemClock));
    let mut session = controller.sessions.welcome(10).await;
    session.snapshot().await;
    assert_eq!(script.released(), 1);
    assert!(agent.dir.path().join("agent.json.damaged").exists());
    session.plan(plan(1, 1, &["/a"])).await;
    assert_eq!(session.ack().await.results[0].outcome(), Outcome::Applied);
    agent.stop().await.unwrap();
}
