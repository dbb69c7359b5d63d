// SPDX-License-Identifier: Apache-2.0
//! The thread that owns the node. Calls of a node block, some of them for long in the kernel. They
//! are awaited here with a deadline, so that a call that hangs blocks the node but not the agent.

use crate::error::Error;
use crate::node::{Node, Pace};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

type Job = Box<dyn FnOnce(&mut dyn Node) + Send>;

/// What the thread is doing, and since when.
type Doing = Arc<Mutex<Option<(String, Instant)>>>;

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The call was not begun.
    #[error("the node is still busy: {0}")]
    Busy(String),
    /// The call was begun and goes on.
    #[error("no answer for {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The thread has ended.
    #[error("the node's thread has ended")]
    Ended,
}

/// The future result of a call that was begun.
pub struct Answer<T>(oneshot::Receiver<T>);

impl<T> Answer<T> {
    /// Waits for the result until `time` has passed since `began`. After a time-out it can be
    /// awaited again.
    ///
    /// # Errors
    /// Returns [`NoAnswer`].
    pub async fn within(&mut self, began: Instant, time: Duration) -> Result<T, NoAnswer> {
        match timeout(time.saturating_sub(began.elapsed()), &mut self.0).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) => Err(NoAnswer::Ended),
            Err(_) => Err(NoAnswer::TimedOut(time)),
        }
    }
}

/// A handle on the thread. When it is dropped, the thread ends after its last call returns.
pub struct NodeThread {
    jobs: SyncSender<Job>,
    // One job at a time: a job that was given up must return before the next one is handed over.
    turn: Arc<Semaphore>,
    doing: Doing,
}

impl NodeThread {
    /// Starts the thread. In real time, it ticks by itself every `tick`. The receiver yields the
    /// reason when the thread ends with an error.
    ///
    /// # Errors
    /// Returns [`Error::Node`] if the system cannot create a thread.
    pub fn start(
        node: Box<dyn Node>,
        tick: Duration,
    ) -> Result<(Self, oneshot::Receiver<Error>), Error> {
        let (jobs, queue) = sync_channel(1);
        let (ended, end) = oneshot::channel();
        let doing = Doing::default();
        let worker = Worker { node, queue, doing: Arc::clone(&doing) };
        let body = move || {
            if let Err(error) = worker.run(tick) {
                // Nobody receives it when the agent ends.
                let _ = ended.send(error);
            }
        };
        let thread = std::thread::Builder::new().name("node".into());
        thread.spawn(body).map_err(|e| Error::Node(format!("has no thread: {e}")))?;
        Ok((Self { jobs, turn: Arc::new(Semaphore::new(1)), doing }, end))
    }

    /// Runs `work` on the node and waits for at most `time`, with the wait for its turn.
    ///
    /// # Errors
    /// Returns [`NoAnswer`]. A call that was begun goes on, and its result is lost.
    pub async fn call<T: Send + 'static>(
        &self,
        what: &str,
        time: Duration,
        work: impl FnOnce(&mut dyn Node) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let began = Instant::now();
        let mut answer = self.begin(what, time, work).await?;
        answer.within(began, time).await
    }

    /// Begins `work` on the node when it is its turn, for which this waits for at most `time`.
    ///
    /// # Errors
    /// Returns [`NoAnswer`] if nothing was begun.
    pub async fn begin<T: Send + 'static>(
        &self,
        what: &str,
        time: Duration,
        work: impl FnOnce(&mut dyn Node) -> T + Send + 'static,
    ) -> Result<Answer<T>, NoAnswer> {
        let turn = timeout(time, Arc::clone(&self.turn).acquire_owned()).await;
        let Ok(turn) = turn else { return Err(NoAnswer::Busy(self.busy_with())) };
        let turn = turn.map_err(|_| NoAnswer::Ended)?;
        let (done, answer) = oneshot::channel();
        let job = self.job(what, turn, move |node| {
            // Nobody receives the result after a time-out.
            let _ = done.send(work(node));
        });
        self.jobs.try_send(job).map_err(|_| NoAnswer::Ended)?;
        Ok(Answer(answer))
    }

    /// How long the present call has been running; zero if none is.
    pub fn busy_for(&self) -> Duration {
        let doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
        doing.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }

    /// A description of the present call.
    pub fn busy_with(&self) -> String {
        let doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
        let words = |(what, since): &(String, Instant)| {
            format!("{what} for {} ms", since.elapsed().as_millis())
        };
        doing.as_ref().map_or_else(|| "nothing".into(), words)
    }

    fn job(
        &self,
        what: &str,
        turn: OwnedSemaphorePermit,
        work: impl FnOnce(&mut dyn Node) + Send + 'static,
    ) -> Job {
        let (what, doing) = (what.to_owned(), Arc::clone(&self.doing));
        Box::new(move |node| {
            note(&doing, Some(&what));
            work(node);
            note(&doing, None);
            drop(turn);
        })
    }
}

struct Worker {
    node: Box<dyn Node>,
    queue: Receiver<Job>,
    doing: Doing,
}

impl Worker {
    /// Runs until the handle is dropped or a tick fails.
    fn run(mut self, tick: Duration) -> Result<(), Error> {
        let real_time = self.node.pace() == Pace::RealTime;
        let mut ticked = Instant::now();
        loop {
            let pause = tick.saturating_sub(ticked.elapsed());
            // Without time of its own, the node has nothing to do except its jobs.
            let pause = if real_time { pause } else { Duration::from_secs(3600) };
            match self.queue.recv_timeout(pause) {
                Ok(job) => job(self.node.as_mut()),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if real_time && ticked.elapsed() >= tick {
                let elapsed = ticked.elapsed();
                ticked = Instant::now();
                note(&self.doing, Some("a tick"));
                self.node.tick(elapsed)?;
                note(&self.doing, None);
            }
        }
    }
}

fn note(doing: &Doing, what: Option<&str>) {
    *doing.lock().unwrap_or_else(PoisonError::into_inner) =
        what.map(|what| (what.to_owned(), Instant::now()));
}
