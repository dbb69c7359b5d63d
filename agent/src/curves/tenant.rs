// SPDX-License-Identifier: Apache-2.0
//! The curves of one tenant: samples, their rates, and what is told of them.

mod pages;
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

/// A successor takes over after so many half-lives at the latest: of a new phase, and of the same.
const PHASE_PATIENCE: u64 = 4;
const PATIENCE: u64 = 8;
/// One for the same phase has before seen this share of the pages that its predecessor knows.
const PAGES_SEEN: f64 = 0.8;
/// One starts again after so many half-lives: a policy that was swapped in now would not have the
/// state that one has that was there ever since.
const REFRESH: u64 = 64;
/// A successor that learns starts again when so many times the pages it has can be sampled.
const OVERTAKEN: f64 = 4.0;
/// Phases that are followed last so many times as long as it takes to see their working set.
const SHORTEST_PHASE: u64 = 3;
/// Of the room for pages and bytes, so much may be in use after the rate was raised.
const ROOM_SHARE: f64 = 0.9;
/// What the large sample takes changes: caches get this share of what is left.
const PAGES_SHARE: f64 = 0.75;
const LEAST_ROOM_BYTES: f64 = 65_536.0;
/// The largest miniature cache is not made smaller than this to save memory.
const FEWEST_PAGES: f64 = 16.0;

/// The curves of one tenant. It is fed ([`Self::feed`] or [`Self::feed_sampled`]), told of the
/// time ([`Self::advance`]) and asked ([`Self::curves`], [`Self::judge`]).
///
/// A rate can be lowered at any time. Raised, pages new to the sample are unknown and would pass
/// for cold ones: another bank starts beside the old one, which goes on with the pages that it
/// knows, and takes over when it has seen the working set. Nothing is biased and there is no gap;
/// meanwhile it costs up to twice as much. Another bank starts likewise when reuse distances
/// change: caches that hold what the last phase left tell what policies would give that had been
/// there before, the new bank's what one gives that is swapped in now.
pub struct TenantCurves {
    config: CurvesConfig,
    bank: OnlineBank,
    successor: Option<OnlineBank>,
    /// Whether the successor is for a new phase.
    new_phase: bool,
    /// How often a new phase began.
    phase: u64,
    budget: Budget,
    small: SmallRate,
    /// What the kernel lets through.
    kernel_threshold: u64,
    /// Whether the sampler is in here.
    self_sampled: bool,
    /// Events since the last [`Self::advance`], and since the last [`Self::judge`].
    events: u64,
    accesses: u64,
    judged_events: u64,
    published: Published,
    trust: Trust,
    /// Since the phase began.
    early: Early,
    counterfactuals: TenantCounterfactuals,
}

