// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::bpf::layout::Counts;
use crate::cgroup::Cgroup;
use crate::node::kernel::fake::{Fake, MIB};
use crate::node::kernel::policy::{Counting, Deciding};
use crate::node::kernel::sampling::tests::Source;
use crate::policies::memory::PolicyMemory;
use crate::wire::result::Outcome;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};

/// Policies by the id of their cgroup, like those of a kernel and its pins.
#[derive(Clone, Default)]
struct Kernel(
    Arc<Mutex<BTreeMap<u64, Deciding>>>,
    Arc<Mutex<BTreeMap<u64, Vec<u32>>>>,
    Arc<Mutex<u64>>,
    Locked,
    TooLarge,
);

/// Policies for which no memory is left.
type TooLarge = Arc<Mutex<Vec<&'static str>>>;

/// Number of attempts to set tasks while another process changes policies; `None` while none does.
type Locked = Arc<Mutex<Option<u32>>>;

/// The policies that decide if nothing was set.
fn untouched() -> Deciding {
    let default = || "default".to_owned();
    Deciding { name: default(), own: default(), ejected: None, readahead: None }
}

impl Kernel {
    fn tasks_of(&self, id: u64) -> Vec<u32> {
        self.1.lock().unwrap().get(&id).cloned().unwrap_or_default()
    }

    fn set(&self, id: u64, name: &str, ejected: Option<&str>) {
        let mut deciding = self.0.lock().unwrap();
        let deciding = deciding.entry(id).or_insert_with(untouched);
        (deciding.name, deciding.own) = (name.into(), name.into());
        deciding.ejected = ejected.map(Into::into);
    }
    fn reads_ahead(&self, id: u64, readahead: Option<wire::Readahead>) {
        self.0.lock().unwrap().entry(id).or_insert_with(untouched).readahead = readahead;
    }
    fn of(&self, id: u64) -> String {
        self.0.lock().unwrap().get(&id).map_or("default".into(), |d| d.name.clone())
    }
}

impl PolicyControl for Kernel {
    fn names(&self) -> Vec<String> {
        ["get_scan", "lfu", "lfu:wide", "mru"].map(Into::into).to_vec()
    }
    fn deciding(&self, cgroup: &Cgroup) -> Result<Deciding> {
        fs::metadata(&cgroup.path).map_err(Error::io(&cgroup.path))?;
        let known = self.0.lock().unwrap();
        let mut deciding = known.get(&cgroup.id).cloned().unwrap_or_else(untouched);
        let has_own = |one: &&Deciding| one.own != "default" || one.ejected.is_some();
        let held = |dir: &Path| known.get(&fs::metadata(dir).ok()?.ino()).filter(has_own);
        if let Some(nearest) = cgroup.path.ancestors().find_map(held) {
            (deciding.name, deciding.ejected) = (nearest.name.clone(), nearest.ejected.clone());
        }
        Ok(deciding)
    }
    fn change(&self, cgroup: &Cgroup, policy: &str, tasks: &[u32]) -> Result<()> {
        if self.4.lock().unwrap().contains(&policy) {
            PolicyMemory { mib: 1 }.check(policy, 1 << 20, 1)?;
        }
        self.set(cgroup.id, policy, None);
        self.set_tasks(cgroup, tasks)
    }
    fn set_tasks(&self, cgroup: &Cgroup, tasks: &[u32]) -> Result<()> {
        if let Some(tried) = self.3.lock().unwrap().as_mut() {
            *tried += 1;
            return Err(Error::Locked("/pins".into()));
        }
        self.1.lock().unwrap().insert(cgroup.id, tasks.to_vec());
        Ok(())
    }
    fn renew(&self) {}
    fn sweep(&self) -> Result<()> {
        // Ids are never reused, so leftovers do no harm here.
        Ok(())
    }
    fn count_run_time(&self) -> Result<Counting> {
        Ok(Box::new(()))
    }
    fn run_time_ns(&self, cgroup: &Cgroup) -> Result<Option<(u32, u64)>> {
        if self.of(cgroup.id) == "default" {
            return Ok(None);
        }
        // The run time grows by two milliseconds per call.
        let mut run_ns = self.2.lock().unwrap();
        *run_ns += 2_000_000;
        Ok(Some((1, *run_ns)))
    }
}

