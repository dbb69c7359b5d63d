// SPDX-License-Identifier: Apache-2.0
//! Makes snapshots of observations. A snapshot contains everything except curves that the
//! controller has already, and never exceeds the size of a message.

use crate::node::Observation;
use crate::wire;
use prost::Message;
use std::collections::HashMap;

/// The greatest size of an encoded `AgentMessage`; also the default bound of gRPC servers.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Bytes for the key and length of a nested message, and for the growth of the lengths around it.
const NESTING_BYTES: usize = 16;

/// The progress of sending one tenant's curves in this session.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// Generation that was sent last; 0 before the first.
    sent: u64,
    /// The first snapshot in which newer curves were missing; 0 if none wait.
    waits_since: u64,
}

/// Turns observations into snapshots.
#[derive(Debug)]
pub struct Outgoing {
    bound_bytes: usize,
    progress: HashMap<u64, Progress>,
    left_out_total: u64,
}

/// A snapshot, and what is missing in it.
#[derive(Debug)]
pub struct Composed {
    /// The snapshot, at most as large as the bound.
    pub snapshot: wire::Snapshot,
    /// Curves that wait for one of the next snapshots.
    pub deferred_curves: u64,
    /// Tenants that did not fit even without their curves; they are also counted in
    /// `Snapshot.loss`.
    pub left_out_tenants: u64,
}

impl Outgoing {
    /// Makes snapshots whose encoded message has at most `bound_bytes`.
    #[must_use]
    pub fn new(bound_bytes: usize) -> Self {
        Self { bound_bytes, progress: HashMap::new(), left_out_total: 0 }
    }

    /// Begins a new session, in which the controller is assumed to have no curves.
    pub fn begin(&mut self) {
        self.progress.clear();
    }

    /// The snapshot of an observation. The curves that have waited longest come first.
    pub fn compose(&mut self, sequence: u64, observation: &Observation) -> Composed {
        let mut snapshot = wire::Snapshot {
            sequence,
            time_us: observation.time_us,
            budget_bytes: observation.budget_bytes,
            device: Some(observation.device),
            tenants: Vec::with_capacity(observation.tenants.len()),
            // This is the largest possible value, so that setting the count below does not make the
            // message longer.
            loss: Some(wire::Loss { untracked_tenants_total: u64::MAX, ..observation.loss }),
            conditions: observation.conditions.clone(),
            cpus: observation.cpus,
        };
        let mut free = self.bound_bytes.saturating_sub(snapshot.encoded_len() + NESTING_BYTES);
        for tenant in &observation.tenants {
            let tenant = without_curves(tenant);
            let bytes = tenant.encoded_len() + NESTING_BYTES;
            if bytes > free {
                break;
            }
            free -= bytes;
            snapshot.tenants.push(tenant);
        }
        let left_out_tenants = (observation.tenants.len() - snapshot.tenants.len()) as u64;
        self.left_out_total += left_out_tenants;
        let untracked = observation.loss.untracked_tenants_total + self.left_out_total;
        snapshot.loss = Some(wire::Loss { untracked_tenants_total: untracked, ..observation.loss });
        let deferred_curves = self.add_curves(&mut snapshot, observation, free);
        Composed { snapshot, deferred_curves, left_out_tenants }
    }

    /// Adds curves that changed and fit into `free` bytes. Returns how many have to wait.
    fn add_curves(
        &mut self,
        snapshot: &mut wire::Snapshot,
        observation: &Observation,
        mut free: usize,
    ) -> u64 {
        let mut waiting = self.waiting(snapshot, observation);
        waiting.sort_unstable();
        let mut deferred = 0;
        for (_, index) in waiting {
            let tenant = &observation.tenants[index];
            let Some(curves) = &tenant.curves else { continue };
            let bytes = curves.encoded_len() + NESTING_BYTES;
            if bytes > free {
                deferred += 1;
                continue;
            }
            free -= bytes;
            snapshot.tenants[index].curves = Some(curves.clone());
            let progress = Progress { sent: curves.generation, waits_since: 0 };
            self.progress.insert(tenant.cgroup_id, progress);
        }
        deferred
    }

