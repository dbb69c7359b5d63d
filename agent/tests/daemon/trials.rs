// SPDX-License-Identifier: Apache-2.0
//! Changes on trial: what nobody confirms is undone, whatever became of the controller.

use crate::agent::{Agent, SetClock, plan};
use crate::controller::{Controller, until};
use crate::node::{Script, ScriptedNode};
use cachepilot_agent::daemon::state::Store;
use cachepilot_agent::node::Pace;
use cachepilot_agent::wire;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::result::Outcome;

/// `s3fifo` on trial in the place of `lru`, without a lease.
fn trial(epoch: u64, snapshot: u64, ttl_ms: u32) -> wire::Plan {
    let back = wire::Setting { policy: Some("lru".into()), limit_bytes: None };
    let action = wire::Action {
        cgroup: "/a".into(),
        cgroup_id: 1,
        policy: Some("s3fifo".into()),
        revert_to: Some(back),
        ttl_ms,
        change_epoch: 1,
        ..wire::Action::default()
    };
    wire::Plan { actions: vec![action], ..plan(epoch, snapshot, &[]) }
}

/// Renews the change of epoch 1, or confirms it.
fn about(epoch: u64, snapshot: u64, ttl_ms: u32) -> wire::Plan {
    let trial = trial(epoch, snapshot, ttl_ms);
    let action = wire::Action { policy: None, revert_to: None, ..trial.actions[0].clone() };
    wire::Plan { actions: vec![action], ..trial }
}

fn policies(script: &Script) -> Vec<String> {
    let state = script.state.lock().unwrap();
    state.applied.iter().filter_map(|action| action.policy.clone()).collect()
}

fn undone(agent: &Agent, outcome: &str) -> bool {
    let series = format!("cachepilot_agent_changes_undone_total{{outcome=\"{outcome}\"}} ");
    agent.shared.text().unwrap().contains(&series)
}

fn on_disk(dir: &Path) -> bool {
    std::fs::read_to_string(dir.join("agent.json")).unwrap().contains("\"on_trial\"")
}