struct Bench {
    fake: Fake,
    kernel: Kernel,
    source: Source,
}

impl Bench {
    fn new(cgroups: &[&str]) -> Self {
        let fake = Fake::new(cgroups);
        let proc = fake.dir.path().join("proc");
        fs::create_dir_all(proc.join("sys/kernel/random")).unwrap();
        fs::write(proc.join("sys/kernel/random/boot_id"), "b1\n").unwrap();
        fs::write(proc.join("sys/kernel/osrelease"), "6.12.0-test\n").unwrap();
        fs::write(proc.join("meminfo"), "MemTotal: 4194304 kB\nSwapFree: 0 kB\n").unwrap();
        let cpu = fake.dir.path().join("sys/devices/system/cpu");
        fs::create_dir_all(&cpu).unwrap();
        fs::write(cpu.join("online"), "0-1,3\n").unwrap();
        Self { fake, kernel: Kernel::default(), source: Source::new() }
    }

    /// A node as after a start of the agent.
    fn node(&self, with_policies: bool, config: KernelConfig) -> KernelNode {
        self.node_beside(with_policies, None, config)
    }

    /// As [`Self::node`], with other programs that manage memory.
    fn node_beside(
        &self,
        with_policies: bool,
        managers: Option<Managers>,
        config: KernelConfig,
    ) -> KernelNode {
        let curves = CurvesConfig {
            sizes_pages: vec![64, 256],
            sample_pages: 64,
            half_life: 1000,
            ..CurvesConfig::default()
        };
        let dir = self.fake.dir.path();
        let policies = with_policies.then(|| Box::new(self.kernel.clone()) as _);
        let parts = Parts {
            fs: self.fake.fs(),
            host: Host::new(dir.join("proc"), dir.join("sys")),
            policies,
            source: Some(Box::new(self.source.clone())),
            managers,
        };
        // On a busy machine, a write takes longer than the time that a node waits between two
        // ticks.
        let config = KernelConfig { write_timeout_ms: 10_000, ..config };
        KernelNode::with_parts(config, curves, &dir.join("state"), parts).unwrap()
    }

    fn start(&self) -> KernelNode {
        self.node(true, KernelConfig { margin_bytes: MIB, ..KernelConfig::default() })
    }

    fn action(&self, cgroup: &str, policy: Option<&str>, limit: Option<u64>) -> wire::Action {
        wire::Action {
            cgroup: cgroup.into(),
            cgroup_id: self.fake.fs().id(cgroup).unwrap(),
            policy: policy.map(Into::into),
            limit_bytes: limit,
            ..Default::default()
        }
    }
}

fn names(observed: &Observation) -> Vec<&str> {
    observed.tenants.iter().map(|tenant| tenant.cgroup.as_str()).collect()
}

#[test]
fn cpus_that_cannot_be_read_are_not_known() {
    let bench = Bench::new(&["/a"]);
    fs::remove_file(bench.fake.path("/a", "cpu.stat")).unwrap();
    fs::write(bench.fake.dir.path().join("sys/devices/system/cpu/online"), "all\n").unwrap();
    let observed = bench.start().observe().unwrap();
    assert_eq!(observed.tenants[0].counters.as_ref().unwrap().cpu_time_us_total, None);
    assert_eq!((observed.cpus, observed.loss.failed_reads_total), (0, 0));
}

