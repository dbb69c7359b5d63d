// SPDX-License-Identifier: Apache-2.0
//! Tests of the object file, and of the counts with a kernel that is played.

use super::kernel::{Kernel, REST, Read};
use super::*;
use crate::bpf::layout;
use libbpf_rs::btf::{Btf, HasSize};
use std::cell::RefCell;
use std::collections::BTreeMap;

#[test]
fn layouts_and_programs_are_those_of_the_object_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("watch.bpf.o");
    std::fs::write(&file, OBJECT).unwrap();
    let types = Btf::from_path(&file).unwrap();
    for (name, bytes) in [
        ("cache_ext_counts", layout::KERNEL_COUNTS_BYTES),
        ("tenant_counts", layout::COUNTS_BYTES),
        ("watch_request", layout::REQUEST_BYTES),
        ("counts_request", layout::COUNTS_REQUEST_BYTES),
        ("counts_answer", layout::COUNTS_ANSWER_BYTES),
    ] {
        let found = types.type_by_name::<kinds::Struct<'_>>(name).unwrap();
        assert_eq!(found.size(), bytes, "{name}");
    }
    let open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
    let mut programs: Vec<String> =
        open.progs().map(|p| p.name().to_string_lossy().into_owned()).collect();
    programs.sort();
    let mut known: Vec<&str> = ATTACHED.iter().map(|program| program.0).collect();
    known.extend(["read_counts", REST, "unwatch", "watch"]);
    known.sort_unstable();
    assert_eq!(programs, known);
}

/// A kernel that is played. All of its counts are of accesses.
#[derive(Default)]
struct Played(RefCell<State>);

#[derive(Default)]
struct State {
    /// The threshold, the accesses and the pages left out of each watched cgroup.
    watched: BTreeMap<u64, (u64, u64, u64)>,
    /// The slot, the threshold and the pages looked at of each tracked cgroup.
    tracked: BTreeMap<u64, (u32, u64, u64)>,
    /// Cgroups without a memory controller.
    without: Vec<u64>,
    /// Cgroups whose counts cannot be read.
    unreadable: Vec<u64>,
    /// Cgroups that cannot be tracked.
    untrackable: Vec<u64>,
}

impl Kernel for Played {
    type Attached = ();

    fn watch(&self, cgroup_id: u64, threshold: u64) -> Result<bool> {
        let State { watched, without, .. } = &mut *self.0.borrow_mut();
        if without.contains(&cgroup_id) {
            return Ok(false);
        }
        watched.entry(cgroup_id).or_default().0 = threshold;
        Ok(true)
    }

    fn unwatch(&self, cgroup_id: u64) {
        self.0.borrow_mut().watched.remove(&cgroup_id);
    }

    fn read(&self, cgroup_ids: &[u64]) -> Result<Vec<Read>> {
        let State { watched, unreadable, .. } = &*self.0.borrow();
        let read = |id: &u64| match watched.get(id) {
            _ if unreadable.contains(id) => Err(Error::Sampler("no memory".into())),
            Some(&(_, accesses, left_out)) => Ok(Some((counts(accesses), left_out))),
            None => Ok(None),
        };
        Ok(cgroup_ids.iter().map(read).collect())
    }

    fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()> {
        let State { tracked, untrackable, .. } = &mut *self.0.borrow_mut();
        if untrackable.contains(&cgroup_id) {
            return Err(Error::Sampler("no memory".into()));
        }
        let entry = tracked.entry(cgroup_id).or_default();
        (entry.0, entry.1) = (slot, threshold);
        Ok(())
    }

    fn close(&self, cgroup_id: u64) {
        self.0.borrow_mut().tracked.remove(&cgroup_id);
    }

    fn share(&self, cgroup_id: u64) -> Result<(Losses, u64)> {
        let rest_pages = self.0.borrow().tracked.get(&cgroup_id).map_or(0, |entry| entry.2);
        Ok((Losses::default(), rest_pages))
    }

    fn attach_rest(&self) -> std::result::Result<(), String> {
        Ok(())
    }
}

fn counts(accesses: u64) -> Counts {
    Counts { accesses, ..Counts::default() }
}

/// Two cgroups that are tracked, in slots of their own.
fn two() -> Members<Played> {
    let members = Members::new(Played::default());
    members.track(7, 1, 70).unwrap();
    members.track(8, 2, 80).unwrap();
    members
}