impl TenantCurves {
    /// Curves of a tenant that nothing is known of.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(config: &CurvesConfig) -> Result<Self> {
        Self::begin(config, Budget::first(config.events_per_s), Generations::default())
    }

    /// Those of what was told last.
    #[must_use]
    pub fn generations(&self) -> Generations {
        Generations {
            curves: self.published.last_generation(),
            counterfactuals: self.counterfactuals.generation(),
            phase: self.phase,
        }
    }

    /// Curves of a tenant whose events are within `budget`; it may have had curves before, whose
    /// generations go on.
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

    /// Feeds accesses, all of them: keys below the sampler's threshold stand for the rest.
    ///
    /// # Errors
    /// What the simulation says.
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

    /// Feeds what the kernel's sampler let through of the next `accesses_seen`: their number is
    /// what the sample is corrected by. Keys above the threshold are left out.
    ///
    /// # Errors
    /// What the simulation says.
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

    /// Starts another bank for a new phase. While it has not seen the working set nothing that
    /// changes is new.
    fn follow_phase(&mut self) -> Result<()> {
        let bank_changed = self.bank.take_change();
        let changed = match &mut self.successor {
            Some(successor) if self.new_phase => successor.take_change(),
            _ => bank_changed,
        };
        // A phase that ends before it could be told is no phase to follow.
        let long = self.bank.accesses() >= SHORTEST_PHASE * self.bank.learnt_at();
        if changed && long {
            self.replace_successor()?;
            self.new_phase = true;
            self.phase += 1;
            self.early = Early::default();
            self.counterfactuals.begin_phase()?;
        }
        Ok(())
    }

    fn replace_successor(&mut self) -> Result<()> {
        // Three banks at a time would be the most memory that a tenant takes.
        self.successor = None;
        let rate = threshold_rate(self.kernel_threshold).min(self.budget.rate());
        let mut successor = self.config.bank(rate, self.small.wanted(rate))?;
        successor.set_duty(self.small.duty(&successor))?;
        self.small.start(&successor);
        self.successor = Some(successor);
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

    /// Lowers [`Self::threshold`] for events that are too many for the `elapsed` in which they came,
    /// and returns it. Those of them that are not below it are not to be fed.
    pub fn lower_for(&mut self, events: u64, elapsed: Duration) -> u64 {
        self.budget.lower_for(elapsed, events);
        self.threshold()
    }

    /// What the kernel uses from now on. Lower than before: pages above it left the sample.
    /// Higher: a bank that knows nothing begins, see [`TenantCurves`].
    ///
    /// # Errors
    /// What the simulation says; a threshold of 0.
    pub fn set_kernel_threshold(&mut self, threshold: u64) -> Result<()> {
        self.kernel_threshold = threshold;
        self.counterfactuals.set_threshold(threshold)?;
        self.bank.lower(threshold)?;
        let overtaken = self.successor.as_ref().is_some_and(|s| self.is_overtaken(s));
        match &mut self.successor {
            // It knows little yet, and would have to know its working set before the next begins.
            Some(_) if overtaken => self.replace_successor()?,
            Some(successor) => successor.lower(threshold)?,
            None => self.start_successor()?,
        }
        Ok(())
    }

    /// Lets `elapsed` pass: keeps rates within budgets and memory within its bound. The caller then
    /// gives [`Self::threshold`] to the kernel and tells [`Self::set_kernel_threshold`].
    ///
    /// # Errors
    /// What the simulation says.
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

    /// Whether a successor of the same phase samples far fewer pages than the kernel does now. At a
    /// few hundred accesses per second the first rate is raised before anything was learnt.
    fn is_overtaken(&self, successor: &OnlineBank) -> bool {
        let rate = threshold_rate(self.kernel_threshold).min(self.budget.rate());
        !self.new_phase && !successor.learnt() && rate >= OVERTAKEN * successor.rate()
    }

    fn flush(&mut self) -> Result<()> {
        self.bank.flush()?;
        Ok(self.successor.iter_mut().try_for_each(OnlineBank::flush)?)
    }

    /// Lowers what the budgets want lower.
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

    /// Another bank when the kernel samples more than the present one, the budget of the small
    /// sample allows more, or the present one is old.
    fn start_successor(&mut self) -> Result<()> {
        let rate = threshold_rate(self.kernel_threshold).min(self.budget.rate());
        let higher = rate > self.bank.rate() * 1.01
            || self.small.wanted(rate) > self.bank.small_rate() * 1.01;
        let old = self.bank.accesses() > REFRESH * self.bank.half_life();
        if higher || old {
            self.replace_successor()?;
        }
        Ok(())
    }

    /// The successor takes over when it has seen as much as its predecessor would remember.
    fn promote(&mut self) {
        let Some(successor) = &mut self.successor else { return };
        let (age, half_life) = (successor.accesses(), successor.half_life());
        // One that never saw its working set, as in a scan, knows pages that are gone for good.
        let known = if self.bank.learnt() { self.bank.working_set_pages() } else { 0.0 };
        let (need, pages, patience) = match self.new_phase {
            true => (TrustLimits::default().min_samples as f64, 0.0, PHASE_PATIENCE),
            false => (self.config.min_samples as f64 / 2.0, known * PAGES_SEEN, PATIENCE),
        };
        let seen = successor.learnt()
            && successor.effective_samples() >= need
            && successor.pages_seen() >= pages;
        let first = self.bank.sampled().1 == 0 && successor.sampled().1 > 0;
        let ready = seen || first || age >= patience * half_life;
        if ready && let Some(successor) = self.successor.take() {
            self.bank = successor;
            self.published.follow_other_bank(std::mem::take(&mut self.new_phase));
        }
    }

    /// Memory above the bound: starts again at a lower rate, down to where the largest cache has few
    /// pages and what is left does not depend on the rate; a cache that shrinks keeps its memory.
    /// What was published stays until there is better.
    fn give_back(&mut self) -> Result<()> {
        (self.successor, self.new_phase) = (None, false);
        let largest = self.config.sizes_pages.last().copied().unwrap_or(1) as f64;
        let rate = self.bank.small_rate() / self.full_share(&self.bank).max(2.0);
        if rate * largest >= FEWEST_PAGES {
            self.small.limit(rate);
            let large = self.bank.rate();
            self.bank = self.config.bank(large, self.small.wanted(large))?;
            self.published.follow_other_bank(false);
        }
        Ok(())
    }

    /// Share of the room for pages of caches that a bank fills; the rest of its memory does not
    /// follow their rate.
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

    /// From now on it may have what `config` says, which differs in memory alone. What is more leaves
    /// with the next accesses and the next [`Self::advance`].
    pub fn set_memory(&mut self, config: &CurvesConfig) {
        (self.config.max_bytes, self.config.sample_pages) = (config.max_bytes, config.sample_pages);
        self.counterfactuals.set_sample_pages(config.sample_pages);
    }

    /// Accesses after which one counts half now.
    pub fn half_life(&mut self) -> u64 {
        self.bank.half_life()
    }

    /// Share of pages in the sample of all policies; [`crate::wire::Curves`] gives that of LRU.
    #[must_use]
    pub fn small_rate(&self) -> f64 {
        self.bank.small_rate()
    }

    /// Memory, bytes: at most `max_bytes` of the configuration after each [`Self::advance`], or what
    /// caches take that are nearly empty; twice that while a successor warms up.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let successor = self.successor.as_ref().map_or(0, OnlineBank::bytes);
        self.bank.bytes() + successor + self.counterfactuals.bytes()
    }
}

fn threshold_rate(threshold: u64) -> f64 {
    threshold as f64 / 2f64.powi(64)
}
