// SPDX-License-Identifier: Apache-2.0
//! One present tenant: its workload, its limit, its policy.

mod cache;
mod counters;
mod learning;
mod limit;
mod refaults;
mod stream;
mod tasks;
mod workload;

pub(super) use cache::attachable;
pub(super) use limit::Change;
pub(super) use workload::Abandoned;

use super::accesses::Phases;
use super::config::{PAGE_BYTES, TenantConfig};
use crate::curves::CurvesConfig;
use crate::error::{Error, Result};
use crate::wire;
use cache::PageCache;
use learning::Learning;
use limit::Limit;
use stream::Stream;
use workload::Workload;

/// What all tenants of a node share.
pub(super) struct Common<'a> {
    pub(super) budget_bytes: u64,
    pub(super) curves: &'a CurvesConfig,
}

/// A tenant from its appearance to its end.
pub(super) struct Tenant {
    pub(super) cgroup: String,
    pub(super) cgroup_id: u64,
    pub(super) policy: String,
    pub(super) limit: Limit,
    pub(super) workload: Workload,
    /// See [`Self::failure`].
    failure: Option<String>,
}

impl Tenant {
    /// A tenant that appears now, under the kernel's default, with nothing cached.
    pub(super) fn new(
        config: &TenantConfig,
        common: &Common<'_>,
        cgroup_id: u64,
        seed: u64,
        now_ns: u64,
    ) -> Result<Self> {
        let limit = Limit {
            now_bytes: config.limit_bytes,
            target_bytes: config.limit_bytes,
            initial_bytes: config.limit_bytes,
            floor_bytes: config.floor_bytes().next_multiple_of(PAGE_BYTES),
            anon_bytes: config.anon_bytes.next_multiple_of(PAGE_BYTES),
            budget_bytes: common.budget_bytes,
        };
        let phases = Phases::new(&config.phases, seed, now_ns)?;
        let cache = PageCache::new(limit.cache_pages(), seed)?;
        let learning = Learning::new(common.curves, now_ns)?;
        let stream = Stream::new(phases, cache, learning, now_ns);
        let service_ns = (config.service_us * 1e3).round() as u64;
        let workload =
            Workload::new(stream, config.concurrency, config.accesses_per_op, service_ns);
        Ok(Self {
            cgroup: config.cgroup.clone(),
            cgroup_id,
            policy: wire::DEFAULT_POLICY.into(),
            limit,
            workload,
            failure: None,
        })
    }

    /// Why its operations stopped, for example because of an error in its trace.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Stops its operations for good. The first reason stays.
    pub(super) fn stop(&mut self, error: &Error) {
        self.failure.get_or_insert_with(|| error.to_string());
    }

    /// Adds pages that were read for it to its empty page cache, oldest first.
    pub(super) fn adopt(&mut self, keys: &[u64]) -> Result<()> {
        self.workload.stream.cache.adopt(keys)
    }

    /// Its cached pages in the order of their last use; if there are more than `most_pages`, only
    /// the last ones.
    pub(super) fn last_used(&self, most_pages: u64) -> Vec<u64> {
        self.workload.stream.cache.last_used(most_pages)
    }

    /// Number of evictions that were not logged: 0, unless the log is too short.
    pub(super) fn lost_evictions(&self) -> u64 {
        self.workload.stream.cache.lost_evictions()
    }

    fn file_bytes(&self) -> u64 {
        self.workload.stream.cache.file_bytes()
    }

    /// Makes the cache as large as the limit allows now.
    fn fit(&mut self) -> Result<()> {
        let pages = self.limit.cache_pages();
        self.workload.counters.evictions += self.workload.stream.cache.resize(pages)?;
        Ok(())
    }

    /// Lowers a limit that has not reached its target by at most `most_bytes`.
    pub(super) fn step(&mut self, most_bytes: u64) {
        if !self.limit.is_moving() {
            return;
        }
        self.limit.step(most_bytes);
        if let Err(error) = self.fit() {
            self.stop(&error);
        }
    }

    pub(super) fn set_limit(&mut self, bytes: u64) -> Result<Change> {
        let change = self.limit.set(bytes, self.file_bytes());
        if change != Change::None {
            self.fit()?;
        }
        Ok(change)
    }

    pub(super) fn set_policy(&mut self, name: &str) -> Result<Change> {
        if name == self.policy {
            return Ok(Change::None);
        }
        let Some(candidate) = attachable(name) else { return Ok(Change::None) };
        self.workload.stream.cache.swap(candidate)?;
        self.policy = name.into();
        Ok(Change::Done)
    }

    /// The present state.
    pub(super) fn observe(&mut self, now_ns: u64) -> wire::Tenant {
        let file_bytes = self.file_bytes();
        let mut seen = wire::Tenant {
            cgroup: self.cgroup.clone(),
            cgroup_id: self.cgroup_id,
            policy: self.policy.clone(),
            limit_bytes: self.limit.now_bytes,
            target_limit_bytes: self.limit.target_bytes,
            initial_limit_bytes: self.limit.initial_bytes,
            floor_bytes: self.limit.floor_bytes,
            current_bytes: self.limit.anon_bytes + file_bytes,
            file_bytes,
            anon_bytes: self.limit.anon_bytes,
            counters: Some(self.workload.counters.wire(now_ns)),
            // In the simulation, policies take no CPU time.
            policy_cpu_us_per_access: (self.policy != wire::DEFAULT_POLICY).then_some(0.0),
            ..wire::Tenant::default()
        };
        let cache_bytes = self.limit.cache_pages() * PAGE_BYTES;
        let followed = self.follow_tasks();
        let told = self.workload.stream.learning.tell(&mut seen, cache_bytes, now_ns);
        for error in [followed, told].into_iter().filter_map(Result::err) {
            self.stop(&error);
        }
        if let Some(failure) = &self.failure {
            seen.trusted = false;
            seen.distrust = format!("stopped: {failure}");
        }
        seen
    }
}
