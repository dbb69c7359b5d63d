// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::error::Error;
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const TICK: Duration = Duration::from_millis(50);

/// Exists while the kernel counts.
struct Held(Arc<AtomicU64>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A kernel in which tenant 1 makes accesses, each of which costs its policy 300 ns.
#[derive(Default)]
struct Kernel {
    held: Arc<AtomicU64>,
    begun: Cell<u32>,
    looks: Cell<u32>,
    counted_ms: Cell<u64>,
    totals: RefCell<BTreeMap<u64, Totals>>,
}

impl Kernel {
    fn with(table_id: u32) -> Self {
        let kernel = Self::default();
        kernel.attach(table_id);
        kernel
    }

    fn attach(&self, table_id: u32) {
        self.totals.borrow_mut().insert(1, Totals { table_id, run_ns: 0, accesses: 0 });
    }

    fn is_counting(&self) -> bool {
        self.held.load(Ordering::Relaxed) > 0
    }

    fn pass(&self, costs: &mut PolicyCosts, ticks: u32, accesses: u64) {
        for _ in 0..ticks {
            if self.is_counting() {
                self.counted_ms.set(self.counted_ms.get() + 50);
            }
            for one in self.totals.borrow_mut().values_mut() {
                one.accesses += accesses;
                one.run_ns += if self.is_counting() { 300 * accesses } else { 0 };
            }
            costs.advance(
                TICK,
                || {
                    self.begun.set(self.begun.get() + 1);
                    self.held.fetch_add(1, Ordering::Relaxed);
                    Ok(Box::new(Held(Arc::clone(&self.held))))
                },
                || {
                    self.looks.set(self.looks.get() + 1);
                    self.totals.borrow().clone()
                },
            );
        }
    }
}

fn following(policy: &str) -> PolicyCosts {
    let mut costs = PolicyCosts::default();
    costs.follow([(1, policy)].into_iter());
    costs
}

#[test]
fn run_time_is_of_the_accesses_of_the_same_time() {
    let (kernel, mut costs) = (Kernel::with(7), following("lfu"));
    kernel.pass(&mut costs, 39, 100);
    assert_eq!(costs.us_per_access(1, "lfu"), None, "not before a window is over");
    kernel.pass(&mut costs, 1, 100);
    assert_eq!(costs.us_per_access(1, "lfu"), Some(0.3));
    assert_eq!((costs.us_per_access(1, "mru"), costs.us_per_access(2, "lfu")), (None, None));
}

#[test]
fn run_time_is_counted_for_ten_seconds_and_then_one_in_thirty() {
    let (kernel, mut costs) = (Kernel::with(7), following("lfu"));
    kernel.pass(&mut costs, 12 * 20, 100);
    assert_eq!((kernel.counted_ms.get(), kernel.begun.get()), (10_000, 1));
    kernel.counted_ms.set(0);
    kernel.pass(&mut costs, 300 * 20, 100);
    assert_eq!((kernel.counted_ms.get(), kernel.begun.get()), (10_000, 11));
    costs.follow([(1, "mru")].into_iter());
    kernel.counted_ms.set(0);
    kernel.pass(&mut costs, 11 * 20, 100);
    assert!(kernel.counted_ms.get() >= 9_000, "{}", kernel.counted_ms.get());
}

#[test]
fn without_a_policy_nothing_is_counted_or_read() {
    let (kernel, mut costs) = (Kernel::with(7), following(DEFAULT_POLICY));
    kernel.pass(&mut costs, 100 * 20, 100);
    assert_eq!((kernel.begun.get(), kernel.looks.get()), (0, 0));
    // Counting also ends if the last policy is detached within a window.
    let mut costs = following("lfu");
    kernel.pass(&mut costs, 30, 100);
    assert!(kernel.is_counting());
    costs.follow([(1, DEFAULT_POLICY)].into_iter());
    kernel.pass(&mut costs, 20 * 20, 100);
    assert!(!kernel.is_counting());
    assert_eq!(costs.us_per_access(1, "lfu"), None);
}

#[test]
fn few_accesses_are_summed_up_until_they_say_something() {
    let (kernel, mut costs) = (Kernel::with(7), following("lfu"));
    kernel.pass(&mut costs, 4 * 20, 10);
    assert_eq!(costs.us_per_access(1, "lfu"), None);
    kernel.pass(&mut costs, 8 * 20, 10);
    assert_eq!(costs.us_per_access(1, "lfu"), Some(0.3));
}

#[test]
fn a_policy_that_is_attached_again_starts_again() {
    let (kernel, mut costs) = (Kernel::with(7), following("lfu"));
    kernel.pass(&mut costs, 30, 100);
    kernel.attach(8);
    kernel.pass(&mut costs, 10, 100);
    assert_eq!(costs.us_per_access(1, "lfu"), None, "a window with both is of neither");
    kernel.pass(&mut costs, 20, 100);
    assert_eq!(costs.us_per_access(1, "lfu"), Some(0.3));
}

#[test]
fn unreadable_run_times_stay_unknown() {
    let (kernel, mut costs) = (Kernel::default(), following("lfu"));
    kernel.pass(&mut costs, 100 * 20, 100);
    assert_eq!(costs.us_per_access(1, "lfu"), None);
}

#[test]
fn a_kernel_that_does_not_count_is_asked_once() {
    let (mut costs, asked) = (following("lfu"), Cell::new(0));
    for _ in 0..100 * 20 {
        costs.advance(
            TICK,
            || {
                asked.set(asked.get() + 1);
                Err(Error::kernel("counting")(io::ErrorKind::PermissionDenied.into()))
            },
            || unreachable!("nothing is counted"),
        );
    }
    assert_eq!((asked.get(), costs.us_per_access(1, "lfu")), (1, None));
}

#[test]
fn paths_above_a_path_are_those_of_its_folders() {
    assert_eq!(ancestors("/a/b-c/d").collect::<Vec<_>>(), ["/a/b-c/d", "/a/b-c", "/a", ""]);
}
