// SPDX-License-Identifier: Apache-2.0
//! How a rollback relates to the tenant's present state.

use super::{Back, Change};
use crate::wire;

/// The direction of a limit when its change is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Still,
    Up,
    Down,
}

/// The direction of this change's limit; `Still` for a change of another setting.
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

/// Whether a limit is below another one; 0 means no limit.
pub fn is_below(bytes: u64, other: u64) -> bool {
    bytes != 0 && (other == 0 || bytes < other)
}

/// Whether another program replaced the policy on trial, or sets the limit. Such a setting is left
/// alone.
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
