// SPDX-License-Identifier: Apache-2.0
//! A node of the agent without its session: does what it reads on stdin, one order a line, and
//! answers each by a line of JSON. `node STATE_DIR MATCH sampled|blind`.
//!
//! Orders: `tick MS`, `observe`, `apply CGROUP POLICY|- BYTES|-`, `release`, `churn CGROUP...`.

use cachepilot_agent::cgroup::fs::CgroupFs;
use cachepilot_agent::curves::CurvesSettings;
use cachepilot_agent::managers::Managers;
use cachepilot_agent::node::Node;
use cachepilot_agent::node::kernel::config::{KernelConfig, KernelKind};
use cachepilot_agent::node::kernel::host::Host;
use cachepilot_agent::node::kernel::policy::CacheExt;
use cachepilot_agent::node::kernel::{KernelNode, Parts};
use cachepilot_agent::policies::folder::PolicyDir;
use cachepilot_agent::policies::memory::PolicyMemory;
use cachepilot_agent::{Error, wire};
use serde_json::{Value, json};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

const MOUNT: &str = "/sys/fs/cgroup";
const MIB: u64 = 1 << 20;
const SLICE: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, state, pattern, sampled] = arguments.as_slice() else {
        eprintln!("usage: node STATE_DIR MATCH sampled|blind");
        return ExitCode::from(2);
    };
    match open(Path::new(state), pattern, sampled == "sampled").and_then(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn open(state: &Path, pattern: &str, sampled: bool) -> Result<KernelNode, Error> {
    let config = KernelConfig {
        matches: vec![pattern.into()],
        margin_bytes: 2 * MIB,
        step_bytes: 4 * MIB,
        kind: KernelKind::CacheExt,
        ..KernelConfig::default()
    };
    let curves = CurvesSettings::default();
    if sampled {
        return KernelNode::open(config, &curves, state);
    }
    let curves = curves.config(config.budget_bytes);
    let memory = PolicyMemory { mib: config.policy_memory_mib };
    let policies = CacheExt::open(PolicyDir::find(None), memory)?;
    let managers = Managers::start(config.others())?;
    let parts = Parts {
        fs: CgroupFs::new(MOUNT),
        host: Host::default(),
        policies: Some(Box::new(policies)),
        source: None,
        managers: Some(managers),
    };
    KernelNode::with_parts(config, curves, state, parts)
}

fn serve(mut node: KernelNode) -> Result<(), Error> {
    let identity = node.identity();
    answer(&json!({
        "kind": identity.kind,
        "capabilities": identity.capabilities,
        "policies": identity.policies.len(),
        "adopted": node.adopted(),
    }));
    for line in io::stdin().lock().lines() {
        let line = line.map_err(Error::kernel("stdin"))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["tick", ms] => {
                let slices = ms.parse::<u32>().unwrap_or(0).div_ceil(50);
                for _ in 0..slices {
                    sleep(SLICE);
                    node.tick(SLICE)?;
                }
                answer(&json!({}));
            }
            ["observe"] => answer(&observed(&mut node)?),
            ["apply", cgroup, policy, bytes] => {
                answer(&node.apply(&action(cgroup, policy, bytes)).to_json());
            }
            ["release"] => {
                let results: Vec<Value> =
                    node.release().iter().map(wire::Result::to_json).collect();
                answer(&json!(results));
            }
            ["churn", cgroups @ ..] => churn(&mut node, cgroups)?,
            _ => eprintln!("what is {line:?}?"),
        }
    }
    Ok(())
}

/// Changes policies and limits of cgroups for ever, to be killed at any point of it.
fn churn(node: &mut KernelNode, cgroups: &[&str]) -> Result<(), Error> {
    answer(&json!({}));
    let policies = ["lfu", "mru", "default", "s3fifo"];
    let limits = [24, 40, 16, 0, 32].map(|mib: u64| (mib * MIB).to_string());
    for round in 0_usize.. {
        for (at, cgroup) in cgroups.iter().enumerate() {
            let policy = policies[(round + at) % policies.len()];
            let limit = &limits[(round * 3 + at) % limits.len()];
            // Loading a policy takes long: limits change twice for each.
            node.apply(&action(cgroup, "-", limit));
            node.tick(SLICE)?;
            node.apply(&action(cgroup, policy, &limits[(round + at) % limits.len()]));
            node.tick(SLICE)?;
        }
    }
    Ok(())
}

fn action(cgroup: &str, policy: &str, bytes: &str) -> wire::Action {
    wire::Action {
        cgroup: cgroup.into(),
        cgroup_id: CgroupFs::new(MOUNT).id(cgroup).unwrap_or(0),
        policy: (policy != "-").then(|| policy.into()),
        limit_bytes: bytes.parse().ok(),
        ..wire::Action::default()
    }
}

fn conditions(told: &[wire::Condition]) -> Vec<Value> {
    let one =
        |one: &wire::Condition| json!({ "kind": one.kind().as_str_name(), "message": one.message });
    told.iter().map(one).collect()
}

fn observed(node: &mut KernelNode) -> Result<Value, Error> {
    let observed = node.observe()?;
    let tenants = observed.tenants.iter().map(|tenant| {
        let counters = tenant.counters.clone().unwrap_or_default();
        let value = json!({
            "cgroup_id": tenant.cgroup_id,
            "policy": tenant.policy,
            "limit_bytes": tenant.limit_bytes,
            "target_limit_bytes": tenant.target_limit_bytes,
            "initial_limit_bytes": tenant.initial_limit_bytes,
            "floor_bytes": tenant.floor_bytes,
            "current_bytes": tenant.current_bytes,
            "interference": tenant.interference,
            "conditions": conditions(&tenant.conditions),
            "curves": tenant.curves.is_some(),
            "distrust": tenant.distrust,
            "accesses_total": counters.accesses_total,
            "misses_total": counters.misses_total,
            "evictions_total": counters.evictions_total,
            "block_reads_total": counters.block_reads_total,
            "policy_cpu_us_per_access": tenant.policy_cpu_us_per_access,
            "readahead": tenant.readahead.as_ref().map(|policy| json!({
                "policy": policy.policy,
                "pages": policy.pages.map(|p| [p.ahead_total, p.used_total, p.wasted_total]),
            })),
        });
        (tenant.cgroup.clone(), value)
    });
    Ok(json!({
        "budget_bytes": observed.budget_bytes,
        "device_reads_total": observed.device.reads_total,
        "failed_reads_total": observed.loss.failed_reads_total,
        "conditions": conditions(&observed.conditions),
        "tenants": tenants.collect::<serde_json::Map<_, _>>(),
    }))
}

fn answer(value: &Value) {
    let mut out = io::stdout().lock();
    // Whoever does not read the answer ends the process.
    if writeln!(out, "{value}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}
