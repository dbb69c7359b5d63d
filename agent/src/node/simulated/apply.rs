// SPDX-License-Identifier: Apache-2.0
//! Carries out an action on one tenant: checks it as a whole, performs it, and reads the result
//! back.

use super::tenant::{Change, Tenant, attachable};
use crate::error::Result;
use crate::wire;
use crate::wire::result::Outcome;

/// Carries out `action` on its tenant; `None` if there is no such tenant.
pub(super) fn apply(tenant: Option<&mut Tenant>, action: &wire::Action) -> wire::Result {
    let Some(tenant) = tenant else {
        return wire::Result {
            cgroup: action.cgroup.clone(),
            outcome: Outcome::Gone.into(),
            reason: "no such cgroup".into(),
            ..wire::Result::default()
        };
    };
    if let Some(reason) = refusal(tenant, action) {
        return result(tenant, Outcome::Refused, reason);
    }
    match perform(tenant, action) {
        Ok(outcome) => result(tenant, outcome, String::new()),
        Err(e) => result(tenant, Outcome::Failed, e.to_string()),
    }
}

/// Returns a tenant to the kernel's default policy and to its first limit.
pub(super) fn release(tenant: &mut Tenant) -> wire::Result {
    let action = wire::Action {
        cgroup: tenant.cgroup.clone(),
        cgroup_id: tenant.cgroup_id,
        policy: Some(wire::DEFAULT_POLICY.into()),
        limit_bytes: Some(tenant.limit.initial_bytes),
        ..wire::Action::default()
    };
    apply(Some(tenant), &action)
}

fn refusal(tenant: &Tenant, action: &wire::Action) -> Option<String> {
    if tenant.cgroup_id != action.cgroup_id {
        return Some(format!(
            "another cgroup of this name: its id is {}, not {}",
            tenant.cgroup_id, action.cgroup_id
        ));
    }
    if let Some(failure) = tenant.failure() {
        return Some(format!("the tenant has stopped: {failure}"));
    }
    match &action.policy {
        Some(name) if attachable(name).is_none() => {
            return Some(format!("policy: {name:?} cannot be attached here"));
        }
        _ => {}
    }
    action.limit_bytes.and_then(|bytes| tenant.limit.refuses(bytes))
}

fn perform(tenant: &mut Tenant, action: &wire::Action) -> Result<Outcome> {
    let policy = match &action.policy {
        Some(name) => tenant.set_policy(name)?,
        None => Change::None,
    };
    let limit = match action.limit_bytes {
        Some(bytes) => tenant.set_limit(bytes)?,
        None => Change::None,
    };
    Ok(match (policy, limit) {
        (_, Change::Started) => Outcome::Started,
        (Change::None, Change::None) => Outcome::Unchanged,
        _ => Outcome::Applied,
    })
}

fn result(tenant: &Tenant, outcome: Outcome, reason: String) -> wire::Result {
    wire::Result {
        cgroup: tenant.cgroup.clone(),
        outcome: outcome.into(),
        reason,
        policy: tenant.policy.clone(),
        limit_bytes: tenant.limit.now_bytes,
    }
}
