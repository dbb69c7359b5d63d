// SPDX-License-Identifier: Apache-2.0
//! Changes on trial, which are undone unless the controller renews or confirms them in time.
//!
//! All of them are on disk with the epoch of the plan before the plan is carried out, so that an
//! agent that is killed in the middle of a change undoes it after its restart. Times are the
//! node's.

mod way;

use crate::wire;
use crate::wire::result::Outcome;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use way::{Way, is_below, is_replaced, way};

/// The longest time to live of a change without a renewal: a day.
pub const TTL_MAX_MS: u32 = 86_400_000;
/// Time until a rollback that failed, or is not complete, is tried again.
const FAILED_AGAIN_MS: u64 = 5_000;
/// Time until a rollback that the node refused is tried again, for example one below a floor that
/// has risen.
const REFUSED_AGAIN_MS: u64 = 60_000;

/// The setting that is restored when a change is undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Back {
    /// A policy, unless another program replaced the one on trial.
    Policy {
        /// The policy that the change attached.
        on_trial: String,
        /// The policy before the change.
        revert_to: String,
    },
    /// A limit in bytes, 0 for none.
    Limit(u64),
}

/// A change of one setting of one tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Its name, see `Action.change_epoch`.
    pub name: u64,
    /// Path of the tenant.
    pub cgroup: String,
    /// Id of the tenant.
    pub cgroup_id: u64,
    /// The rollback.
    pub back: Back,
    /// When it is undone, milliseconds since 1970.
    pub deadline_ms: u64,
    /// Its time to live. If the clock is set back, the time left is at most this.
    pub ttl_ms: u64,
    /// The change was undone, or its rollback has begun.
    pub undone: bool,
    /// The rollback has begun and is not complete, such as one of a limit that is lowered step by
    /// step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub under_way: bool,
    /// The controller has acknowledged it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
}

/// All changes on trial, and those that were undone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unconfirmed {
    /// The boot in which they were made, see `Identity.boot`: no change outlives it.
    boot: String,
    /// The changes by id of the cgroup.
    changes: BTreeMap<u64, Vec<Change>>,
}

impl Change {
    fn is_of(&self, action: &wire::Action) -> bool {
        self.cgroup_id == action.cgroup_id && self.cgroup == action.cgroup
    }

    fn is_due(&self, now_ms: u64) -> bool {
        (!self.undone || self.under_way) && self.deadline_ms <= now_ms
    }

    /// Whether nothing is left to do or to report.
    fn is_past(&self) -> bool {
        self.known && !self.under_way
    }

    fn is_limit(&self) -> bool {
        matches!(self.back, Back::Limit(_))
    }

    fn revert_to(&self) -> wire::Setting {
        match &self.back {
            Back::Policy { revert_to, .. } => {
                wire::Setting { policy: Some(revert_to.clone()), limit_bytes: None }
            }
            Back::Limit(bytes) => wire::Setting { policy: None, limit_bytes: Some(*bytes) },
        }
    }

    /// The action that undoes it.
    fn action(&self) -> wire::Action {
        let wire::Setting { policy, limit_bytes } = self.revert_to();
        let (cgroup, cgroup_id) = (self.cgroup.clone(), self.cgroup_id);
        wire::Action { cgroup, cgroup_id, policy, limit_bytes, ..wire::Action::default() }
    }
}

/// The reason why an action violates the protocol; `None` if it does not.
fn refusal(action: &wire::Action) -> Option<String> {
    let Some(back) = &action.revert_to else { return None };
    let (ttl_ms, range) = (action.ttl_ms, 1..=TTL_MAX_MS);
    if !range.contains(&ttl_ms) {
        return Some(format!("ttl_ms: {ttl_ms} (allowed: 1 to {TTL_MAX_MS})"));
    }
    if action.change_epoch == 0 {
        return Some("change_epoch: 0 (allowed: a name, with revert_to)".into());
    }
    let spare = [
        ("policy", back.policy.is_some() && action.policy.is_none()),
        ("limit_bytes", back.limit_bytes.is_some() && action.limit_bytes.is_none()),
    ];
    let (name, _) = spare.into_iter().find(|(_, spare)| *spare)?;
    Some(format!("revert_to: {name} is not among what is set"))
}

/// Whether an action changes nothing about the tenant, but renews or confirms a change on trial.
fn sets_nothing(action: &wire::Action) -> bool {
    action.change_epoch != 0 && action.policy.is_none() && action.limit_bytes.is_none()
}

fn result(action: &wire::Action, refused: Option<String>) -> wire::Result {
    let outcome = if refused.is_some() { Outcome::Refused } else { Outcome::Unchanged };
    wire::Result {
        cgroup: action.cgroup.clone(),
        outcome: outcome.into(),
        reason: refused.unwrap_or_default(),
        ..wire::Result::default()
    }
}

fn worked(result: &wire::Result) -> bool {
    matches!(result.outcome(), Outcome::Applied | Outcome::Started | Outcome::Unchanged)
}

