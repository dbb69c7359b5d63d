// SPDX-License-Identifier: Apache-2.0
//! The curves of one tenant. A bank (`OnlineBank`) is a set of miniature caches, one per policy and
//! size. It is fed with a large sample, from which the curve of LRU follows, and a small one, on
//! which every policy is simulated. A successor is a second bank that warms up and then replaces
//! the first, see `succession`. In code, a regime is called `phase`.

mod pages;
mod succession;
mod tasks;
mod told;

pub use self::tasks::Generations;
use self::tasks::names_of;
use super::budget::{Budget, FIRST_RATE};
use super::counterfactuals::TenantCounterfactuals;
use super::early::Early;
use super::published::Published;
use super::settings::CurvesConfig;
use super::small_rate::SmallRate;
use super::trust::{Trust, TrustLimits};
use crate::error::Result;
use cachepilot_models::hash::{page_hash, threshold};
use cachepilot_models::minisim::OnlineBank;
use cachepilot_models::policy::Requests;
use std::time::Duration;

/// The share of the room for pages and bytes that may be used after the rate was raised.
const ROOM_SHARE: f64 = 0.9;
/// The share of the memory beside the large sample, which varies, that miniature caches get.
const PAGES_SHARE: f64 = 0.75;
const LEAST_ROOM_BYTES: f64 = 65_536.0;

/// The curves of one tenant. It is fed with accesses ([`Self::feed`] or [`Self::feed_sampled`]),
/// advanced in time ([`Self::advance`]), and queried ([`Self::curves`], [`Self::judge`]).
///
/// A sampling rate can be lowered at any time. After a raise, pages new to the sample would wrongly
/// count as cold ones. A second bank therefore starts beside the first, which goes on with the
/// pages that it knows, and takes over when it has seen the working set. This avoids bias and gaps,
/// and costs up to twice the memory in the meantime. A second bank also starts when reuse distances
/// change: the caches of the old bank contain pages of the last regime and predict policies that
/// have been in force since then, whereas the caches of the new bank predict a policy that is
/// swapped in now.
pub struct TenantCurves {
    config: CurvesConfig,
    bank: OnlineBank,
    successor: Option<OnlineBank>,
    /// Whether the successor is for a new regime.
    new_phase: bool,
    /// Number of regimes that began.
    phase: u64,
    budget: Budget,
    small: SmallRate,
    /// The threshold that the kernel uses.
    kernel_threshold: u64,
    /// Whether this value samples the accesses itself, as [`Self::feed`] does.
    self_sampled: bool,
    /// Events since the last [`Self::advance`]; for `judged_events`, the last [`Self::judge`].
    events: u64,
    accesses: u64,
    judged_events: u64,
    published: Published,
    trust: Trust,
    /// The measurements since the regime began.
    early: Early,
    counterfactuals: TenantCounterfactuals,
}

impl TenantCurves {
    /// Curves of a new tenant.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid.
    pub fn new(config: &CurvesConfig) -> Result<Self> {
        Self::begin(config, Budget::first(config.events_per_s), Generations::default())
    }

    /// The generations of what was reported last.
    #[must_use]
    pub fn generations(&self) -> Generations {
        Generations {
            curves: self.published.last_generation(),
            counterfactuals: self.counterfactuals.generation(),
            phase: self.phase,
        }
    }

