// SPDX-License-Identifier: Apache-2.0
//! The agent itself. Once per interval it observes its node and sends a snapshot, and it carries
//! out the controller's plans. Without a controller it goes on observing, and the last plan stays
//! in force.

mod book;
pub mod clock;
mod node_thread;
mod plans;
pub mod signals;
pub mod state;
pub mod unconfirmed;
mod undo;
mod watchdog;

use crate::config::{Config, Times};
use crate::error::{Error, Result};
use crate::exporter::{self, Shared};
use crate::node::{Node, Observation, Pace};
use crate::session::backoff::Backoff;
use crate::session::dial::Dial;
use crate::session::outgoing::{MAX_MESSAGE_BYTES, Outgoing};
use crate::session::{DOWN_QUEUE, Down, Session, Up};
use crate::wire;
use book::Book;
use clock::Clock;
use node_thread::{Answer, NoAnswer, NodeThread};
use state::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use watchdog::Watchdog;

/// The interval until the controller sets one.
const FIRST_INTERVAL: Duration = Duration::from_secs(1);
/// The longest wait for the session and the node at the end.
const ENDING: Duration = Duration::from_secs(2);

/// A function that opens a node.
pub type OpenNode = Box<dyn FnOnce() -> Result<Box<dyn Node>> + Send>;

/// The parts of an agent besides its configuration.
pub struct Parts<D> {
    /// Opens the node. This may change the node already, so only the agent that holds the lock of
    /// the state calls it.
    pub node: OpenNode,
    /// Connects to the controller.
    pub dial: D,
    /// Wall time, for leases.
    pub clock: Arc<dyn Clock>,
    /// Random numbers from 0 to 1, for pauses.
    pub random: Box<dyn FnMut() -> f64 + Send>,
    /// True when the agent is to end.
    pub stop: watch::Receiver<bool>,
    /// The agent's counts and its last observation.
    pub shared: Arc<Shared>,
}

/// Runs an agent until it is stopped. Policies and limits stay as they are.
///
/// # Errors
/// Returns an error if going on would be useless: the state cannot be read, or the node ended or
/// hangs.
pub async fn run<D: Dial>(config: &Config, parts: Parts<D>) -> Result<()> {
    let metrics = Arc::clone(&parts.shared.metrics);
    let opened = Store::open(&config.state_dir)?;
    let node = (parts.node)()?;
    let book = Book::open(opened, &node.identity().boot, parts.clock, Arc::clone(&metrics));
    let exporter = match config.metrics {
        Some(address) => Some(exporter::listen(address, Arc::clone(&parts.shared)).await?),
        None => None,
    };
    let (hello, say_hello) = watch::channel(hello(config, node.as_ref(), &book));
    let pace = node.pace();
    let (node, end) = NodeThread::start(node, config.times.tick)?;
    let (down, events) = mpsc::channel(DOWN_QUEUE);
    let mut daemon = Daemon {
        times: config.times,
        pace,
        node,
        book,
        hello,
        stop: parts.stop,
        shared: parts.shared,
        interval: FIRST_INTERVAL,
        next_look: None,
        late_look: None,
        up: None,
        sequence: 0,
        named: Vec::new(),
        watchdog: Watchdog::new(config.times.stuck),
    };
    daemon.watchdog.ready();
    daemon.prepare().await?;
    let session = Session {
        dial: parts.dial,
        times: config.times,
        hello: say_hello,
        down,
        backoff: Backoff::new(config.times.reconnect_max, parts.random),
        outgoing: Outgoing::new(MAX_MESSAGE_BYTES),
        metrics,
    };
    let session = tokio::spawn(session.run());
    let ended = daemon.run(events, end).await;
    let _ = timeout(ENDING, session).await;
    if let Some(exporter) = exporter {
        exporter.abort();
    }
    ended
}

fn hello(config: &Config, node: &dyn Node, book: &Book) -> wire::Hello {
    let identity = node.identity();
    wire::Hello {
        node: config.node.clone(),
        agent_version: env!("CARGO_PKG_VERSION").into(),
        kind: identity.kind.into(),
        kernel: identity.kernel,
        capabilities: identity.capabilities.into_iter().map(Into::into).collect(),
        policies: identity.policies,
        budget_bytes: 0,
        last_epoch: book.state().last_epoch,
        incarnation: book.state().incarnation,
        adopted: node.adopted(),
    }
}

/// The agent's main loop.
struct Daemon {
    times: Times,
    pace: Pace,
    node: NodeThread,
    book: Book,
    hello: watch::Sender<wire::Hello>,
    stop: watch::Receiver<bool>,
    shared: Arc<Shared>,
    interval: Duration,
    /// When the node is observed next. In lockstep, this is `None` while there is nothing to
    /// observe: virtual time stands still without a plan.
    next_look: Option<Instant>,
    /// An observation that goes on after its time-out, unless the node was changed since it began.
    late_look: Option<Answer<Result<Observation>>>,
    up: Option<mpsc::Sender<Up>>,
    /// Number of the last snapshot of this session.
    sequence: u64,
    /// The named tasks that the node knows.
    named: Vec<wire::NamedTasks>,
    watchdog: Watchdog,
}

