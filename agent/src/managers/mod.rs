// SPDX-License-Identifier: Apache-2.0
//! Who else manages the memory of this host's cgroups, and what they call them: systemd and its
//! out-of-memory daemon, the kubelet and the container runtime, autoscalers and others.
//!
//! All of it is asked for by a thread of its own, so that a bus or a runtime that hangs delays
//! nothing else.

#[cfg(test)]
pub(crate) mod played;
pub mod pods;
pub mod programs;
pub mod systemd;
mod watch;

use crate::error::{Error, Result};
use crate::wire::Workload;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use systemd::Systemd;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// What was found of someone else who manages memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Who, in one word.
    pub key: String,
    /// Who does what, for a person.
    pub message: String,
}

/// How the others are reached.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `/proc`, or a folder that stands for it.
    pub proc: PathBuf,
    /// Whether limits of systemd's units are set through systemd.
    pub systemd: bool,
    /// Sockets at which the container runtime may listen; the first that is there is asked.
    pub sockets: Vec<PathBuf>,
}

/// What is known of one tenant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OfTenant {
    /// Who else manages it.
    pub findings: Vec<Finding>,
    /// What Kubernetes calls it.
    pub workload: Option<Workload>,
}

/// All that was found.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Of the host.
    pub host: Vec<Finding>,
    /// By cgroup.
    pub tenants: BTreeMap<String, OfTenant>,
}

#[derive(Debug, Default)]
struct Shared {
    tenants: Mutex<Arc<Vec<String>>>,
    seen: Mutex<Arc<Seen>>,
}

/// Asks the others, in the background.
#[derive(Debug)]
pub struct Managers {
    shared: Arc<Shared>,
    systemd: Option<Arc<Systemd>>,
    runtime: Handle,
    /// The thread ends when this is dropped.
    _end: oneshot::Sender<()>,
}

impl Managers {
    /// Begins to ask.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn start(settings: Settings) -> Result<Self> {
        let systemd = settings.systemd.then(|| Arc::new(Systemd::default()));
        Self::with(settings, systemd)
    }

    /// Begins to ask, of systemd this one.
    ///
    /// # Errors
    /// As [`Managers::start`].
    pub fn with(settings: Settings, systemd: Option<Arc<Systemd>>) -> Result<Self> {
        const WHAT: &str = "a thread that asks who else manages memory";
        let (end, ended) = oneshot::channel();
        let (started, starts) = sync_channel(1);
        let shared = Arc::<Shared>::default();
        let (asked, watched) = (systemd.clone(), Arc::clone(&shared));
        let watch = move || {
            // Made and dropped by this thread: the one that starts it may run a runtime itself.
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(error))),
            };
            let _ = started.send(Ok(runtime.handle().clone()));
            runtime.block_on(async {
                tokio::select! {
                    () = watch::run(&settings, asked.as_deref(), &watched) => {}
                    _ = ended => {}
                }
            });
            runtime.shutdown_background();
        };
        thread::Builder::new().name("managers".into()).spawn(watch).map_err(Error::kernel(WHAT))?;
        let no_answer = || io::Error::other("it ended at once");
        let runtime = starts.recv().unwrap_or_else(|_| Err(no_answer()));
        let runtime = runtime.map_err(Error::kernel(WHAT))?;
        Ok(Self { shared, systemd, runtime, _end: end })
    }

    /// From now on these are the tenants, by cgroup.
    pub fn follow<'a>(&self, tenants: impl Iterator<Item = &'a str> + Clone) {
        let mut known = self.shared.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.iter().map(String::as_str).eq(tenants.clone()) {
            *known = Arc::new(tenants.map(Into::into).collect());
        }
    }

    /// What was found so far.
    #[must_use]
    pub fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Units of systemd, when limits are set through it.
    #[must_use]
    pub fn units(&self) -> Option<Units> {
        let systemd = Arc::clone(self.systemd.as_ref()?);
        Some(Units { systemd, runtime: self.runtime.clone() })
    }
}

/// Limits of units, for threads that may wait.
#[derive(Debug, Clone)]
pub struct Units {
    systemd: Arc<Systemd>,
    runtime: Handle,
}

impl Units {
    /// Sets the limit of a cgroup that is a unit; false where it is none, or systemd is not there.
    ///
    /// # Errors
    /// What systemd says, or that it does not answer in time.
    pub fn set_memory_high(&self, cgroup: &str, bytes: Option<u64>) -> io::Result<bool> {
        let (systemd, cgroup) = (Arc::clone(&self.systemd), cgroup.to_owned());
        self.wait(systemd::CALL_TIMEOUT, async move {
            let Some(unit) = systemd.unit_of(&cgroup).await? else { return Ok(false) };
            systemd.set_memory_high(&unit.name, bytes).await.map(|()| true)
        })
    }

    /// Asks to give a unit whose cgroup is gone its limit back, see [`Systemd::forget`].
    #[must_use]
    pub fn forget(&self, cgroup: &str, bytes: Option<u64>) -> Asked<bool> {
        let (systemd, cgroup) = (Arc::clone(&self.systemd), cgroup.to_owned());
        self.ask(async move { systemd.forget(&cgroup, bytes).await })
    }

    /// Asks on the thread of the managers.
    fn ask<T: Send + 'static>(
        &self,
        asking: impl Future<Output = zbus::Result<T>> + Send + 'static,
    ) -> Asked<T> {
        let (answered, answer) = sync_channel(1);
        self.runtime.spawn(async move { answered.send(asking.await) });
        Asked(answer)
    }

    /// The answer within `patience`. Threads that run a runtime may wait, too.
    fn wait<T: Send + 'static>(
        &self,
        patience: Duration,
        asking: impl Future<Output = zbus::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        let answer = self.ask(asking).answer(Instant::now() + patience);
        answer.unwrap_or_else(|| Err(no_answer()))
    }
}

fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "systemd does not answer")
}

/// What systemd was asked for.
#[derive(Debug)]
pub struct Asked<T>(Receiver<zbus::Result<T>>);

impl<T> Asked<T> {
    /// What systemd said, or that it never will. It is waited for `until` then; `None` when it has yet to say it.
    #[must_use]
    pub fn answer(&self, until: Instant) -> Option<io::Result<T>> {
        match self.0.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(answer)) => Some(Ok(answer)),
            Ok(Err(error)) => Some(Err(io::Error::other(format!("systemd: {error}")))),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(no_answer())),
        }
    }
}
