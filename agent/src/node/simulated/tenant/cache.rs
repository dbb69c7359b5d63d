// SPDX-License-Identifier: Apache-2.0
//! The page cache of one tenant: the real policy files on a simulated cache. Its policy and its
//! size can be changed without losing cached pages.

use super::refaults::Refaults;
use crate::error::Result;
use crate::node::simulated::accesses::Accesses;
use crate::node::simulated::config::PAGE_BYTES;
use crate::wire;
use cachepilot_models::policy::{
    Candidate, Instance, InstanceConfig, KERNEL_BATCH, Requests, resolve,
};

/// The model of the kernel's behaviour without an attached policy.
const DEFAULT_MODEL: &str = "kernel_lru";
/// Capacity of the log of evictions, which is read after each block of accesses and each step of a
/// shrink; each of these causes fewer evictions.
const EVICTION_LOG: usize = 4096;
/// The most pages that one step of a shrink evicts, see [`EVICTION_LOG`].
const SHRINK_PAGES: u64 = 2048;

/// The result of an access.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) miss: bool,
    pub(super) refault: bool,
    /// Pages that were evicted to make room.
    pub(super) evictions: u16,
}

/// A simulated page cache under one policy.
pub(super) struct PageCache {
    instance: Instance,
    tunables: Vec<u32>,
    /// Ids of the named tasks, for policies that treat tasks apart.
    tasks: Vec<u32>,
    capacity_pages: u64,
    seed: u64,
    /// Requests that the instance has served.
    served: u64,
    refaults: Refaults,
    hits: Vec<u8>,
    lost_evictions: u64,
}

/// The policy or variant with this name on the wire; `None` if it cannot be attached.
pub(in super::super) fn attachable(name: &str) -> Option<Candidate> {
    if name == wire::DEFAULT_POLICY {
        return resolve(DEFAULT_MODEL).ok();
    }
    resolve(name).ok().filter(|one| !one.policy.manifest.simulation_only)
}

fn instance(
    candidate: &Candidate,
    tasks: &[u32],
    capacity_pages: u64,
    seed: u64,
) -> Result<Instance> {
    let tunables = candidate.policy.manifest.with_tasks(candidate.tunables.clone(), tasks);
    let config = InstanceConfig { capacity_pages, batch: KERNEL_BATCH, seed, tunables };
    let mut instance = Instance::new(candidate.policy, &config)?;
    instance.log_evictions(EVICTION_LOG)?;
    Ok(instance)
}

impl PageCache {
    /// A cold cache under the kernel's default.
    pub(super) fn new(capacity_pages: u64, seed: u64) -> Result<Self> {
        let default = resolve(DEFAULT_MODEL)?;
        Ok(Self {
            instance: instance(&default, &[], capacity_pages, seed)?,
            tunables: default.tunables,
            tasks: Vec::new(),
            capacity_pages,
            seed,
            served: 0,
            refaults: Refaults::default(),
            hits: Vec::new(),
            lost_evictions: 0,
        })
    }

    /// Replaces the policy as the kernel does: the new one adopts every resident page, oldest
    /// first. If that fails, the old policy stays.
    pub(super) fn swap(&mut self, candidate: Candidate) -> Result<()> {
        let mut new = instance(&candidate, &self.tasks, self.capacity_pages, self.seed)?;
        new.adopt(&self.instance.resident_keys())?;
        (self.instance, self.tunables) = (new, candidate.tunables);
        self.served = 0;
        Ok(())
    }

    /// The resident pages in the order in which another policy would adopt them. If there are more
    /// than `most_pages`, only the last ones, which were used most recently.
    pub(super) fn last_used(&self, most_pages: u64) -> Vec<u64> {
        let mut keys = self.instance.resident_keys();
        keys.drain(..keys.len() - keys.len().min(most_pages as usize));
        keys
    }

    /// Adds pages to an empty cache, oldest first. If they do not all fit, the last ones are used.
    /// Nothing is counted.
    pub(super) fn adopt(&mut self, keys: &[u64]) -> Result<()> {
        let fitting = keys.len().min(self.capacity_pages as usize);
        Ok(self.instance.adopt(&keys[keys.len() - fitting..])?)
    }

    /// Sets the ids of the tasks that policies treat apart.
    pub(super) fn set_tasks(&mut self, tasks: &[u32]) -> Result<()> {
        self.tasks = tasks.to_vec();
        let manifest = &self.instance.policy().manifest;
        let tunables = manifest.with_tasks(self.tunables.clone(), tasks);
        Ok(self.instance.set_tunables(&tunables)?)
    }

    /// Changes the size. Returns the number of evicted pages.
    pub(super) fn resize(&mut self, capacity_pages: u64) -> Result<u64> {
        let before = self.instance.stats().evictions;
        while self.capacity_pages != capacity_pages {
            let resident = self.instance.stats().resident;
            let next = capacity_pages.max(resident.saturating_sub(SHRINK_PAGES));
            self.instance.resize(next, KERNEL_BATCH)?;
            self.capacity_pages = next;
            self.refaults.trim(next);
            self.remember_evictions();
        }
        Ok(self.instance.stats().evictions - before)
    }

