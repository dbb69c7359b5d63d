// SPDX-License-Identifier: Apache-2.0
//! Sampled events of one tenant that wait until its curves learn from them.

use crate::bpf::event::{Event, EventKind};
use crate::curves::TenantCurves;
use crate::error::Result;
use cachepilot_models::hash::page_hash;
use cachepilot_models::policy::Requests;
use std::collections::HashSet;

/// Events in order, to the extent that order matters: the removal of a page may be learnt late, but
/// must be learnt before the next access to that page.
#[derive(Default)]
pub(super) struct Waiting {
    keys: Vec<u64>,
    tasks: Vec<u32>,
    times_ns: Vec<u64>,
    /// Accesses to pages that are charged to another cgroup.
    served: Vec<u64>,
    gone: HashSet<u64>,
    /// Removed pages, each list with the number of accesses that came before it.
    cuts: Vec<(usize, Vec<u64>)>,
}

impl Waiting {
    pub(super) fn take(&mut self, event: &Event) {
        let key = event.record.sample_key();
        match event.kind {
            EventKind::Access => {
                if self.gone.contains(&key) {
                    self.cuts.push((self.keys.len(), self.gone.drain().collect()));
                }
                self.keys.push(key);
                self.tasks.push(event.record.task);
                self.times_ns.push(event.record.time_ns);
            }
            EventKind::AccessElsewhere => self.served.push(key),
            EventKind::Removal => {
                self.gone.insert(key);
            }
        }
    }

    /// Number of accesses that wait.
    pub(super) fn accesses(&self) -> usize {
        self.keys.len() + self.served.len()
    }

    /// Drops the accesses to pages whose hash is not below `threshold`, and returns their number.
    pub(super) fn thin(&mut self, threshold: u64) -> u64 {
        let before = self.accesses();
        let (mut kept, mut cut) = (0, 0);
        for at in 0..self.keys.len() {
            while cut < self.cuts.len() && self.cuts[cut].0 == at {
                self.cuts[cut].0 = kept;
                cut += 1;
            }
            if page_hash(self.keys[at]) < threshold {
                self.keys[kept] = self.keys[at];
                self.tasks[kept] = self.tasks[at];
                self.times_ns[kept] = self.times_ns[at];
                kept += 1;
            }
        }
        self.cuts[cut..].iter_mut().for_each(|(end, _)| *end = kept);
        self.keys.truncate(kept);
        self.tasks.truncate(kept);
        self.times_ns.truncate(kept);
        self.served.retain(|&key| page_hash(key) < threshold);
        (before - self.accesses()) as u64
    }

    /// Lets the curves learn from the waiting accesses, which are the sample of `accesses` in all.
    ///
    /// # Errors
    /// Returns the error of the simulation.
    pub(super) fn feed(&mut self, curves: &mut TenantCurves, accesses: u64) -> Result<()> {
        self.cuts.push((self.keys.len(), self.gone.drain().collect()));
        let mut begin = 0;
        let mut passed = 0;
        for (end, gone) in &self.cuts {
            let until = self.share(*end, accesses);
            let part = begin..*end;
            let (keys, times_ns) = (&self.keys[part.clone()], &self.times_ns[part.clone()]);
            curves.feed_sampled(
                Requests { keys, tasks: &self.tasks[part], times_ns },
                until - passed,
            )?;
            if !gone.is_empty() {
                curves.forget(gone)?;
            }
            (begin, passed) = (*end, until);
        }
        curves.serve(&self.served);
        Ok(())
    }

    /// The part of all accesses that belongs to the first `end` sampled ones.
    fn share(&self, end: usize, accesses: u64) -> u64 {
        match self.keys.len() {
            all if end >= all => accesses,
            all => (u128::from(accesses) * end as u128 / all as u128) as u64,
        }
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.tasks.clear();
        self.times_ns.clear();
        self.served.clear();
        self.gone.clear();
        self.cuts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::CurvesConfig;
    use cachepilot_models::trace::Record;

    fn event(kind: EventKind, index: u64) -> Event {
        let record = Record { index, inode: 1, ..Record::default() };
        Event { record, mmap: false, kind }
    }

    /// Miss ratio at 90 pages of rounds over 80 pages that stay and 15 that are removed at the end
    /// of a round and written again in the next one.
    fn miss_ratio(told: bool) -> f64 {
        let config = CurvesConfig { sizes_pages: vec![90], half_life: 2000, ..Default::default() };
        let mut curves = TenantCurves::new(&config).unwrap();
        for _ in 0..60 {
            let mut waiting = Waiting::default();
            for _ in 0..4 {
                (0..95).for_each(|page| waiting.take(&event(EventKind::Access, page)));
                if told {
                    (80..95).for_each(|page| waiting.take(&event(EventKind::Removal, page)));
                }
            }
            waiting.feed(&mut curves, 4 * 95).unwrap();
        }
        curves.curves().unwrap().miss_ratio[0].into()
    }

    #[test]
    fn pages_are_removed_before_they_are_added_again() {
        let (without, with) = (miss_ratio(false), miss_ratio(true));
        assert!(without > 0.95, "{without}");
        // The removed pages miss, and so do at most as many others, which they evict.
        assert!((0.13..0.33).contains(&with), "{with}");
    }

    #[test]
    fn thinned_events_keep_their_order_and_removals() {
        let mut waiting = Waiting::default();
        for page in 0..1000 {
            waiting.take(&event(EventKind::Access, page));
            if page == 500 {
                waiting.take(&event(EventKind::Removal, 3));
                waiting.take(&event(EventKind::Access, 3));
            }
        }
        let all = waiting.keys.clone();
        let threshold = u64::MAX / 4;
        let kept = |keys: &[u64]| -> Vec<u64> {
            keys.iter().copied().filter(|&key| page_hash(key) < threshold).collect()
        };
        let (before, cut) = (kept(&all[..501]).len(), waiting.cuts[0].1.clone());
        assert_eq!(waiting.thin(threshold) as usize, all.len() - kept(&all).len());
        assert_eq!((waiting.keys.clone(), waiting.cuts.clone()), (kept(&all), vec![(before, cut)]));
        assert_eq!(
            (waiting.tasks.len(), waiting.times_ns.len()),
            (waiting.keys.len(), waiting.keys.len())
        );
    }

    #[test]
    fn pages_charged_to_others_hit_and_are_still_counted() {
        let config = CurvesConfig { sizes_pages: vec![90], half_life: 2000, ..Default::default() };
        let mut curves = TenantCurves::new(&config).unwrap();
        for round in 0..200 {
            let mut waiting = Waiting::default();
            // Each page of the tenant's own is new.
            for page in 0..50 {
                waiting.take(&event(EventKind::Access, 1000 + 50 * round + page));
                waiting.take(&event(EventKind::AccessElsewhere, page));
            }
            assert_eq!(waiting.accesses(), 100);
            waiting.feed(&mut curves, 100).unwrap();
        }
        let ratio = curves.curves().unwrap().miss_ratio[0];
        assert!((ratio - 0.5).abs() < 0.02, "{ratio}");
    }
}