impl Daemon {
    /// Work before the first session: an overdue release, a first observation, and overdue
    /// rollbacks.
    async fn prepare(&mut self) -> Result<()> {
        if self.book.lease_until().is_some_and(|until| until <= Instant::now()) {
            self.on_lease_end().await;
        }
        self.next_look = Some(Instant::now());
        self.look_when_due().await?;
        self.undo_overdue().await;
        Ok(())
    }

    async fn run(
        mut self,
        mut events: mpsc::Receiver<Down>,
        mut end: oneshot::Receiver<Error>,
    ) -> Result<()> {
        let result = loop {
            if *self.stop.borrow() {
                break Ok(());
            }
            let turn = tokio::select! {
                biased;
                _ = self.stop.changed() => break Ok(()),
                ended = &mut end => break Err(why(ended)),
                () = at(self.book.lease_until()) => { self.on_lease_end().await; Ok(()) }
                Some(event) = events.recv() => self.on_event(event).await,
                () = at(self.next_look) => self.look_and_undo().await,
                () = at(self.watchdog.due()) => Ok(()),
                () = tokio::time::sleep(self.times.stuck) => Ok(()),
            };
            let alive = turn.and_then(|()| self.check_alive());
            if let Err(error) = alive {
                // If the thread has ended, its own reason says more than this error.
                break Err(end.try_recv().unwrap_or(error));
            }
        };
        // The session ends when nobody receives its events, and the thread when its handle is
        // dropped.
        drop((events, self));
        if result.is_ok() {
            let _ = timeout(ENDING, end).await;
        }
        result
    }

    async fn on_event(&mut self, event: Down) -> Result<()> {
        match event {
            Down::Connected { interval, up } => {
                (self.interval, self.up, self.sequence) = (interval, Some(up), 0);
                self.next_look = Some(Instant::now());
                Ok(())
            }
            Down::Lost => {
                self.up = None;
                Ok(())
            }
            Down::Plan(plan) => {
                let answered = plan.snapshot;
                self.on_plan(plan).await?;
                match self.pace {
                    Pace::Lockstep if answered >= self.sequence => self.step().await,
                    _ => Ok(()),
                }
            }
        }
    }

    /// Advances virtual time by one interval.
    async fn step(&mut self) -> Result<()> {
        let interval = self.interval;
        let ticked = self.node.call("a tick", self.times.stuck, move |node| node.tick(interval));
        ticked.await.map_err(|e| Error::Node(format!("did not tick: {e}")))??;
        self.next_look = Some(Instant::now());
        Ok(())
    }

    async fn look_and_undo(&mut self) -> Result<()> {
        self.look_when_due().await?;
        self.undo_overdue().await;
        Ok(())
    }

    /// Observes the node, or waits again for an observation that was not finished in time: on a
    /// slow host, a late observation is better than none.
    async fn look(&mut self) -> std::result::Result<Result<Observation>, NoAnswer> {
        let (time, began) = (self.times.apply, std::time::Instant::now());
        let mut look = match self.late_look.take() {
            Some(look) => look,
            None => self.node.begin("a look", time, |node| node.observe()).await?,
        };
        let seen = look.within(began, time).await;
        if matches!(seen, Err(NoAnswer::TimedOut(_))) {
            self.late_look = Some(look);
        }
        seen
    }

    /// Observes the node and sends a snapshot if it is time.
    async fn look_when_due(&mut self) -> Result<()> {
        let began = Instant::now();
        let Some(due) = self.next_look.filter(|due| *due <= began) else { return Ok(()) };
        let seen = self.look().await;
        // The next time counts from when this observation was due, which avoids drift; after a long
        // delay it counts from now, which avoids a burst.
        let (next, now) = (due + self.interval, Instant::now());
        self.next_look = Some(if next > now { next } else { now + self.interval });
        let seen = match seen {
            Ok(seen) => seen?,
            Err(no_answer) => {
                self.shared.metrics.observations_failed.inc();
                tracing::warn!("nothing seen: {no_answer}");
                return Ok(());
            }
        };
        self.shared.metrics.observe_seconds.observe(began.elapsed().as_secs_f64());
        let mut seen = seen;
        let now_ms = self.now_ms(&seen);
        self.tell_unconfirmed(&mut seen.tenants, now_ms);
        let seen = Arc::new(seen);
        self.hello.send_if_modified(|hello| {
            std::mem::replace(&mut hello.budget_bytes, seen.budget_bytes) != seen.budget_bytes
        });
        self.shared.saw(Arc::clone(&seen), self.interval);
        if self.pace == Pace::Lockstep {
            self.next_look = None;
        }
        let Some(up) = &self.up else { return Ok(()) };
        match up.try_send(Up::Observation(self.sequence + 1, seen)) {
            Ok(()) => self.sequence += 1,
            Err(_) => {
                self.shared.metrics.snapshots_dropped.inc();
            }
        }
        Ok(())
    }

    /// Returns an error if the node hangs. A call that never returns cannot be ended from here,
    /// only by a restart.
    fn check_alive(&mut self) -> Result<()> {
        if self.node.busy_for() < self.times.stuck {
            self.watchdog.alive();
            return Ok(());
        }
        Err(Error::Node(format!("does not answer: {}", self.node.busy_with())))
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn why(ended: std::result::Result<Error, oneshot::error::RecvError>) -> Error {
    ended.unwrap_or_else(|_| Error::Node("ended without a reason".into()))
}
