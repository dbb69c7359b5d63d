// SPDX-License-Identifier: Apache-2.0
//! Tests of units whose cgroups are gone and whose limits a substitute for systemd restores.

use super::*;
use crate::managers::Settings;
use crate::managers::played::{Played, played};
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::runtime::Runtime;

const DROP_IN: &str = "/run/systemd/system.control/x.service.d/50-MemoryHigh.conf";
/// The unit that does not answer is first in the order.
const SLOW: &str = "/system.slice/slow.service";
const DB: &str = "/system.slice/db.service";

struct Units {
    bench: Bench,
    runtime: Runtime,
    played: Played,
}

impl Units {
    /// Units whose limits an earlier agent lowered from 200 MiB, before the agents under test.
    fn new() -> Self {
        let bench = Bench::new(&["/system.slice", SLOW, DB]);
        let runtime = Runtime::new().unwrap();
        let played = runtime.block_on(played(bench.fake.dir.path(), &[DROP_IN]));
        played.is_silent.store(true, Ordering::Relaxed);
        let mut node = bench.node(true, Self::config());
        for unit in [SLOW, DB] {
            bench.fake.write(unit, "memory.high", &format!("{}\n", 200 * MIB));
            let applied = node.apply(&bench.action(unit, None, Some(100 * MIB)));
            assert_eq!(applied.outcome(), Outcome::Applied);
        }
        Self { bench, runtime, played }
    }

    fn config() -> KernelConfig {
        KernelConfig { root: "/system.slice".into(), ..KernelConfig::default() }
    }

    fn node(&self) -> KernelNode {
        let proc = self.bench.fake.dir.path().join("proc");
        let settings = Settings { proc, systemd: true, sockets: vec![] };
        let managers = Managers::with(settings, Some(Arc::clone(&self.played.systemd))).unwrap();
        let _of_the_agent = self.runtime.enter();
        self.bench.node_beside(true, Some(managers), Self::config())
    }

    fn go(&self) {
        for unit in [SLOW, DB] {
            fs::remove_dir_all(self.bench.fake.fs().dir(unit)).unwrap();
        }
    }

    /// The units that got back their first limit.
    fn given_back(&self) -> Vec<String> {
        let set = self.played.set.lock().unwrap();
        assert!(set.iter().all(|&(_, runtime, bytes)| runtime && bytes == 200 * MIB), "{set:?}");
        set.iter().map(|(name, ..)| name.clone()).collect()
    }

    /// Checks that a request without an answer is kept and tried again until there is one.
    fn ends_well(&self, node: &mut KernelNode) {
        assert_eq!(
            self.given_back(),
            ["db.service MemoryHigh"],
            "one that waits holds up no other"
        );
        let kept = |node: &KernelNode| -> Vec<String> {
            node.ledger.entries().values().map(|initial| initial.cgroup.clone()).collect()
        };
        assert_eq!(kept(node), [SLOW]);
        node.tick(SCAN_INTERVAL).unwrap();
        assert_eq!(kept(node), [SLOW]);
        let results = node.release();
        let left: Vec<&wire::Result> = results.iter().filter(|result| result.is_left()).collect();
        assert!(
            left.len() == 1 && left[0].reason.contains("systemd does not answer"),
            "{results:?}"
        );
        self.played.is_silent.store(false, Ordering::Relaxed);
        let began = Instant::now();
        while !kept(node).is_empty() {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(10));
            node.tick(SCAN_INTERVAL).unwrap();
        }
        assert_eq!(self.given_back(), ["db.service MemoryHigh", "slow.service MemoryHigh"]);
        assert!(node.release().iter().all(|result| !result.is_left()));
    }
}

#[test]
fn a_unit_that_ended_before_the_agent_began_regains_its_limit() {
    let units = Units::new();
    units.go();
    let mut node = units.node();
    units.ends_well(&mut node);
}

#[test]
fn a_unit_that_ends_while_the_agent_runs_regains_its_limit() {
    let units = Units::new();
    let mut node = units.node();
    units.go();
    node.tick(SCAN_INTERVAL).unwrap();
    units.ends_well(&mut node);
}
