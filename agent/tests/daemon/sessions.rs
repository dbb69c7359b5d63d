// SPDX-License-Identifier: Apache-2.0
//! What is said in a session.

use crate::agent::{Agent, plan};
use crate::controller::{Controller, in_time, until};
use crate::node::{ScriptedNode, tenant};
use cachepilot_agent::daemon::clock::SystemClock;
use cachepilot_agent::node::Pace;
use cachepilot_agent::wire::{self, controller_message::Message as Heard, result::Outcome};
use std::sync::Arc;
use tonic::transport::Server;

#[tokio::test]
async fn hello_identifies_the_node() {
    let controller = Controller::start().await;
    let (node, _) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "");
    let hello = controller.sessions.next().await.hello;
    assert_eq!((hello.node.as_str(), hello.kind.as_str()), ("test", "simulated"));
    assert_eq!((hello.kernel.as_str(), hello.agent_version.as_str()), ("scripted", "0.1.0"));
    assert_eq!(hello.capabilities, ["policies", "limits"]);
    assert_eq!((hello.policies, hello.adopted), (vec!["s3fifo".into()], vec!["/a".into()]));
    assert_eq!((hello.budget_bytes, hello.last_epoch), (1 << 34, 0));
    assert!(hello.incarnation > 0);
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn a_snapshot_comes_every_interval_and_curves_when_they_changed() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(20).await;
    for sequence in 1..=5 {
        let snapshot = session.snapshot().await;
        assert_eq!((snapshot.sequence, snapshot.tenants.len()), (sequence, 3));
        let curves = snapshot.tenants.iter().filter(|tenant| tenant.curves.is_some()).count();
        assert_eq!(curves, if sequence == 1 { 3 } else { 0 });
        assert!(snapshot.tenants.iter().all(|tenant| tenant.curves_generation == 1));
    }
    script.state.lock().unwrap().tenants.push(tenant("/d", 4));
    let new = loop {
        let snapshot = session.snapshot().await;
        if snapshot.tenants.len() == 4 {
            break snapshot;
        }
    };
    let curves: Vec<bool> = new.tenants.iter().map(|tenant| tenant.curves.is_some()).collect();
    assert_eq!(curves, [false, false, false, true]);
    agent.stop().await.unwrap();
    assert!(script.observed() >= 6);
}

#[tokio::test]
async fn a_plan_is_applied_in_order_and_reported_per_tenant() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let outcomes = [("/b", (Outcome::Gone, "no such cgroup")), ("/c", (Outcome::Failed, "EBUSY"))];
    script.state.lock().unwrap().outcomes = outcomes.map(|(c, o)| (c.to_owned(), o)).into();
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(20).await;
    let snapshot = session.snapshot().await;
    session.plan(plan(7, snapshot.sequence, &["/b", "/a", "/c"])).await;
    let ack = session.ack().await;
    assert_eq!((ack.epoch, ack.refused.as_str()), (7, ""));
    let results: Vec<_> = ack.results.iter().map(|r| (r.cgroup.as_str(), r.outcome())).collect();
    assert_eq!(results, [("/b", Outcome::Gone), ("/a", Outcome::Applied), ("/c", Outcome::Failed)]);
    assert_eq!(ack.results[2].reason, "EBUSY");
    assert_eq!(script.applied(), ["/b", "/a", "/c"]);
    let text = agent.shared.text().unwrap();
    assert!(text.contains("cachepilot_agent_epoch 7\n"), "{text}");
    assert!(text.contains("cachepilot_agent_actions_total{outcome=\"gone\"} 1\n"), "{text}");
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn an_old_epoch_is_refused_whole_also_after_a_restart() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(20).await;
    let first = session.hello.incarnation;
    for (epoch, refused) in
        [(5, ""), (5, "epoch 5 is not newer than 5"), (4, "epoch 4 is not newer than 5"), (6, "")]
    {
        session.plan(plan(epoch, 1, &["/a"])).await;
        let ack = session.ack().await;
        assert_eq!((ack.epoch, ack.refused.as_str()), (epoch, refused));
        assert_eq!(ack.results.len(), usize::from(refused.is_empty()));
    }
    assert_eq!(script.applied().len(), 2);
    let dir = Arc::clone(&agent.dir);
    agent.stop().await.unwrap();

    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let again = Agent::restart(node, controller.address, "", dir, Arc::new(SystemClock));
    let mut session = controller.sessions.welcome(20).await;
    assert_eq!(session.hello.last_epoch, 6);
    assert!(session.hello.incarnation > first);
    session.plan(plan(6, 1, &["/a"])).await;
    assert_eq!(session.ack().await.refused, "epoch 6 is not newer than 6");
    assert!(script.applied().is_empty());
    again.stop().await.unwrap();
}