fn accessed(members: &Members<Played>, cgroup_id: u64, accesses: u64, left_out: u64) {
    let State { watched, .. } = &mut *members.kernel.0.borrow_mut();
    let entry = watched.get_mut(&cgroup_id).unwrap();
    (entry.1, entry.2) = (accesses, left_out);
}

fn accesses(members: &Members<Played>) -> BTreeMap<u32, u64> {
    members.counts().unwrap().into_iter().map(|(slot, counts)| (slot, counts.accesses)).collect()
}

#[test]
fn counts_are_read_again_each_time() {
    let members = two();
    for total in [10, 30] {
        accessed(&members, 7, total, 0);
        assert_eq!(accesses(&members), BTreeMap::from([(1, total), (2, 0)]));
    }
    members.forget(7);
    members.track(9, 1, 90).unwrap();
    accessed(&members, 9, 5, 0);
    assert_eq!(accesses(&members)[&1], 35, "a slot keeps what left it");
    members.clear(1);
    assert_eq!(accesses(&members)[&1], 5);
}

#[test]
fn a_watch_that_is_gone_is_requested_anew_and_its_counts_go_on() {
    let members = two();
    accessed(&members, 7, 10, 3);
    assert_eq!((accesses(&members)[&1], members.unsampled_pages()), (10, 3));
    // The program that looks at the rest is attached now. It looked at one page.
    members.kernel.0.borrow_mut().tracked.get_mut(&7).unwrap().2 = 1;
    accessed(&members, 7, 20, 5);
    assert_eq!((accesses(&members)[&1], members.unsampled_pages()), (20, 4));

    members.kernel.unwatch(7);
    assert_eq!((accesses(&members)[&1], members.unsampled_pages()), (20, 4));
    let state = || members.kernel.0.borrow();
    assert_eq!((state().watched[&7], state().tracked[&7]), ((70, 0, 0), (1, 70, 0)));
    accessed(&members, 7, 4, 2);
    assert_eq!((accesses(&members)[&1], members.unsampled_pages()), (24, 6));
    assert_eq!(members.losses_of(7).unwrap().unsampled_pages, 2, "of this watch");
}

#[test]
fn counts_that_begin_again_are_added_to_those_before() {
    let members = two();
    accessed(&members, 7, 10, 0);
    accesses(&members);
    accessed(&members, 7, 4, 0);
    assert_eq!(accesses(&members), BTreeMap::from([(1, 14), (2, 0)]));
}

#[test]
fn counts_before_a_new_watch_count_once_if_tracking_fails_at_first() {
    let members = two();
    accessed(&members, 7, 10, 3);
    accesses(&members);
    accessed(&members, 7, 4, 1);
    members.kernel.0.borrow_mut().untrackable.push(7);
    for _ in 0..3 {
        assert!(!accesses(&members).contains_key(&1), "the slot is not read");
    }
    members.kernel.0.borrow_mut().untrackable.clear();
    assert_eq!((accesses(&members)[&1], members.unsampled_pages()), (14, 4));
}

#[test]
fn a_cgroup_that_lost_its_memory_controller_is_watched_when_it_has_one_again() {
    let members = two();
    accessed(&members, 7, 10, 0);
    accesses(&members);
    members.kernel.0.borrow_mut().without.push(7);
    members.kernel.unwatch(7);
    assert_eq!(accesses(&members)[&1], 10);
    assert!(!members.kernel.0.borrow().watched.contains_key(&7));
    members.kernel.0.borrow_mut().without.clear();
    assert_eq!(accesses(&members)[&1], 10);
    assert!(members.kernel.0.borrow().watched.contains_key(&7));
}

#[test]
fn a_slot_of_which_a_cgroup_cannot_be_read_has_no_counts() {
    let members = two();
    members.kernel.0.borrow_mut().unreadable.push(8);
    accessed(&members, 7, 10, 0);
    assert_eq!(accesses(&members), BTreeMap::from([(1, 10)]));
}

#[test]
fn alone_a_cgroup_that_is_watched_already_is_refused() {
    let kernel = Played::default();
    kernel.watch(7, 1).unwrap();
    let mut members = Members::new(kernel);
    members.be_alone();
    let error = members.track(7, 1, 70).unwrap_err().to_string();
    assert!(error.contains("cgroup 7: watched for another program"), "{error}");
    members.track(8, 2, 80).unwrap();
    members.end();
    assert_eq!(members.kernel.0.borrow().watched.keys().collect::<Vec<_>>(), [&7]);
}
