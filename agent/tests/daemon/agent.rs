// SPDX-License-Identifier: Apache-2.0
//! An agent that runs in a test, with short times.

use crate::controller::in_time;
use cachepilot_agent::Result;
use cachepilot_agent::config::Config;
use cachepilot_agent::daemon::clock::{Clock, SystemClock};
use cachepilot_agent::daemon::{Parts, run};
use cachepilot_agent::exporter::Shared;
use cachepilot_agent::node::Node;
use cachepilot_agent::session::dial::Dialer;
use cachepilot_agent::wire;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A clock that a test can set; it stands still.
#[derive(Debug, Default)]
pub struct SetClock(pub AtomicU64);

impl Clock for SetClock {
    fn wall(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// Times of tests, but for those in `more`.
pub fn config(state_dir: &Path, controller: SocketAddr, more: &str) -> Config {
    let times = [
        ("tick_ms", "10"),
        ("connect_timeout_ms", "2000"),
        ("apply_timeout_ms", "500"),
        ("plan_timeout_ms", "60000"),
        ("reconnect_max_ms", "20"),
    ];
    let mut text = format!(
        "node = \"test\"\nmetrics = \"\"\nstate_dir = {state_dir:?}\ncontroller = \"http://{controller}\"\n"
    );
    for (key, value) in times.iter().filter(|(key, _)| !more.contains(key)) {
        text += &format!("{key} = {value}\n");
    }
    Config::parse(Path::new("test.toml"), &(text + more)).unwrap()
}

/// An agent in a task.
pub struct Agent {
    pub shared: Arc<Shared>,
    pub dir: Arc<TempDir>,
    /// Whether it has opened its node.
    pub opened: Arc<AtomicBool>,
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<()>>,
}

impl Agent {
    pub fn start(node: Box<dyn Node>, controller: SocketAddr, more: &str) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        Self::restart(node, controller, more, dir, Arc::new(SystemClock))
    }

    /// An agent over the state of another.
    pub fn restart(
        node: Box<dyn Node>,
        controller: SocketAddr,
        more: &str,
        dir: Arc<TempDir>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let config = config(dir.path(), controller, more);
        Self::start_with(node, config, dir, clock)
    }

    pub fn start_with(
        node: Box<dyn Node>,
        config: Config,
        dir: Arc<TempDir>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = watch::channel(false);
        let opened = Arc::new(AtomicBool::new(false));
        let opening = Arc::clone(&opened);
        let parts = Parts {
            node: Box::new(move || {
                opening.store(true, Ordering::Relaxed);
                Ok(node)
            }),
            dial: Dialer::new(&config),
            clock,
            random: Box::new(|| 0.5),
            stop: stopped,
            shared: Arc::clone(&shared),
        };
        let task = tokio::spawn(async move { run(&config, parts).await });
        Self { shared, dir, opened, stop, task }
    }

    /// Ends it as SIGTERM does.
    pub async fn stop(self) -> Result<()> {
        self.stop.send_replace(true);
        self.ended().await
    }

    /// Waits for its end.
    pub async fn ended(self) -> Result<()> {
        in_time(self.task).await.unwrap()
    }
}

/// A plan without a lease that gives the policy `s3fifo` to tenants of these names.
pub fn plan(epoch: u64, snapshot: u64, tenants: &[&str]) -> wire::Plan {
    let action = |&cgroup: &&str| wire::Action {
        cgroup: cgroup.into(),
        cgroup_id: 1,
        policy: Some("s3fifo".into()),
        limit_bytes: Some(1 << 30),
        ..Default::default()
    };
    let actions = tenants.iter().map(action).collect();
    wire::Plan { epoch, snapshot, actions, ..wire::Plan::default() }
}