#[tokio::test]
async fn an_unconfirmed_change_is_undone_without_a_controller() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(20).await;
    session.plan(trial(1, 1, 300)).await;
    assert_eq!(session.ack().await.results[0].outcome(), Outcome::Applied);
    let told = session.snapshot().await.tenants[0].unconfirmed.clone().unwrap();
    let back = told.revert_to.unwrap();
    assert_eq!((told.epoch, told.undone, back.limit_bytes), (1, false, Some(1 << 30)));
    assert!(on_disk(agent.dir.path()) && (1..=300).contains(&told.left_ms), "{}", told.left_ms);
    assert!(agent.shared.text().unwrap().contains("cachepilot_agent_changes_unconfirmed 1\n"));
    drop(session);
    controller.kill().await;
    until(|| policies(&script) == ["s3fifo", "lru"]).await;
    until(|| undone(&agent, "applied")).await;
    assert_eq!((script.released(), policies(&script).len()), (0, 2));
    assert!(agent.shared.text().unwrap().contains("cachepilot_agent_changes_unconfirmed 0\n"));
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn looks_that_take_too_long_keep_nothing_from_being_undone_nor_the_controller_from_seeing() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "apply_timeout_ms = 100\n");
    let mut session = controller.sessions.welcome(20).await;
    session.plan(trial(1, 1, 400)).await;
    assert_eq!(session.ack().await.results[0].outcome(), Outcome::Applied);
    script.state.lock().unwrap().look_takes = Duration::from_millis(250);
    let failed = agent.shared.metrics.observations_failed.get();
    until(|| agent.shared.metrics.observations_failed.get() > failed).await;
    until(|| policies(&script) == ["s3fifo", "lru"]).await;
    // It may have been sent before the rollback; the next ones come late.
    while !session.snapshot().await.tenants[0].unconfirmed.as_ref().unwrap().undone {}
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn in_virtual_time_a_change_lives_by_the_clock_of_the_node() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::Lockstep);
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(1_000).await;
    session.snapshot().await;
    session.plan(trial(1, 1, 3_000)).await;
    for sequence in 2..=9 {
        let told = session.snapshot().await.tenants[0].unconfirmed.clone().unwrap();
        // Renewed at 3 s, it waits until 6 s, which is a second at least after the start of this.
        assert_eq!(told.undone, sequence > 6, "{sequence}");
        let renews = if sequence == 3 { about(3, 3, 3_000) } else { plan(sequence, sequence, &[]) };
        session.plan(renews).await;
    }
    assert_eq!(policies(&script), ["s3fifo", "lru"]);
    session.plan(about(20, 9, 0)).await;
    while session.snapshot().await.tenants[0].unconfirmed.is_some() {}
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn a_confirmed_or_replaced_change_stays() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(20).await;
    let pin = plan(4, 1, &["/a"]);
    for (done, ends) in [(trial(1, 1, 400), about(2, 1, 0)), (trial(3, 1, 400), pin)] {
        session.plan(done).await;
        session.ack().await;
        assert!(on_disk(agent.dir.path()));
        session.plan(ends).await;
        let outcome = session.ack().await.results[0].outcome();
        assert!([Outcome::Unchanged, Outcome::Applied].contains(&outcome));
        until(|| !on_disk(agent.dir.path())).await;
    }
    session.plan(about(5, 1, 400)).await;
    let result = session.ack().await.results.remove(0);
    assert_eq!(
        (result.outcome(), result.reason.as_str()),
        (Outcome::Refused, "change 1 does not wait")
    );
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(policies(&script).iter().all(|name| name == "s3fifo"));
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn a_restarted_agent_undoes_unconfirmed_changes() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let clock = Arc::new(SetClock::default());
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let restart = |node, more: &str| {
        Agent::restart(node, controller.address, more, Arc::clone(&dir), clock.clone())
    };
    let agent = restart(node, "");
    let mut session = controller.sessions.welcome(20).await;
    session.plan(trial(1, 1, 1_000)).await;
    session.ack().await;
    agent.stop().await.unwrap();
    assert_eq!(policies(&script), ["s3fifo"], "an end leaves everything as it is");

    clock.0.store(1_000, Ordering::Relaxed);
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    script.state.lock().unwrap().outcomes.insert("/a".into(), (Outcome::Failed, "busy"));
    script.state.lock().unwrap().tenants[0].policy = "s3fifo".into();
    let agent = restart(node, "");
    let mut session = controller.sessions.welcome(20).await;
    session.snapshot().await;
    assert_eq!(policies(&script), ["lru"], "before the first session");
    assert!(undone(&agent, "failed") && on_disk(dir.path()), "it is still to be undone");
    agent.stop().await.unwrap();

    clock.0.store(6_000, Ordering::Relaxed);
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    script.state.lock().unwrap().tenants[0].policy = "s3fifo".into();
    script.state.lock().unwrap().look_takes = Duration::from_millis(250);
    let agent = restart(node, "apply_timeout_ms = 100\n");
    let mut session = controller.sessions.welcome(20).await;
    session.snapshot().await;
    until(|| policies(&script) == ["lru"]).await;
    agent.stop().await.unwrap();
    drop(session);
    assert_eq!(Store::open(dir.path()).unwrap().1.unconfirmed.waiting(), 0);
}

#[tokio::test]
async fn a_change_on_trial_is_not_undone_between_two_attempts_of_a_release() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    script.state.lock().unwrap().release_fails = 1;
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(20).await;
    session.plan(wire::Plan { lease_ms: 50, ..trial(1, 1, 1_000) }).await;
    session.ack().await;
    // The second attempt comes after the time of the trial.
    until(|| script.released() == 2).await;
    assert_eq!(policies(&script), ["s3fifo"], "what was released stays so");
    agent.stop().await.unwrap();
}