    /// Curves of a tenant whose events are within `budget`. If it had curves before, their
    /// generations, `after`, continue.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn begin(config: &CurvesConfig, budget: Budget, after: Generations) -> Result<Self> {
        let names = names_of(config);
        let small_events = config.cell_events_per_s / config.cells().max(1) as f64;
        let small_share = (small_events / config.events_per_s).min(1.0);
        let small = SmallRate::new(small_events, FIRST_RATE * small_share);
        Ok(Self {
            bank: config.bank(budget.rate(), small.wanted(budget.rate()))?,
            successor: None,
            new_phase: false,
            phase: after.phase,
            kernel_threshold: threshold(budget.rate()),
            counterfactuals: TenantCounterfactuals::new(
                config,
                threshold(budget.rate()),
                after.counterfactuals,
            ),
            config: config.clone(),
            budget,
            small,
            self_sampled: false,
            events: 0,
            accesses: 0,
            judged_events: 0,
            published: Published::new(names, after.curves),
            trust: Trust::new(TrustLimits::default()),
            early: Early::default(),
        })
    }

    /// Feeds all accesses. Keys below the sampler's threshold represent the rest.
    ///
    /// # Errors
    /// Returns the error of the simulation.
    pub fn feed(&mut self, requests: Requests<'_>) -> Result<()> {
        self.self_sampled = true;
        let below = self.kernel_threshold;
        let chosen: Vec<usize> =
            (0..requests.keys.len()).filter(|&i| page_hash(requests.keys[i]) < below).collect();
        let keys: Vec<u64> = chosen.iter().map(|&i| requests.keys[i]).collect();
        let tasks: Vec<u32> =
            chosen.iter().filter_map(|&i| requests.tasks.get(i).copied()).collect();
        let times_ns: Vec<u64> =
            chosen.iter().filter_map(|&i| requests.times_ns.get(i).copied()).collect();
        let sampled = Requests { keys: &keys, tasks: &tasks, times_ns: &times_ns };
        self.feed_sampled(sampled, requests.keys.len() as u64)
    }

    /// Feeds the accesses that the kernel's sampler selected of the next `accesses_seen`. The
    /// sample is corrected by that number. Keys above the threshold are left out.
    ///
    /// # Errors
    /// Returns the error of the simulation.
    pub fn feed_sampled(&mut self, requests: Requests<'_>, accesses_seen: u64) -> Result<()> {
        self.events += requests.keys.len() as u64;
        self.accesses += accesses_seen;
        self.published.pass(accesses_seen);
        self.judged_events += requests.keys.len() as u64;
        self.bank.access(requests, accesses_seen)?;
        self.counterfactuals.access(requests)?;
        if let Some(successor) = &mut self.successor {
            successor.access(requests, accesses_seen)?;
        }
        self.follow_phase()?;
        while self.most_pages() > self.config.sample_pages {
            self.budget.limit(self.largest_rate() / 2.0);
            self.follow_budgets()?;
        }
        Ok(())
    }

    /// The threshold that the kernel should use from now on.
    #[must_use]
    pub fn threshold(&self) -> u64 {
        self.budget.threshold()
    }

    /// Events per second that the tenant may have now.
    #[must_use]
    pub fn events_allowed_per_s(&self) -> f64 {
        self.budget.allowed_per_s()
    }

    /// Lowers [`Self::threshold`] if `events` are too many for the `elapsed` time in which they
    /// arrived, and returns it. Events that are not below it must not be fed.
    pub fn lower_for(&mut self, events: u64, elapsed: Duration) -> u64 {
        self.budget.lower_for(elapsed, events);
        self.threshold()
    }

    /// Sets the threshold that the kernel uses from now on. If it is lower than before, pages above
    /// it leave the sample. If it is higher, an empty bank begins, see [`TenantCurves`].
    ///
    /// # Errors
    /// Returns the error of the simulation, which refuses a threshold of 0.
    pub fn set_kernel_threshold(&mut self, threshold: u64) -> Result<()> {
        self.kernel_threshold = threshold;
        self.counterfactuals.set_threshold(threshold)?;
        self.bank.lower(threshold)?;
        let overtaken = self.successor.as_ref().is_some_and(|s| self.is_overtaken(s));
        match &mut self.successor {
            // It would have to learn its working set before the next one begins.
            Some(_) if overtaken => self.replace_successor()?,
            Some(successor) => successor.lower(threshold)?,
            None => self.start_successor()?,
        }
        Ok(())
    }

    /// Advances by `elapsed`: keeps rates within budgets and memory within its bound. The caller
    /// then passes [`Self::threshold`] to the kernel and calls [`Self::set_kernel_threshold`].
    ///
    /// # Errors
    /// Returns the error of the simulation.
    pub fn advance(&mut self, elapsed: Duration) -> Result<()> {
        self.flush()?;
        self.early.pass(elapsed);
        let events = std::mem::take(&mut self.events);
        let accesses = std::mem::take(&mut self.accesses);
        let room = self.config.sample_pages as f64 / self.most_pages().max(1) as f64;
        self.budget.update(elapsed, events, accesses, self.largest_rate() * room * ROOM_SHARE);
        let newest = self.successor.as_ref().unwrap_or(&self.bank);
        let ceiling = (newest.small_rate() / self.full_share(newest)).min(self.budget.rate());
        self.small.update(elapsed, newest, accesses, ceiling);
        self.follow_budgets()?;
        self.promote();
        if self.largest_bytes() > self.config.max_bytes {
            self.give_back()?;
        }
        if self.self_sampled {
            self.set_kernel_threshold(self.threshold())?;
        } else if self.successor.is_none() {
            self.start_successor()?;
        }
        self.small.start(self.successor.as_ref().unwrap_or(&self.bank));
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.bank.flush()?;
        Ok(self.successor.iter_mut().try_for_each(OnlineBank::flush)?)
    }

    /// Lowers the rates of the banks to those of the budgets.
    fn follow_budgets(&mut self) -> Result<()> {
        let rate = self.budget.rate();
        let (full, small) = (threshold(rate), threshold(self.small.wanted(rate)));
        for bank in std::iter::once(&mut self.bank).chain(&mut self.successor) {
            bank.lower(full)?;
            bank.lower_small(small)?;
            bank.set_duty(self.small.duty(bank))?;
        }
        Ok(())
    }

    /// The share of the room for miniature caches that `bank` fills, besides its other memory.
    fn full_share(&self, bank: &OnlineBank) -> f64 {
        let pages = bank.page_bytes() as f64;
        let room = self.config.max_bytes as f64 * ROOM_SHARE - (bank.bytes() as f64 - pages);
        pages.max(1.0) / (room * PAGES_SHARE).max(LEAST_ROOM_BYTES)
    }

    fn largest_bytes(&self) -> u64 {
        self.bank.bytes().max(self.successor.as_ref().map_or(0, OnlineBank::bytes))
    }

    fn most_pages(&self) -> usize {
        let other = self.successor.as_ref().map_or(0, OnlineBank::sample_pages);
        self.bank.sample_pages().max(other)
    }

    fn largest_rate(&self) -> f64 {
        self.successor.as_ref().map_or(self.bank.rate(), |s| s.rate().max(self.bank.rate()))
    }

    /// Sets the bounds of memory to those of `config`, which differs in nothing else. The excess is
    /// dropped with the next accesses and the next [`Self::advance`].
    pub fn set_memory(&mut self, config: &CurvesConfig) {
        (self.config.max_bytes, self.config.sample_pages) = (config.max_bytes, config.sample_pages);
        self.counterfactuals.set_sample_pages(config.sample_pages);
    }

    /// Number of accesses after which the weight of an access has halved.
    pub fn half_life(&mut self) -> u64 {
        self.bank.half_life()
    }

    /// Share of pages in the small sample; [`crate::wire::Curves`] reports that of the large one.
    #[must_use]
    pub fn small_rate(&self) -> f64 {
        self.bank.small_rate()
    }

    /// Memory in bytes. After each [`Self::advance`], it is at most `max_bytes` of the
    /// configuration or the size of nearly empty caches, whichever is more; and twice that while a
    /// successor warms up.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let successor = self.successor.as_ref().map_or(0, OnlineBank::bytes);
        self.bank.bytes() + successor + self.counterfactuals.bytes()
    }
}
