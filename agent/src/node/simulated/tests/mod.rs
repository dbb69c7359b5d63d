// SPDX-License-Identifier: Apache-2.0
//! Tests of the node as a whole.

mod actions;
mod config;
mod folder;
mod pace;
mod queueing;
mod tasks;
mod tenants;
mod warming;

use super::*;
use crate::node::Node;
use std::path::Path;

/// Few sizes and a small sample, as these tests are not about curves.
fn curves() -> CurvesConfig {
    CurvesConfig {
        sizes_pages: vec![256, 1024, 4096],
        sample_pages: 64,
        half_life: 1_000_000,
        ..CurvesConfig::default()
    }
}

fn virtual_node(text: &str) -> SimulatedNode {
    let config: SimulationConfig = toml::from_str(text).unwrap();
    let config = SimulationConfig { pace: PaceConfig::Virtual, ..config };
    SimulatedNode::new(config, curves()).unwrap()
}

fn run(node: &mut SimulatedNode, seconds: f64) {
    node.tick(Duration::from_secs_f64(seconds)).unwrap();
}

fn tenant(node: &mut SimulatedNode, cgroup: &str) -> wire::Tenant {
    let seen = node.observe().unwrap();
    seen.tenants.into_iter().find(|t| t.cgroup == cgroup).unwrap()
}

fn counters(node: &mut SimulatedNode, cgroup: &str) -> wire::Counters {
    tenant(node, cgroup).counters.unwrap()
}

/// A definition for a folder of tenants; 1,024 pages fit.
fn definition(cgroup: &str, pages: u64) -> String {
    format!(
        "cgroup = \"{cgroup}\"\nservice_us = 100.0\nlimit_bytes = 4194304\n\
         phase = [{{ source = {{ kind = \"loop\", pages = {pages} }} }}]\n"
    )
}

fn node_of(folder: &Path, more: &str) -> SimulatedNode {
    virtual_node(&format!("budget_bytes = 8388608\ntenants_dir = {folder:?}\n{more}"))
}

fn failures(node: &mut SimulatedNode) -> u64 {
    node.observe().unwrap().loss.failed_reads_total
}

/// Two tenants that compete for one device; the second one changes its phase.
const TWO: &str = r#"
    budget_bytes = 67108864
    seed = 7
    device = { read_us = 100.0, parallelism = 8, iops = 50000 }
    [[tenant]]
    cgroup = "/kv"
    concurrency = 4
    accesses_per_op = 3
    service_us = 50.0
    limit_bytes = 8388608
    anon_bytes = 1048576
    phase = [{ source = { kind = "zipf", alpha = 0.9, pages = 10000 } }]
    [[tenant]]
    cgroup = "/scan"
    concurrency = 2
    service_us = 20.0
    limit_bytes = 4194304
    [[tenant.phase]]
    seconds = 1.0
    source = { kind = "uniform", pages = 800 }
    [[tenant.phase]]
    source = { kind = "loop", pages = 2000, offset = 1000000 }
"#;
