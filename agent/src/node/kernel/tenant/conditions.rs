// SPDX-License-Identifier: Apache-2.0
//! Conditions of a node or a tenant, and since when each of them holds.

use crate::managers::{Finding, OfTenant, Seen, pods};
use crate::node::kernel::adoption::ledger::Initial;
use crate::node::kernel::limits::Limit;
use crate::node::kernel::limits::contest::Contest;
use crate::node::kernel::tenant::Tenant;
use crate::wire;
use crate::wire::condition::Kind;
use std::collections::BTreeMap;

/// Maximum length of a message in characters. Some messages contain text of other programs, of any
/// length.
const MESSAGE_CHARS_MAX: usize = 1024;

/// A condition that holds now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its kind.
    pub kind: Kind,
    /// Identifies the condition: one with the same kind and key is the same as before, whatever its
    /// message says.
    pub key: String,
    /// Which program does what.
    pub message: String,
}

/// The conditions of a node or a tenant.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    since_us: BTreeMap<(i32, String), u64>,
}

impl Conditions {
    /// The conditions that hold at `now_us`, sorted by kind and message. Each keeps the time since
    /// when it has held without a break.
    pub fn told(&mut self, found: Vec<Found>, now_us: u64) -> Vec<wire::Condition> {
        let mut before = std::mem::take(&mut self.since_us);
        let told = found.into_iter().map(|Found { kind, key, message }| {
            let key = (kind.into(), key);
            let since_us = before.remove(&key).unwrap_or(now_us);
            let kind = key.0;
            self.since_us.insert(key, since_us);
            let message = message.chars().take(MESSAGE_CHARS_MAX).collect();
            wire::Condition { kind, message, since_us }
        });
        let mut told: Vec<wire::Condition> = told.collect();
        told.sort_by(|a, b| (a.kind, &a.message).cmp(&(b.kind, &b.message)));
        told
    }

    /// Records that an earlier agent yielded the limit at `since_us`.
    pub fn was_yielded(&mut self, limit: &Limit, since_us: u64) {
        if let Some(Found { kind, key, .. }) = of_limit(limit) {
            self.since_us.insert((kind.into(), key), since_us);
        }
    }
}

impl From<&Finding> for Found {
    fn from(finding: &Finding) -> Self {
        let (key, message) = (finding.key.clone(), finding.message.clone());
        Self { kind: Kind::OtherManager, key, message }
    }
}

/// The conditions of the host.
#[must_use]
pub fn of_host(seen: &Seen) -> Vec<Found> {
    seen.host.iter().map(Found::from).collect()
}

/// The conditions of a tenant, by its first limit and by what other programs report about it.
#[must_use]
pub fn of_tenant(
    tenant: &Tenant,
    initial: Option<&Initial>,
    others: Option<&OfTenant>,
) -> Vec<Found> {
    let mut found: Vec<Found> =
        others.into_iter().flat_map(|others| others.findings.iter().map(Found::from)).collect();
    found.extend(of_limit(&tenant.limit));
    let first_bytes = initial.map_or(tenant.limit.bytes(), |initial| initial.high_bytes);
    if let Some(bytes) = first_bytes.filter(|_| pods::is_pod(&tenant.cgroup)) {
        found.push(Found {
            kind: Kind::OtherManager,
            key: "memory.high of a pod".into(),
            message: format!(
                "memory.high was {bytes} at first: the kubelet (MemoryQoS) or the container runtime \
                 sets it"
            ),
        });
    }
    found
}

/// The condition of a limit that another program sets, too.
#[must_use]
pub fn of_limit(limit: &Limit) -> Option<Found> {
    let kind = match limit.contest() {
        Contest::None | Contest::Foreign => return None,
        Contest::Asserted => Kind::LimitAsserted,
        Contest::Yielded => Kind::LimitYielded,
    };
    let (told, yields) = limit.contest_told();
    Some(Found { kind, key: yields.to_string(), message: told.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kind: Kind, key: &str, message: &str) -> Found {
        Found { kind, key: key.into(), message: message.into() }
    }

    #[test]
    fn a_condition_keeps_its_time_while_it_holds_whatever_it_says() {
        let mut conditions = Conditions::default();
        let kubelet = || found(Kind::OtherManager, "kubelet", "b");
        conditions.told(vec![kubelet(), found(Kind::OtherManager, "oomd", "a")], 5);
        let said = found(Kind::OtherManager, "oomd", "c");
        let told = conditions.told(vec![said, kubelet(), found(Kind::LimitYielded, "1", "d")], 6);
        let told: Vec<_> =
            told.iter().map(|c| (c.kind(), c.message.as_str(), c.since_us)).collect();
        let expected = [
            (Kind::LimitYielded, "d", 6),
            (Kind::OtherManager, "b", 5),
            (Kind::OtherManager, "c", 5),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn messages_of_others_are_cut() {
        let long = found(Kind::OtherManager, "runtime", &"é".repeat(5000));
        let told = Conditions::default().told(vec![long], 5);
        assert_eq!(told[0].message, "é".repeat(MESSAGE_CHARS_MAX));
    }

    #[test]
    fn a_condition_that_ended_starts_again() {
        let mut conditions = Conditions::default();
        let yielded = |key: &str| vec![found(Kind::LimitYielded, key, "theirs")];
        assert_eq!(conditions.told(yielded("1"), 5)[0].since_us, 5);
        assert_eq!(
            conditions.told(yielded("2"), 6)[0].since_us,
            6,
            "yielded once more between looks"
        );
        assert_eq!(conditions.told(Vec::new(), 7), []);
        assert_eq!(conditions.told(yielded("2"), 8)[0].since_us, 8);
    }
}
