// SPDX-License-Identifier: Apache-2.0
//! The memory of the curves of all tenants, which share the node's configured amount.

use super::Sampled;
use crate::curves::{CurvesConfig, LEAST_SHARE_BYTES};
use std::collections::BTreeMap;

/// New curves begin only if this share of the memory is free, as tenants that have curves may need
/// it.
const FREE_SHARE: f64 = 0.25;

/// The memory, and what new curves of a tenant take until they have found out how little they need.
pub(super) struct Room {
    all_bytes: u64,
    first_bytes: u64,
    /// How often a tenant was refused curves, or lost those that it had.
    pub(super) refused_total: u64,
}

impl Room {
    /// All the memory that `config` allows. New curves take `first_bytes` for a moment.
    pub(super) fn new(config: &CurvesConfig, first_bytes: u64) -> Self {
        Self { all_bytes: config.node_bytes, first_bytes, refused_total: 0 }
    }

    /// Decides which tenants may begin, and sets the memory of each tenant that has curves or
    /// begins: an even share of all.
    pub(super) fn share(&mut self, tenants: &mut BTreeMap<u64, Sampled>, config: &CurvesConfig) {
        let with = tenants.values().filter(|one| one.learning.bytes() > 0).count() as u64;
        let used: u64 = tenants.values().map(|one| one.learning.bytes()).sum();
        let kept = (self.all_bytes as f64 * FREE_SHARE) as u64;
        let mut free = self.all_bytes.saturating_sub(used + if with > 0 { kept } else { 0 });
        let mut begin = 0;
        for one in tenants.values_mut().filter(|one| one.wants_to_begin()) {
            // On a large node, the curves of one tenant may begin with more memory than there is in
            // all. Then tenants begin one after the other, if there is room for the size to which
            // the curves shrink.
            let may = free >= if begin == 0 { LEAST_SHARE_BYTES } else { self.first_bytes };
            free = free.saturating_sub(if may { self.first_bytes } else { 0 });
            begin += u64::from(may);
            self.refused_total += u64::from(one.learning.may_begin(may));
        }
        let config = config.with_share(self.all_bytes / (with + begin).max(1));
        tenants.values_mut().for_each(|one| one.learning.set_memory(&config));
    }

    /// Drops curves, those of the tenants with the fewest events first, until the rest fit. Returns
    /// the ids of the tenants that lost theirs.
    pub(super) fn enforce(&mut self, tenants: &mut BTreeMap<u64, Sampled>) -> Vec<u64> {
        let mut used: u64 = tenants.values().map(|one| one.learning.bytes()).sum();
        let mut given_up = Vec::new();
        while used > self.all_bytes {
            let with = tenants.iter_mut().filter(|(_, one)| one.learning.bytes() > 0);
            let Some((&id, least)) = with.min_by_key(|(_, one)| one.learning.lately()) else {
                break;
            };
            used -= least.learning.bytes();
            least.learning.give_up();
            given_up.push(id);
        }
        self.refused_total += given_up.len() as u64;
        given_up
    }
}
