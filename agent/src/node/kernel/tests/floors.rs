// SPDX-License-Identifier: Apache-2.0
//! Tests of limits that rise with the memory that cannot be reclaimed, between two observations.

use super::*;

const TICK: Duration = Duration::from_millis(50);
const PER_SECOND: u64 = 64 * MIB;

/// Gives the tenant this much anonymous memory, which is all that it uses.
fn anonymous(bench: &Bench, bytes: u64) {
    bench.fake.write("/a", "memory.stat", &format!("anon {bytes}\nfile 0\n"));
    bench.fake.uses("/a", bytes);
}

fn high(bench: &Bench) -> u64 {
    bench.fake.read("/a", "memory.high").parse().unwrap()
}

/// Lets a second of ticks pass, in which anonymous memory grows by `bytes`. Returns how far the limit
/// was below it at most.
fn grows(bench: &Bench, node: &mut KernelNode, from: u64, bytes: u64) -> u64 {
    let ticks = 20;
    let mut most = 0;
    for tick in 1..=ticks {
        let now = from + bytes * tick / ticks;
        anonymous(bench, now);
        most = most.max(now.saturating_sub(high(bench)));
        node.tick(TICK).unwrap();
    }
    most
}

#[test]
fn a_limit_at_its_floor_follows_memory_that_grows_between_observations() {
    let bench = Bench::new(&["/a"]);
    anonymous(&bench, 100 * MIB);
    let config = KernelConfig { margin_bytes: 16 * MIB, ..KernelConfig::default() };
    let mut node = bench.node(true, config);
    node.apply(&bench.action("/a", None, Some(116 * MIB)));
    node.observe().unwrap();
    // The controller looks at the node every 60 s.
    for second in 0..60 {
        let from = 100 * MIB + second * PER_SECOND;
        let below = grows(&bench, &mut node, from, PER_SECOND);
        // The growth is not known before it was seen once.
        let allowed = if second == 0 { PER_SECOND - 16 * MIB } else { 0 };
        assert!(below <= allowed, "{} MiB in second {second}", below / MIB);
        let room = high(&bench) - (from + PER_SECOND);
        assert!(room >= PER_SECOND, "{} MiB after second {second}", room / MIB);
        assert!(room <= PER_SECOND + 17 * MIB, "{} MiB after second {second}", room / MIB);
    }
    let tenant = node.observe().unwrap().tenants.remove(0);
    assert_eq!(tenant.floor_bytes, tenant.anon_bytes + 16 * MIB, "the floor is without growth");
    assert_eq!(tenant.interference.matches("the floor rose").count(), 1);
    let results = node.release();
    assert_eq!(results[0].outcome(), Outcome::Applied);
}

#[test]
fn a_limit_far_above_the_floor_is_not_looked_at() {
    let bench = Bench::new(&["/a"]);
    anonymous(&bench, 100 * MIB);
    let mut node = bench.start();
    node.apply(&bench.action("/a", None, Some(100 * 1024 * MIB)));
    node.observe().unwrap();
    // A read would count as failed.
    bench.fake.refuse("/a", "memory.stat");
    for _ in 0..100 {
        node.tick(TICK).unwrap();
    }
    assert_eq!(node.failed_reads, 0);
}

#[test]
fn a_look_that_fails_is_tried_again_after_a_second() {
    let bench = Bench::new(&["/a"]);
    anonymous(&bench, 100 * MIB);
    let mut node = bench.start();
    node.apply(&bench.action("/a", None, Some(116 * MIB)));
    node.observe().unwrap();
    bench.fake.refuse("/a", "memory.stat");
    for _ in 0..100 {
        node.tick(TICK).unwrap();
    }
    assert_eq!(node.failed_reads, 5);
}

#[test]
fn a_limit_of_the_operator_stays_below_the_floor() {
    let bench = Bench::new(&["/a"]);
    anonymous(&bench, 100 * MIB);
    bench.fake.write("/a", "memory.high", &format!("{}\n", 110 * MIB));
    let mut node = bench.start();
    grows(&bench, &mut node, 100 * MIB, PER_SECOND);
    grows(&bench, &mut node, 100 * MIB + PER_SECOND, PER_SECOND);
    assert_eq!(high(&bench), 110 * MIB);
}

#[test]
fn a_limit_that_another_program_changed_is_not_lifted_before_that_is_seen() {
    let bench = Bench::new(&["/a"]);
    anonymous(&bench, 100 * MIB);
    let mut node = bench.start();
    node.apply(&bench.action("/a", None, Some(116 * MIB)));
    node.observe().unwrap();
    bench.fake.write("/a", "memory.high", &format!("{}\n", 90 * MIB));
    for second in 0..3 {
        anonymous(&bench, (130 + 20 * second) * MIB);
        for _ in 0..20 {
            node.tick(TICK).unwrap();
        }
        assert_eq!(high(&bench), 90 * MIB);
    }
}
