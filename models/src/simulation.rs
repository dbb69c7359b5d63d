// SPDX-License-Identifier: Apache-2.0
//! Full simulation of policies over a trace: every policy at every size in one pass.

use crate::error::{Error, Result};
use crate::policy::{Instance, InstanceConfig, Policy, Requests, Stats};
use crate::trace::{Chunk, TraceReader};
use crate::windows::{Mark, Measure, Window, WindowClock};
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

/// The result of a [`Job`].
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The job that was run.
    pub job: Job,
    /// Counts over all measured requests.
    pub stats: Stats,
    /// Counts of each window, in order; empty without [`Measure::window_requests`].
    pub windows: Vec<Window>,
    /// Time spent in this simulation alone. It includes the warm-up, but not reading the trace.
    pub time: Duration,
}

impl Outcome {
    /// Returns the share of requests that missed, 0 to 1.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        self.stats.misses as f64 / self.stats.requests.max(1) as f64
    }
}

struct Running {
    job: Job,
    instance: Instance,
    time: Duration,
    /// Counts at the beginning of the measurement, and of the current window.
    begun: Stats,
    window_begun: Stats,
    windows: Vec<Window>,
}

impl Running {
    fn new(job: &Job) -> Result<Self> {
        let instance = Instance::new(job.policy, &job.config)?;
        let (begun, window_begun) = (instance.stats(), instance.stats());
        let time = Duration::ZERO;
        Ok(Self { job: job.clone(), instance, time, begun, window_begun, windows: Vec::new() })
    }

    /// Ends the warm-up: counts so far are excluded from the result.
    fn begin(&mut self) {
        self.begun = self.instance.stats();
        self.window_begun = self.begun;
    }

    fn end_window(&mut self) {
        let now = self.instance.stats();
        let counted = now.since(&self.window_begun);
        self.windows.push(Window { requests: counted.requests, misses: counted.misses });
        self.window_begun = now;
    }

    fn outcome(self) -> Outcome {
        let stats = self.instance.stats().since(&self.begun);
        Outcome { stats, job: self.job, windows: self.windows, time: self.time }
    }

    fn run(&mut self, requests: Requests<'_>) -> Result<()> {
        let start = Instant::now();
        self.instance.run(requests, None)?;
        self.time += start.elapsed();
        Ok(())
    }
}

impl Chunk {
    /// Returns the chunk as a run of requests.
    #[must_use]
    pub fn requests(&self) -> Requests<'_> {
        Requests { keys: &self.keys, tasks: &self.tasks, times_ns: &self.times_ns }
    }
}

/// Creates a pool of `threads` workers; 0 means one per core.
///
/// # Errors
/// [`Error::Argument`] when the system refuses the threads.
pub fn thread_pool(threads: usize) -> Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|e| Error::argument("threads", e.to_string()))
}

/// A set of jobs that advance over the same requests.
pub struct Simulation {
    running: Vec<Running>,
    pool: rayon::ThreadPool,
    clock: WindowClock,
}

impl Simulation {
    /// Creates a cold cache for every job. `threads` jobs are simulated at a time; 0 means one per
    /// core.
    ///
    /// # Errors
    /// Those of [`Instance::new`], [`thread_pool`] and [`WindowClock::new`].
    pub fn new(jobs: &[Job], threads: usize, measure: Measure) -> Result<Self> {
        let running = jobs.iter().map(Running::new).collect::<Result<Vec<_>>>()?;
        Ok(Self { running, pool: thread_pool(threads)?, clock: WindowClock::new(measure)? })
    }

    /// Runs the next requests through every job.
    ///
    /// # Errors
    /// Those of [`Instance::run`], and [`Error::Argument`] when there are too many windows.
    pub fn run(&mut self, mut requests: Requests<'_>) -> Result<()> {
        while !requests.keys.is_empty() {
            let count = self.clock.within(requests.keys.len());
            let (now, later) = requests.split_at(count);
            let running = &mut self.running;
            self.pool.install(|| running.par_iter_mut().try_for_each(|r| r.run(now)))?;
            match self.clock.advance(count as u64)? {
                Some(Mark::WarmedUp) => self.running.iter_mut().for_each(Running::begin),
                Some(Mark::WindowFull) => self.running.iter_mut().for_each(Running::end_window),
                None => {}
            }
            requests = later;
        }
        Ok(())
    }

    /// Returns the outcomes of the jobs, in their order. The last window may have fewer requests
    /// than the others.
    ///
    /// # Errors
    /// [`Error::Argument`] when the warm-up took every request.
    pub fn outcomes(mut self) -> Result<Vec<Outcome>> {
        if self.clock.finish()? {
            self.running.iter_mut().for_each(Running::end_window);
        }
        Ok(self.running.into_iter().map(Running::outcome).collect())
    }
}

/// Runs every job over the trace. After each chunk, calls `progress` with the share of the trace
/// read; an error from it stops the simulation. The memory used is that of the instances and of one
/// chunk.
///
/// # Errors
/// Those of the reader, of [`Simulation`] and of `progress`.
pub fn simulate(
    reader: &mut dyn TraceReader,
    jobs: &[Job],
    threads: usize,
    progress: &mut dyn FnMut(f64) -> Result<()>,
) -> Result<Vec<Outcome>> {
    let mut simulation = Simulation::new(jobs, threads, Measure::default())?;
    let mut chunk = Chunk::default();
    loop {
        reader.next_chunk(&mut chunk)?;
        if chunk.keys.is_empty() {
            return simulation.outcomes();
        }
        simulation.run(chunk.requests())?;
        progress(reader.progress())?;
    }
}