#[tokio::test]
async fn an_epoch_that_cannot_be_stored_is_refused() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(20).await;
    let blocker = agent.dir.path().join("agent.new");
    std::fs::create_dir(&blocker).unwrap();
    session.plan(plan(1, 1, &["/a"])).await;
    let ack = session.ack().await;
    assert!(ack.refused.contains("cannot be stored") && ack.results.is_empty(), "{ack:?}");
    assert!(script.applied().is_empty());
    std::fs::remove_dir(&blocker).unwrap();
    session.plan(plan(2, 1, &["/a"])).await;
    assert_eq!(session.ack().await.refused, "");
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn the_agent_comes_back_when_its_controller_does() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(20).await;
    session.plan(plan(3, 1, &["/a"])).await;
    session.ack().await;
    let address = controller.kill().await;
    drop(session);
    // Without a controller it goes on looking, and what the plan did stays.
    let (failed, observed) = (agent.shared.metrics.sessions_failed.get(), script.observed());
    until(|| agent.shared.metrics.sessions_failed.get() > failed + 5).await;
    until(|| script.observed() > observed + 2).await;
    assert_eq!((script.released(), agent.shared.metrics.connected.get()), (0, 0));

    let controller = Controller::start_at(address, Server::builder()).await;
    let mut session = controller.sessions.welcome(20).await;
    assert_eq!(session.hello.last_epoch, 3);
    let snapshot = session.snapshot().await;
    assert_eq!(snapshot.sequence, 1);
    assert!(snapshot.tenants.iter().all(|tenant| tenant.curves.is_some()));
    session.plan(plan(4, 1, &["/b"])).await;
    assert_eq!(session.ack().await.refused, "");
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn a_plan_that_does_not_come_ends_the_session() {
    let controller = Controller::start().await;
    let (node, _) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "plan_timeout_ms = 1000\n");
    let mut silent = controller.sessions.welcome(20).await;
    while silent.hear().await.is_some() {}
    assert_eq!(agent.shared.metrics.plans_missed.get(), 1);

    let mut speaking = controller.sessions.welcome(20).await;
    for epoch in 1..=20 {
        let sequence = speaking.snapshot().await.sequence;
        speaking.plan(plan(epoch, sequence, &[])).await;
    }
    assert_eq!(agent.shared.metrics.plans_missed.get(), 1);
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn a_session_that_begins_wrongly_is_not_one() {
    let controller = Controller::start().await;
    let (node, _) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "connect_timeout_ms = 1000\n");
    for interval_ms in [0, 9, 600_001] {
        let mut session = controller.sessions.welcome(interval_ms).await;
        assert!(session.hear().await.is_none());
    }
    let mut early = controller.sessions.next().await;
    early.plan(plan(1, 1, &["/a"])).await;
    assert!(early.hear().await.is_none());
    let mut silent = controller.sessions.next().await;
    assert!(silent.hear().await.is_none());
    let mut twice = controller.sessions.welcome(20).await;
    twice.say(Heard::Welcome(wire::Welcome { interval_ms: 20 })).await;
    in_time(async { while twice.hear().await.is_some() {} }).await;
    assert_eq!(agent.shared.metrics.sessions.get(), 1);
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn a_thousand_tenants_with_all_their_curves_go_through_one_message() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let curves = wire::Curves {
        generation: 1,
        policies: (0..16).map(|p| format!("policy_number_{p}")).collect(),
        sizes_bytes: (1..=16).map(|s| s << 30).collect(),
        miss_ratio: vec![0.5; 256],
        error_bar: vec![0.1; 256],
        step_bar: vec![0.1; 256],
        ..Default::default()
    };
    let many = (1..=1000).map(|id| wire::Tenant {
        curves: Some(curves.clone()),
        ..tenant(&format!("/kubepods.slice/pod-{id:032x}"), id)
    });
    script.state.lock().unwrap().tenants = many.collect();
    let agent = Agent::start(node, controller.address, "");
    // The server takes what gRPC servers take by default: 4 MiB.
    let mut session = controller.sessions.welcome(20).await;
    let snapshot = session.snapshot().await;
    assert_eq!(snapshot.tenants.iter().filter(|tenant| tenant.curves.is_some()).count(), 1000);
    assert_eq!(agent.shared.metrics.curves_deferred.get(), 0);
    agent.stop().await.unwrap();
}

#[tokio::test]
async fn names_of_tasks_are_passed_to_the_node_when_they_change() {
    let controller = Controller::start().await;
    let (node, script) = ScriptedNode::new(Pace::RealTime);
    let agent = Agent::start(node, controller.address, "");
    let mut session = controller.sessions.welcome(20).await;
    let named = |names: &[&str]| wire::NamedTasks {
        cgroup: "/a".into(),
        cgroup_id: 1,
        names: names.iter().map(|&name| name.into()).collect(),
    };
    let plans = [vec![named(&["a*"])], vec![named(&["a*"])], vec![named(&["b"])], vec![]];
    for (epoch, named_tasks) in (1..).zip(plans) {
        session.plan(wire::Plan { named_tasks, ..plan(epoch, 1, &[]) }).await;
        assert_eq!(session.ack().await.refused, "");
    }
    let told = script.state.lock().unwrap().named.clone();
    assert_eq!(told, [vec![named(&["a*"])], vec![named(&["b"])], vec![]]);
    agent.stop().await.unwrap();
}
