// SPDX-License-Identifier: Apache-2.0
//! Tests of node time and the clock, and a measurement of the simulation's speed.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that tests move, and that advances by `cost_us` with every read.
struct ManualClock {
    now_us: Arc<AtomicU64>,
    cost_us: Arc<AtomicU64>,
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        let cost_us = self.cost_us.load(Ordering::Relaxed);
        Duration::from_micros(self.now_us.fetch_add(cost_us, Ordering::Relaxed))
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn real_time_follows_the_clock_and_lags_openly_when_the_host_is_slow() {
    let (now_us, cost_us) = (Arc::new(AtomicU64::new(5_000_000)), Arc::new(AtomicU64::new(0)));
    let clock = ManualClock { now_us: now_us.clone(), cost_us: cost_us.clone() };
    let config: SimulationConfig = toml::from_str(TWO).unwrap();
    let mut node = SimulatedNode::with_clock(config, curves(), Box::new(clock)).unwrap();
    assert_eq!(node.pace(), Pace::RealTime);
    let time_us = |node: &mut SimulatedNode| node.observe().unwrap().time_us;
    assert_eq!(time_us(&mut node), 5_000_000);
    now_us.fetch_add(100_000, Ordering::Relaxed);
    node.tick(7 * MS).unwrap();
    assert_eq!((time_us(&mut node), node.lag()), (5_100_000, Lag::default()));
    let calls = counters(&mut node, "/kv").read_calls_total;
    assert!(calls > 500, "{calls}");

    // Every slice of 2 ms now takes 4 ms.
    cost_us.store(4_000, Ordering::Relaxed);
    now_us.fetch_add(100_000, Ordering::Relaxed);
    node.tick(100 * MS).unwrap();
    let lag = node.lag();
    assert!(time_us(&mut node) < 5_200_000 && lag.behind > 100 * MS, "{lag:?}");
    assert_eq!((lag.late_ticks_total, lag.worst), (1, lag.behind));

    // The node catches up and skips nothing.
    cost_us.store(0, Ordering::Relaxed);
    node.tick(100 * MS).unwrap();
    assert_eq!(time_us(&mut node), now_us.load(Ordering::Relaxed));
    assert_eq!((node.lag().behind, node.lag().worst), (Duration::ZERO, lag.worst));
}

#[test]
fn virtual_time_passes_by_ticks_and_begins_at_a_fixed_moment() {
    let mut node = virtual_node(TWO);
    assert_eq!(node.pace(), Pace::Lockstep);
    node.tick(1_234 * MS).unwrap();
    assert_eq!(node.observe().unwrap().time_us, 1_767_225_601_234_000);
}

/// CPU time of this thread, seconds.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Measures four tenants that mostly hit, each with another policy: accesses per second of one
/// core. Run by `cargo test --release -p cachepilot-agent --lib accesses_per_second -- --ignored
/// --nocapture`.
#[test]
#[ignore = "a measurement"]
fn accesses_per_second() {
    for accesses_per_op in [1, 4, 16] {
        let tenant = |i: u32| {
            format!(
                "[[tenant]]\ncgroup = \"/t{i}\"\nconcurrency = 16\nservice_us = 20.0\n\
                 accesses_per_op = {accesses_per_op}\nlimit_bytes = 67108864\nphase = \
                 [{{ source = {{ kind = \"zipf\", alpha = 1.1, pages = 200000 }} }}]\n"
            )
        };
        let tenants: String = (0..4).map(tenant).collect();
        let mut node = virtual_node(&format!("budget_bytes = 268435456\n{tenants}"));
        for (i, policy) in ["default", "s3fifo", "lfu", "lru"].into_iter().enumerate() {
            let action = wire::Action {
                cgroup: format!("/t{i}"),
                cgroup_id: i as u64 + 1,
                policy: Some(policy.into()),
                ..Default::default()
            };
            node.apply(&action);
        }
        run(&mut node, 1.0);
        let total = |node: &mut SimulatedNode| -> (u64, u64) {
            let seen = node.observe().unwrap();
            let counters = seen.tenants.into_iter().map(|t| t.counters.unwrap());
            counters.fold((0, 0), |(a, m), c| (a + c.accesses_total, m + c.misses_total))
        };
        let before = total(&mut node);
        let start = processor_seconds();
        run(&mut node, 1.0);
        let seconds = processor_seconds() - start;
        let after = total(&mut node);
        let accesses = (after.0 - before.0) as f64;
        let miss_ratio = (after.1 - before.1) as f64 / accesses;
        let speed = accesses / seconds / 1e6;
        eprintln!("{accesses_per_op} per operation: {speed:.2} M/s, miss ratio {miss_ratio:.3}");
    }
}
