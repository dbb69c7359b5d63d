// SPDX-License-Identifier: Apache-2.0
//! Full simulation of policies over a trace: every policy at every size in one pass.

use crate::error::{Error, Result};
use crate::policy::{Instance, InstanceConfig, Policy, Requests, Stats};
use crate::trace::{Chunk, TraceReader};
use rayon::prelude::*;
use std::time::{Duration, Instant};

/// One simulated cache: a policy at a size.
#[derive(Debug, Clone)]
pub struct Job {
    /// The policy.
    pub policy: &'static Policy,
    /// Capacity, batch, seed and tunables.
    pub config: InstanceConfig,
}

/// What became of a [`Job`].
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The job.
    pub job: Job,
    /// Counts over the whole trace.
    pub stats: Stats,
    /// Time spent in this simulation alone, without reading the trace.
    pub time: Duration,
}

impl Outcome {
    /// Share of requests that missed, 0 to 1.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        self.stats.misses as f64 / self.stats.requests.max(1) as f64
    }
}

struct Running {
    job: Job,
    instance: Instance,
    time: Duration,
}

impl Running {
    fn new(job: &Job) -> Result<Self> {
        let instance = Instance::new(job.policy, &job.config)?;
        Ok(Self { job: job.clone(), instance, time: Duration::ZERO })
    }

    fn run(&mut self, requests: Requests<'_>) -> Result<()> {
        let start = Instant::now();
        self.instance.run(requests, None)?;
        self.time += start.elapsed();
        Ok(())
    }
}

impl Chunk {
    /// The chunk as a run of requests.
    #[must_use]
    pub fn requests(&self) -> Requests<'_> {
        Requests { keys: &self.keys, tasks: &self.tasks, times_ns: &self.times_ns }
    }
}

/// A pool of `threads` workers, 0 for one per core.
///
/// # Errors
/// [`Error::Argument`] when the system refuses the threads.
pub fn thread_pool(threads: usize) -> Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|e| Error::argument("threads", e.to_string()))
}

/// Many jobs that advance over the same requests.
pub struct Simulation {
    running: Vec<Running>,
    pool: rayon::ThreadPool,
}

impl Simulation {
    /// Cold caches for every job, simulated `threads` at a time (0: one per core).
    ///
    /// # Errors
    /// Those of [`Instance::new`] and [`thread_pool`].
    pub fn new(jobs: &[Job], threads: usize) -> Result<Self> {
        let running = jobs.iter().map(Running::new).collect::<Result<Vec<_>>>()?;
        Ok(Self { running, pool: thread_pool(threads)? })
    }

    /// Runs the next requests through every job.
    ///
    /// # Errors
    /// Those of [`Instance::run`].
    pub fn run(&mut self, requests: Requests<'_>) -> Result<()> {
        let running = &mut self.running;
        self.pool.install(|| running.par_iter_mut().try_for_each(|r| r.run(requests)))
    }

    /// What became of the jobs, in their order.
    #[must_use]
    pub fn outcomes(self) -> Vec<Outcome> {
        let outcome = |r: Running| Outcome { stats: r.instance.stats(), job: r.job, time: r.time };
        self.running.into_iter().map(outcome).collect()
    }
}

/// Runs every job over the trace and calls `progress` with the share of the trace read after each
/// chunk; an error from it stops the simulation. Memory: the instances and one chunk.
///
/// # Errors
/// Those of the reader, of [`Simulation`] and of `progress`.
pub fn simulate(
    reader: &mut dyn TraceReader,
    jobs: &[Job],
    threads: usize,
    progress: &mut dyn FnMut(f64) -> Result<()>,
) -> Result<Vec<Outcome>> {
    let mut simulation = Simulation::new(jobs, threads)?;
    let mut chunk = Chunk::default();
    loop {
        reader.next_chunk(&mut chunk)?;
        if chunk.keys.is_empty() {
            return Ok(simulation.outcomes());
        }
        simulation.run(chunk.requests())?;
        progress(reader.progress())?;
    }
}
