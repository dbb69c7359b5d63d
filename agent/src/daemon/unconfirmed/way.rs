// SPDX-License-Identifier: Apache-2.0
//! What tenants are when their changes are undone.

use super::{Back, Change};
use crate::wire;

/// Where a limit goes when its change is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Still,
    Up,
    Down,
}

/// Where that of this change goes; what is no limit goes nowhere.
pub fn way(change: &Change, tenant: &wire::Tenant) -> Way {
    let Back::Limit(bytes) = change.back else { return Way::Still };
    if is_below(bytes, tenant.limit_bytes) {
        Way::Down
    } else if is_below(tenant.limit_bytes, bytes) {
        Way::Up
    } else {
        Way::Still
    }
}

/// Whether a limit is below another; 0 is none.
pub fn is_below(bytes: u64, other: u64) -> bool {
    bytes != 0 && (other == 0 || bytes < other)
}

/// Whether someone else put another policy in the place of the one on trial, or sets the limit: that
/// is left alone.
pub fn is_replaced(change: &Change, tenant: &wire::Tenant) -> bool {
    match &change.back {
        Back::Policy { on_trial, revert_to } => {
            tenant.policy != *on_trial && tenant.policy != *revert_to
        }
        Back::Limit(_) => {
            tenant.conditions.iter().any(|one| one.kind() == wire::condition::Kind::LimitYielded)
        }
    }
}
