// SPDX-License-Identifier: Apache-2.0
//! Agents in processes of their own that end by a signal: SIGKILL amid plans, SIGTERM.

use crate::agent::{config, plan};
use crate::controller::{Controller, Conversation, in_time};
use crate::node::ScriptedNode;
use cachepilot_agent::daemon::clock::SystemClock;
use cachepilot_agent::daemon::signals::on_signals;
use cachepilot_agent::daemon::state::{State, Store};
use cachepilot_agent::daemon::{Parts, run};
use cachepilot_agent::exporter::Shared;
use cachepilot_agent::node::Pace;
use cachepilot_agent::session::dial::Dialer;
use cachepilot_agent::wire;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

const KILLS: u64 = 100;
const STATE_DIR: &str = "CACHEPILOT_TEST_STATE_DIR";
const CONTROLLER: &str = "CACHEPILOT_TEST_CONTROLLER";

/// An agent for the tests below, in a process of its own: this very program.
#[tokio::test]
#[ignore = "started by the tests below"]
async fn child() {
    let (Ok(dir), Ok(address)) = (std::env::var(STATE_DIR), std::env::var(CONTROLLER)) else {
        return;
    };
    let config = config(Path::new(&dir), address.parse().unwrap(), "");
    let (node, _) = ScriptedNode::new(Pace::RealTime);
    let parts = Parts {
        node: Box::new(|| Ok(node)),
        dial: Dialer::new(&config),
        clock: Arc::new(SystemClock),
        random: Box::new(|| 0.5),
        stop: on_signals().unwrap(),
        shared: Arc::new(Shared::default()),
    };
    run(&config, parts).await.unwrap();
}

fn start(dir: &Path, controller: SocketAddr) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::child", "--ignored"])
        .env(STATE_DIR, dir)
        .env(CONTROLLER, controller.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Sends plans until the connection breaks, and tells `done` of those that were done; the greatest
/// epoch sent, and the greatest acknowledged.
async fn plans(session: &mut Conversation, mut epoch: u64, done: &Notify) -> (u64, u64) {
    let mut acknowledged = 0;
    let tenants = ["/a", "/b", "/c"].repeat(50);
    for _ in 0..4 {
        epoch += 1;
        session.plan(wire::Plan { lease_ms: 3_600_000, ..plan(epoch, 1, &tenants) }).await;
    }
    while let Some(said) = session.hear().await {
        let wire::agent_message::Message::Ack(ack) = said else { continue };
        assert_eq!((ack.refused.as_str(), ack.results.len()), ("", 150));
        acknowledged = ack.epoch;
        done.notify_one();
        epoch += 1;
        session.plan(wire::Plan { lease_ms: 3_600_000, ..plan(epoch, 1, &tenants) }).await;
    }
    (epoch, acknowledged)
}

#[tokio::test]
async fn a_killed_agent_starts_again_and_never_goes_back() {
    let controller = Controller::start().await;
    let dir = tempfile::tempdir().unwrap();
    let (mut sent, mut done, mut incarnation) = (0, 0, 0);
    for kill in 0..KILLS {
        let mut child = start(dir.path(), controller.address);
        let mut session = controller.sessions.welcome(20).await;
        let hello = session.hello.clone();
        assert!(hello.incarnation > incarnation, "kill {kill}");
        assert!((done..=sent).contains(&hello.last_epoch), "kill {kill}: {hello:?}");
        incarnation = hello.incarnation;
        let one_done = Notify::new();
        let killed = async {
            // Anywhere in the first plans, and every other time after one of them at least.
            if kill % 2 == 1 {
                one_done.notified().await;
            }
            tokio::time::sleep(Duration::from_micros(kill * 200)).await;
            child.kill().unwrap();
            child.wait().unwrap();
        };
        let next = sent.max(hello.last_epoch);
        let (_, (last, acknowledged)) =
            in_time(async { tokio::join!(killed, plans(&mut session, next, &one_done)) }).await;
        (sent, done) = (last, done.max(acknowledged).max(hello.last_epoch));
        let state = Store::open(dir.path()).unwrap().1;
        assert!((done..=sent).contains(&state.last_epoch), "kill {kill}: {state:?}");
    }
    let State { last_epoch, lease, .. } = Store::open(dir.path()).unwrap().1;
    assert!(last_epoch > 0 && done > 0 && lease.is_some_and(|lease| lease.length_ms == 3_600_000));
}

#[tokio::test]
async fn sigterm_ends_an_agent_cleanly() {
    let controller = Controller::start().await;
    let dir = tempfile::tempdir().unwrap();
    let mut child = start(dir.path(), controller.address);
    let mut session = controller.sessions.welcome(20).await;
    session.plan(wire::Plan { lease_ms: 3_600_000, ..plan(8, 1, &["/a"]) }).await;
    assert_eq!(session.ack().await.epoch, 8);
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: the process is a child of this one and has not been waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    while session.hear().await.is_some() {}
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap());
    assert!(in_time(ended).await.unwrap().success());
    let state = Store::open(dir.path()).unwrap().1;
    assert!(state.last_epoch == 8 && state.lease.is_some(), "{state:?}");
}