    /// The curves that wait: since which snapshot, and the tenant's index. Forgets tenants that are
    /// gone.
    fn waiting(
        &mut self,
        snapshot: &wire::Snapshot,
        observation: &Observation,
    ) -> Vec<(u64, usize)> {
        let mut before = std::mem::take(&mut self.progress);
        let mut waiting = Vec::new();
        for (index, tenant) in observation.tenants[..snapshot.tenants.len()].iter().enumerate() {
            let mut progress = before.remove(&tenant.cgroup_id).unwrap_or_default();
            let generation = tenant.curves.as_ref().map(|curves| curves.generation);
            if generation.is_some_and(|generation| generation != progress.sent) {
                if progress.waits_since == 0 {
                    progress.waits_since = snapshot.sequence;
                }
                waiting.push((progress.waits_since, index));
            }
            self.progress.insert(tenant.cgroup_id, progress);
        }
        waiting
    }
}

/// A tenant without its curves, which are most of its size and are not copied without need.
fn without_curves(tenant: &wire::Tenant) -> wire::Tenant {
    wire::Tenant {
        cgroup: tenant.cgroup.clone(),
        cgroup_id: tenant.cgroup_id,
        policy: tenant.policy.clone(),
        limit_bytes: tenant.limit_bytes,
        target_limit_bytes: tenant.target_limit_bytes,
        initial_limit_bytes: tenant.initial_limit_bytes,
        floor_bytes: tenant.floor_bytes,
        current_bytes: tenant.current_bytes,
        file_bytes: tenant.file_bytes,
        anon_bytes: tenant.anon_bytes,
        mapped_bytes: tenant.mapped_bytes,
        counters: tenant.counters.clone(),
        curves: None,
        curves_generation: tenant.curves_generation,
        trusted: tenant.trusted,
        distrust: tenant.distrust.clone(),
        phase: tenant.phase,
        interference: tenant.interference.clone(),
        counterfactuals: tenant.counterfactuals.clone(),
        unconfirmed: tenant.unconfirmed.clone(),
        policy_cpu_us_per_access: tenant.policy_cpu_us_per_access,
        readahead: tenant.readahead.clone(),
        conditions: tenant.conditions.clone(),
        workload: tenant.workload.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tenant(id: u64, generation: u64, policies: usize, sizes: usize) -> wire::Tenant {
        let point = |p: usize| 0.5 + p as f32 / 1e6;
        wire::Tenant {
            cgroup: format!("/kubepods.slice/kubepods-burstable.slice/pod-{id:032x}"),
            cgroup_id: 1 << 40 | id,
            policy: "s3fifo".into(),
            limit_bytes: 7 << 30,
            target_limit_bytes: 6 << 30,
            initial_limit_bytes: 9 << 30,
            floor_bytes: 1 << 30,
            current_bytes: 7 << 30,
            file_bytes: 6 << 30,
            anon_bytes: 1 << 30,
            counters: Some(wire::Counters {
                accesses_total: u64::MAX >> 8,
                read_latency_total: vec![1 << 34; crate::latency::LATENCY_BUCKETS],
                ..Default::default()
            }),
            curves: Some(wire::Curves {
                generation,
                policies: (0..policies).map(|p| format!("policy_number_{p}")).collect(),
                sizes_bytes: (1..=sizes as u64).map(|s| s << 30).collect(),
                miss_ratio: (0..policies * sizes).map(point).collect(),
                error_bar: (0..policies * sizes).map(point).collect(),
                step_bar: (0..policies * sizes).map(point).collect(),
                sampled: 1 << 40,
                rate: 0.001,
            }),
            curves_generation: generation,
            trusted: true,
            ..Default::default()
        }
    }

    fn node(tenants: u64, generation: u64, policies: usize, sizes: usize) -> Observation {
        let tenants = (1..=tenants).map(|id| tenant(id, generation, policies, sizes)).collect();
        Observation { time_us: 1 << 50, budget_bytes: 1 << 40, tenants, ..Default::default() }
    }

    fn message_bytes(snapshot: wire::Snapshot) -> usize {
        let message = wire::agent_message::Message::Snapshot(snapshot);
        wire::AgentMessage { message: Some(message) }.encoded_len()
    }

    fn with_curves(snapshot: &wire::Snapshot) -> Vec<usize> {
        let tenants = snapshot.tenants.iter().enumerate();
        tenants.filter(|(_, t)| t.curves.is_some()).map(|(index, _)| index).collect()
    }

    #[test]
    fn a_thousand_tenants_of_sixteen_policies_and_sizes_fit() {
        let mut outgoing = Outgoing::new(MAX_MESSAGE_BYTES);
        let composed = outgoing.compose(1, &node(1000, 1, 16, 16));
        assert_eq!((composed.deferred_curves, composed.left_out_tenants), (0, 0));
        assert_eq!(with_curves(&composed.snapshot).len(), 1000);
        let bytes = message_bytes(composed.snapshot);
        assert!(bytes < MAX_MESSAGE_BYTES, "{bytes}");
    }

    #[test]
    fn curves_are_sent_when_they_changed_and_in_a_new_session() {
        let mut outgoing = Outgoing::new(MAX_MESSAGE_BYTES);
        let mut observation = node(3, 1, 2, 2);
        assert_eq!(with_curves(&outgoing.compose(1, &observation).snapshot), [0, 1, 2]);
        let again = outgoing.compose(2, &observation).snapshot;
        assert_eq!(with_curves(&again), [0; 0]);
        assert_eq!(again.tenants[1].curves_generation, 1);
        observation.tenants[1] = tenant(2, 2, 2, 2);
        assert_eq!(with_curves(&outgoing.compose(3, &observation).snapshot), [1]);
        outgoing.begin();
        assert_eq!(with_curves(&outgoing.compose(1, &observation).snapshot), [0, 1, 2]);
    }

    #[test]
    fn a_cgroup_that_is_created_again_sends_its_curves() {
        let mut outgoing = Outgoing::new(MAX_MESSAGE_BYTES);
        outgoing.compose(1, &node(1, 5, 2, 2));
        outgoing.compose(2, &node(0, 5, 2, 2));
        assert_eq!(with_curves(&outgoing.compose(3, &node(1, 5, 2, 2)).snapshot), [0]);
    }

    #[test]
    fn curves_that_wait_longest_go_first() {
        let mut outgoing = Outgoing::new(8_000);
        let mut sent = vec![0; 10];
        for sequence in 1..=20 {
            // Every tenant always has new curves: without taking turns, the first ones would keep
            // out the last for ever.
            let composed = outgoing.compose(sequence, &node(10, sequence, 4, 16));
            let indices = with_curves(&composed.snapshot);
            assert_eq!(composed.deferred_curves, 10 - indices.len() as u64);
            assert!((1..10).contains(&indices.len()), "{indices:?}");
            indices.iter().for_each(|&index| sent[index] += 1);
        }
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        assert!(*least > 0 && most - least <= 1, "{sent:?}");
    }

    #[test]
    fn tenants_without_room_are_counted() {
        let mut outgoing = Outgoing::new(5_000);
        let composed = outgoing.compose(1, &node(100, 1, 1, 1));
        let kept = composed.snapshot.tenants.len() as u64;
        assert_eq!(composed.left_out_tenants, 100 - kept);
        let loss = outgoing.compose(2, &node(100, 1, 1, 1)).snapshot.loss.unwrap();
        assert_eq!(loss.untracked_tenants_total, 2 * (100 - kept));
    }

    proptest! {
        #[test]
        fn no_message_is_larger_than_the_bound(
            bound in 200_usize..60_000,
            tenants in 0_u64..40,
            policies in 0_usize..8,
            sizes in 0_usize..16,
        ) {
            let mut outgoing = Outgoing::new(bound);
            for sequence in 1..4 {
                let observation = node(tenants, sequence, policies, sizes);
                let bytes = message_bytes(outgoing.compose(sequence, &observation).snapshot);
                prop_assert!(bytes <= bound, "{bytes} > {bound}");
            }
        }
    }
}