    fn remember_evictions(&mut self) {
        let taken = self.instance.take_evictions();
        self.lost_evictions += taken.lost;
        for eviction in taken.entries {
            self.refaults.insert(eviction.key, self.capacity_pages);
        }
    }

    /// Serves accesses, and replaces `fates` by the result of each.
    pub(super) fn run(&mut self, accesses: &Accesses, fates: &mut Vec<Fate>) -> Result<()> {
        let count = accesses.len();
        self.hits.resize(count, 0);
        let tasks = match accesses.tasks.iter().all(|&task| task == 0) {
            true => &[][..],
            false => &accesses.tasks,
        };
        let requests = Requests { keys: &accesses.keys, tasks, times_ns: &[] };
        self.instance.run(requests, Some(&mut self.hits))?;
        fates.clear();
        fates.resize(count, Fate::default());
        let taken = self.instance.take_evictions();
        self.lost_evictions += taken.lost;
        let mut evictions = taken.entries.iter().peekable();
        for (i, (fate, &hit)) in fates.iter_mut().zip(&self.hits).enumerate() {
            if hit != 0 {
                continue;
            }
            fate.miss = true;
            fate.refault = self.refaults.take(accesses.keys[i]);
            let request = self.served + i as u64;
            while let Some(eviction) = evictions.next_if(|e| e.request == request) {
                self.refaults.insert(eviction.key, self.capacity_pages);
                fate.evictions += 1;
            }
        }
        self.served += count as u64;
        Ok(())
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.instance.stats().resident * PAGE_BYTES
    }

    /// Number of evictions that were not logged: 0, unless the log is too short.
    pub(super) fn lost_evictions(&self) -> u64 {
        self.lost_evictions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cache: &mut PageCache, keys: &[u64]) -> Vec<Fate> {
        let accesses = Accesses { keys: keys.to_vec(), tasks: vec![0; keys.len()] };
        let mut fates = Vec::new();
        cache.run(&accesses, &mut fates).unwrap();
        fates
    }

    fn misses(fates: &[Fate]) -> usize {
        fates.iter().filter(|f| f.miss).count()
    }

    #[test]
    fn a_miss_on_a_page_evicted_not_long_ago_is_a_refault() {
        let mut cache = PageCache::new(4, 1).unwrap();
        let fates = run(&mut cache, &[1, 2, 3, 4, 5, 1, 9]);
        let seen: Vec<_> = fates.iter().map(|f| (f.miss, f.refault, f.evictions)).collect();
        assert_eq!(seen[..4], [(true, false, 0); 4]);
        assert_eq!(seen[4..], [(true, false, 1), (true, true, 1), (true, false, 1)]);
        assert_eq!(cache.lost_evictions(), 0);
    }

    #[test]
    fn a_swap_keeps_every_page() {
        let keys: Vec<u64> = (0..1_000).collect();
        let mut cache = PageCache::new(1_000, 1).unwrap();
        assert_eq!(misses(&run(&mut cache, &keys)), 1_000);
        for name in ["s3fifo", "lfu", "mru", wire::DEFAULT_POLICY] {
            cache.swap(attachable(name).unwrap()).unwrap();
            assert_eq!(misses(&run(&mut cache, &keys)), 0, "{name}");
        }
    }

    #[test]
    fn pages_of_another_cache_are_adopted_as_far_as_there_is_room() {
        let keys: Vec<u64> = (0..1_000).collect();
        let mut cache = PageCache::new(1_000, 1).unwrap();
        run(&mut cache, &keys);
        assert_eq!(cache.last_used(u64::MAX), keys);
        assert_eq!(cache.last_used(10), keys[990..]);
        for (pages, resident) in [(1_000, 1_000), (600, 600)] {
            let mut other = PageCache::new(pages, 1).unwrap();
            other.adopt(&cache.last_used(u64::MAX)).unwrap();
            assert_eq!(other.last_used(u64::MAX), keys[1_000 - resident..]);
            assert_eq!(misses(&run(&mut other, &keys[1_000 - resident..])), 0);
            assert_eq!(other.lost_evictions(), 0);
        }
    }

    #[test]
    fn pages_evicted_by_a_shrink_are_counted_and_refault() {
        let keys: Vec<u64> = (0..10_000).collect();
        let mut cache = PageCache::new(10_000, 1).unwrap();
        run(&mut cache, &keys);
        assert_eq!(cache.resize(4_000).unwrap(), 6_000);
        assert_eq!((cache.file_bytes(), cache.lost_evictions()), (4_000 * PAGE_BYTES, 0));
        assert_eq!(cache.resize(20_000).unwrap(), 0);
        let fates = run(&mut cache, &keys);
        assert_eq!(misses(&fates), 6_000);
        assert_eq!(fates.iter().filter(|f| f.refault).count(), 4_000, "as many as it had room for");
    }

    #[test]
    fn a_model_cannot_be_attached_but_as_the_default() {
        assert!(attachable("kernel_lru").is_none() && attachable("nope").is_none());
        assert_eq!(attachable("default").unwrap().name, "kernel_lru");
    }
}