#[test]
fn a_tenant_is_shown_as_its_files_have_it() {
    let bench = Bench::new(&["/a"]);
    let mut node = bench.start();
    let id = bench.fake.fs().id("/a").unwrap();
    let counts = Counts { accesses: 9, misses: 4, read_time_ns: 7_900, ..Counts::default() };
    bench.source.0.lock().unwrap().counts.insert(0, counts);
    let observed = node.observe().unwrap();
    let tenant = &observed.tenants[0];
    assert_eq!((tenant.cgroup_id, tenant.policy.as_str()), (id, "default"));
    assert_eq!((tenant.limit_bytes, tenant.target_limit_bytes), (0, 0));
    assert_eq!(
        (tenant.floor_bytes, tenant.current_bytes, tenant.file_bytes),
        (MIB, 64 * MIB, 64 * MIB)
    );
    let counters = tenant.counters.as_ref().unwrap();
    assert_eq!(
        (counters.accesses_total, counters.misses_total, counters.read_time_us_total),
        (9, 4, 7)
    );
    assert_eq!((counters.block_reads_total, counters.memory_stall_us_total), (33, 11));
    assert_eq!((counters.cpu_time_us_total, observed.cpus), (Some(44), 3));
    assert_eq!(
        (tenant.trusted, tenant.distrust.as_str()),
        (false, "warming up: 0 sampled accesses of 48")
    );
    assert_eq!(observed.budget_bytes, (4 << 30) - 512 * MIB);
    assert_eq!(node.identity().kind, "cache_ext");
    assert_eq!(node.identity().capabilities, ["limits", "policies", "curves", "reads"]);
    assert_eq!(node.identity().boot, "b1", "what it set lasts as long as this boot");
}

#[test]
fn memory_max_is_a_limit_too_and_that_of_the_root_the_budget() {
    let bench = Bench::new(&["/jobs", "/jobs/a"]);
    bench.fake.write("/jobs", "memory.max", &format!("{}\n", 512 * MIB));
    bench.fake.write("/jobs/a", "memory.max", &format!("{}\n", 80 * MIB));
    let mut node = bench.node(true, KernelConfig { root: "/jobs".into(), ..<_>::default() });
    let observed = node.observe().unwrap();
    assert_eq!(observed.budget_bytes, 512 * MIB);
    assert_eq!(observed.tenants[0].limit_bytes, 80 * MIB);
    assert_eq!(observed.tenants[0].initial_limit_bytes, 80 * MIB);
}

#[test]
fn tenants_come_and_go_at_any_time() {
    let bench = Bench::new(&["/a"]);
    let mut node = bench.start();
    bench.fake.make("/b");
    assert_eq!(names(&node.observe().unwrap()), ["/a", "/b"]);
    let action = bench.action("/a", Some("lfu"), None);
    assert_eq!(node.apply(&action).outcome(), Outcome::Applied);
    let b = bench.action("/b", None, Some(100 * MIB));
    fs::remove_dir_all(bench.fake.fs().dir("/b")).unwrap();
    assert_eq!(node.apply(&b).outcome(), Outcome::Gone);
    fs::remove_dir_all(bench.fake.fs().dir("/a")).unwrap();
    assert_eq!(names(&node.observe().unwrap()), [""; 0]);
    assert!(node.ledger.entries().is_empty());
    assert_eq!(node.apply(&action).outcome(), Outcome::Gone);
    // A cgroup created since the last scan is found when an action names it.
    bench.fake.make("/c");
    let c = bench.action("/c", None, Some(100 * MIB));
    assert_eq!(node.apply(&c).outcome(), Outcome::Applied);
    assert_eq!(node.apply(&wire::Action { cgroup_id: 1, ..c }).outcome(), Outcome::Gone);
}

#[test]
fn a_plan_is_applied_and_read_back() {
    let bench = Bench::new(&["/a"]);
    let mut node = bench.start();
    let result = node.apply(&bench.action("/a", Some("lfu"), Some(100 * MIB)));
    assert_eq!((result.outcome(), result.reason.as_str()), (Outcome::Applied, ""));
    assert_eq!((result.policy.as_str(), result.limit_bytes), ("lfu", 100 * MIB));
    let again = node.apply(&bench.action("/a", Some("lfu"), Some(100 * MIB)));
    assert_eq!(again.outcome(), Outcome::Unchanged);
    let unknown = node.apply(&bench.action("/a", Some("nope"), Some(200 * MIB)));
    assert_eq!(unknown.outcome(), Outcome::Refused);
    assert_eq!(unknown.limit_bytes, 100 * MIB);
    let low = node.apply(&bench.action("/a", Some("mru"), Some(4096)));
    assert_eq!((low.outcome(), low.policy.as_str()), (Outcome::Refused, "mru"));
}