impl Unconfirmed {
    /// The changes that still apply in `boot`. If the boot has no name, nothing outlives an agent.
    #[must_use]
    pub fn in_boot(self, boot: &str) -> Self {
        let holds = !boot.is_empty() && self.boot == boot;
        let changes = if holds { self.changes } else { BTreeMap::new() };
        Self { boot: boot.into(), changes }
    }

    /// Whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Number of changes on trial.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.changes.values().flatten().filter(|change| !change.undone).count()
    }

    /// Whether the time of a change is over.
    #[must_use]
    pub fn is_overdue(&self, now_ms: u64) -> bool {
        self.changes.values().flatten().any(|change| change.is_due(now_ms))
    }

    /// Removes all changes.
    pub fn clear(&mut self) {
        self.changes.clear();
    }

    /// Records the actions of a plan before they are carried out. Returns, for each action, the
    /// result if the node has nothing to do for it.
    pub fn admit(&mut self, actions: &[wire::Action], now_ms: u64) -> Vec<Option<wire::Result>> {
        let mut answers = Vec::with_capacity(actions.len());
        for action in actions {
            let refused = refusal(action);
            answers.push(if refused.is_some() {
                Some(result(action, refused))
            } else if sets_nothing(action) {
                Some(result(action, self.renew_or_confirm(action, now_ms)))
            } else {
                self.begin(action, now_ms);
                None
            });
        }
        answers
    }

    /// Renews or confirms a change. Returns the reason if there is no such change.
    fn renew_or_confirm(&mut self, action: &wire::Action, now_ms: u64) -> Option<String> {
        let named = |change: &Change| change.is_of(action) && change.name == action.change_epoch;
        let confirmed = action.ttl_ms == 0;
        let mut found = false;
        let of = self.changes.get_mut(&action.cgroup_id).into_iter().flatten();
        for change in of.filter(|change| named(change) && (confirmed || !change.undone)) {
            found = true;
            change.ttl_ms = u64::from(action.ttl_ms.min(TTL_MAX_MS));
            change.deadline_ms = now_ms + change.ttl_ms;
        }
        if confirmed {
            let of = self.changes.get_mut(&action.cgroup_id).into_iter().flatten();
            of.filter(|change| named(change)).for_each(|change| change.known = change.under_way);
            self.drop_if(action.cgroup_id, |change| named(change) && !change.known);
        }
        (!found).then(|| format!("change {} does not wait", action.change_epoch))
    }

    fn begin(&mut self, action: &wire::Action, now_ms: u64) {
        let Some(back) = &action.revert_to else { return };
        if let (Some(revert_to), Some(on_trial)) = (&back.policy, &action.policy) {
            let (revert_to, on_trial) = (revert_to.clone(), on_trial.clone());
            self.put(action, Back::Policy { on_trial, revert_to }, now_ms);
        }
        if let Some(bytes) = back.limit_bytes {
            self.put(action, Back::Limit(bytes), now_ms);
        }
    }

    fn put(&mut self, action: &wire::Action, back: Back, now_ms: u64) {
        let ttl_ms = u64::from(action.ttl_ms);
        let change = Change {
            name: action.change_epoch,
            cgroup: action.cgroup.clone(),
            cgroup_id: action.cgroup_id,
            back,
            deadline_ms: now_ms + ttl_ms,
            ttl_ms,
            undone: false,
            under_way: false,
            known: false,
        };
        self.remove(action, change.is_limit());
        self.changes.entry(action.cgroup_id).or_default().push(change);
    }

    fn remove(&mut self, action: &wire::Action, limit: bool) {
        self.drop_if(action.cgroup_id, |change| change.is_of(action) && change.is_limit() == limit);
    }

    fn drop_if(&mut self, cgroup_id: u64, unwanted: impl Fn(&Change) -> bool) {
        let Some(of) = self.changes.get_mut(&cgroup_id) else { return };
        of.retain(|change| !unwanted(change));
        if of.is_empty() {
            self.changes.remove(&cgroup_id);
        }
    }

    /// Records the result of an action: a change whose setting is now to stay is no longer on
    /// trial. A failed action leaves the rollback as it was.
    pub fn settle(&mut self, action: &wire::Action, result: &wire::Result) {
        if result.outcome() == Outcome::Gone {
            self.drop_if(action.cgroup_id, |change| change.is_of(action));
        }
        let back = action.revert_to.clone().unwrap_or_default();
        if worked(result) {
            if action.policy.is_some() && back.policy.is_none() {
                self.remove(action, false);
            }
            if action.limit_bytes.is_some() && back.limit_bytes.is_none() {
                self.remove(action, true);
            }
        }
        if back.policy.is_none() || result.policy.is_empty() {
            return;
        }
        let of = self.changes.get_mut(&action.cgroup_id).into_iter().flatten();
        for change in of.filter(|change| change.is_of(action)) {
            if let Back::Policy { on_trial, .. } = &mut change.back {
                result.policy.clone_into(on_trial);
            }
        }
    }

    /// The rollbacks of changes whose time is over. Limits that rise wait for those that fall, so
    /// that memory is not given to two tenants.
    pub fn overdue(&mut self, tenants: &[wire::Tenant], now_ms: u64) -> Vec<wire::Action> {
        let known: BTreeMap<u64, &wire::Tenant> =
            tenants.iter().map(|tenant| (tenant.cgroup_id, tenant)).collect();
        let tenant = |change: &Change| {
            known.get(&change.cgroup_id).copied().filter(|tenant| tenant.cgroup == change.cgroup)
        };
        self.changes.retain(|_, of| {
            of.retain_mut(|change| {
                change.deadline_ms = change.deadline_ms.min(now_ms.saturating_add(change.ttl_ms));
                match tenant(change) {
                    Some(tenant) => {
                        change.under_way &= way(change, tenant) != Way::Still;
                        !(change.is_due(now_ms) && is_replaced(change, tenant) || change.is_past())
                    }
                    // If a tenant is gone, nobody needs the report of what was undone.
                    None => !change.undone || change.under_way,
                }
            });
            !of.is_empty()
        });
        let due = || self.changes.values().flatten().filter(|change| change.is_due(now_ms));
        let goes = |change: &Change| tenant(change).map_or(Way::Still, |t| way(change, t));
        let lowering = due().any(|change| goes(change) == Way::Down)
            || tenants.iter().any(|t| is_below(t.target_limit_bytes, t.limit_bytes));
        due().filter(|change| !(lowering && goes(change) == Way::Up)).map(Change::action).collect()
    }

    /// Whether a rollback was begun before.
    #[must_use]
    pub fn is_under_way(&self, action: &wire::Action) -> bool {
        let is_it = |change: &Change| {
            change.under_way
                && change.is_of(action)
                && change.is_limit() == action.limit_bytes.is_some()
        };
        self.changes.get(&action.cgroup_id).into_iter().flatten().any(is_it)
    }

    /// Records the result of a rollback. A rollback that has only begun is requested until it is
    /// complete, because an agent that starts in the meantime does not know of a limit that is
    /// being lowered.
    pub fn tried(&mut self, action: &wire::Action, result: &wire::Result, now_ms: u64) {
        if result.outcome() == Outcome::Gone {
            return self.drop_if(action.cgroup_id, |change| change.is_of(action));
        }
        let limit = action.limit_bytes.is_some();
        let refused = result.outcome() == Outcome::Refused;
        let is_over = matches!(result.outcome(), Outcome::Applied | Outcome::Unchanged);
        let of = self.changes.get_mut(&action.cgroup_id).into_iter().flatten();
        for change in of.filter(|change| change.is_of(action) && change.is_limit() == limit) {
            change.undone |= worked(result);
            change.under_way = change.undone && !is_over;
            let again_ms = if refused { REFUSED_AGAIN_MS } else { FAILED_AGAIN_MS };
            change.deadline_ms = now_ms + again_ms;
            if let (Back::Policy { revert_to, .. }, true) = (&mut change.back, refused) {
                // This node no longer has the policy. The kernel's own is always available.
                wire::DEFAULT_POLICY.clone_into(revert_to);
            }
        }
        self.drop_if(action.cgroup_id, Change::is_past);
    }

    /// The report for a tenant: the change on trial that would be undone first, otherwise the one
    /// that was undone last. If two are on trial, a renewed one is no longer the first, so each is
    /// reported in turn.
    #[must_use]
    pub fn told(&self, tenant: &wire::Tenant, now_ms: u64) -> Option<wire::Unconfirmed> {
        let of = self.changes.get(&tenant.cgroup_id)?;
        let of = || of.iter().filter(|one| one.cgroup == tenant.cgroup && !one.known);
        let waiting = of().filter(|change| !change.undone);
        let first = waiting
            .min_by_key(|change| (change.deadline_ms, Reverse(change.name)))
            .or_else(|| of().max_by_key(|change| change.name))?;
        let limit = match tenant.target_limit_bytes {
            0 => tenant.limit_bytes,
            target => target,
        };
        let mut back =
            wire::Setting { policy: Some(tenant.policy.clone()), limit_bytes: Some(limit) };
        let alike = |change: &&Change| change.name == first.name && change.undone == first.undone;
        for change in of().filter(alike) {
            let wire::Setting { policy, limit_bytes } = change.revert_to();
            back.policy = policy.or(back.policy);
            back.limit_bytes = limit_bytes.or(back.limit_bytes);
        }
        let left_ms = first.deadline_ms.saturating_sub(now_ms).min(first.ttl_ms);
        Some(wire::Unconfirmed {
            epoch: first.name,
            revert_to: Some(back),
            left_ms: if first.undone { 0 } else { left_ms },
            undone: first.undone,
        })
    }
}

#[cfg(test)]
#[path = "unconfirmed_tests.rs"]
mod tests;
