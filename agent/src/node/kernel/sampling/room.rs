// SPDX-License-Identifier: Apache-2.0
//! Memory of the curves of all tenants, which share what the node is configured to have.

use super::Sampled;
use crate::curves::{CurvesConfig, LEAST_SHARE_BYTES};
use std::collections::BTreeMap;

/// Those who have none begin when so much of the memory is free: who has some may need it.
const FREE_SHARE: f64 = 0.25;

/// The memory, and what a tenant takes that begins, until it has seen how little it needs.
pub(super) struct Room {
    all_bytes: u64,
    first_bytes: u64,
    /// How often a tenant was refused, or lost what it had.
    pub(super) refused_total: u64,
}

impl Room {
    /// All that `config` allows; curves that begin take `first_bytes` for a moment.
    pub(super) fn new(config: &CurvesConfig, first_bytes: u64) -> Self {
        Self { all_bytes: config.node_bytes, first_bytes, refused_total: 0 }
    }

    /// Says who may begin, and what each of those that have curves may take: an even share of all.
    pub(super) fn share(&mut self, tenants: &mut BTreeMap<u64, Sampled>, config: &CurvesConfig) {
        let with = tenants.values().filter(|one| one.learning.bytes() > 0).count() as u64;
        let used: u64 = tenants.values().map(|one| one.learning.bytes()).sum();
        let kept = (self.all_bytes as f64 * FREE_SHARE) as u64;
        let mut free = self.all_bytes.saturating_sub(used + if with > 0 { kept } else { 0 });
        let mut begin = 0;
        for one in tenants.values_mut().filter(|one| one.wants_to_begin()) {
            // On a large node those of one tenant may begin with more than there is for all: then
            // one after the other, where there is room for what they shrink to.
            let may = free >= if begin == 0 { LEAST_SHARE_BYTES } else { self.first_bytes };
            free = free.saturating_sub(if may { self.first_bytes } else { 0 });
            begin += u64::from(may);
            self.refused_total += u64::from(one.learning.may_begin(may));
        }
        let config = config.with_share(self.all_bytes / (with + begin).max(1));
        tenants.values_mut().for_each(|one| one.learning.set_memory(&config));
    }

    /// Takes curves from those with the fewest events until all fit; ids of those that have none now.
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