#[test]
fn a_variant_is_attached_and_read_back_by_its_name() {
    let bench = Bench::new(&["/a"]);
    let mut node = bench.start();
    assert!(node.identity().policies.contains(&"lfu:wide".into()));
    let result = node.apply(&bench.action("/a", Some("lfu:wide"), None));
    assert_eq!((result.outcome(), result.policy.as_str()), (Outcome::Applied, "lfu:wide"));
    assert_eq!(node.observe().unwrap().tenants[0].policy, "lfu:wide");
    let plain = node.apply(&bench.action("/a", Some("lfu"), None));
    assert_eq!(plain.outcome(), Outcome::Applied, "the policy itself is another one");
    let unknown = node.apply(&bench.action("/a", Some("lfu:tall"), None));
    assert_eq!(unknown.outcome(), Outcome::Refused);
    node.apply(&bench.action("/a", Some("lfu:wide"), None));
    drop(node);
    assert_eq!(bench.start().adopted(), ["/a"]);
}

#[test]
fn a_limit_goes_down_with_the_ticks() {
    let bench = Bench::new(&["/a"]);
    let mut node = bench.start();
    let result = node.apply(&bench.action("/a", None, Some(24 * MIB)));
    assert_eq!((result.outcome(), result.limit_bytes), (Outcome::Started, 48 * MIB));
    let tenant = node.observe().unwrap().tenants.remove(0);
    assert_eq!((tenant.limit_bytes, tenant.target_limit_bytes), (48 * MIB, 24 * MIB));
    bench.fake.uses("/a", 48 * MIB);
    for _ in 0..4 {
        node.tick(Duration::from_millis(50)).unwrap();
        let limit = node.tenants.values().next().unwrap().limit.bytes().unwrap();
        bench.fake.uses("/a", limit);
    }
    let tenant = node.observe().unwrap().tenants.remove(0);
    assert_eq!((tenant.limit_bytes, tenant.target_limit_bytes), (24 * MIB, 24 * MIB));
    assert_eq!(tenant.interference, "");
}

#[test]
fn without_policies_only_limits_are_steered() {
    let bench = Bench::new(&["/a"]);
    let mut node = bench.node(false, KernelConfig::default());
    assert_eq!((node.identity().kind, node.identity().policies.len()), ("stock", 0));
    let result = node.apply(&bench.action("/a", Some("lfu"), None));
    assert!(result.outcome() == Outcome::Refused && result.reason.contains("no cache_ext"));
    let result = node.apply(&bench.action("/a", Some("default"), Some(100 * MIB)));
    assert_eq!(result.outcome(), Outcome::Applied);
}

#[test]
fn a_policy_that_another_program_changes_is_reported_and_kept() {
    let bench = Bench::new(&["/a"]);
    let mut node = bench.start();
    let id = bench.fake.fs().id("/a").unwrap();
    node.apply(&bench.action("/a", Some("lfu"), None));
    bench.kernel.set(id, "mru", None);
    for _ in 0..2 {
        let tenant = node.observe().unwrap().tenants.remove(0);
        assert!(tenant.interference.contains("changed to mru by someone else (it was lfu)"));
        assert_eq!(tenant.policy, "mru");
    }
    node.apply(&bench.action("/a", Some("lfu"), None));
    assert_eq!(node.observe().unwrap().tenants[0].interference, "");
    bench.kernel.set(id, "default", Some("lfu: too slow"));
    let tenant = node.observe().unwrap().tenants.remove(0);
    assert_eq!(tenant.interference, "the kernel ejected lfu: too slow");
    assert_eq!(node.apply(&bench.action("/a", Some("default"), None)).outcome(), Outcome::Applied);
}

#[test]
fn a_refused_write_is_reported_with_its_file() {
    let bench = Bench::new(&["/a"]);
    let mut node = bench.start();
    bench.fake.refuse("/a", "memory.reclaim");
    let result = node.apply(&bench.action("/a", None, Some(24 * MIB)));
    assert!(result.outcome() == Outcome::Failed && result.reason.contains("memory.reclaim"));
    bench.fake.refuse("/a", "memory.high");
    let result = node.apply(&bench.action("/a", None, Some(100 * MIB)));
    assert!(result.outcome() == Outcome::Failed && result.reason.contains("/a/memory.high: "));
}

mod adoption;

mod contest;

mod cost;
#[path = "memory.rs"]
mod memory_of_policies;

mod floors;

mod readahead;

mod tasks;

mod units;
