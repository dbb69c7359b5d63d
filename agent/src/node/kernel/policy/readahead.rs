// SPDX-License-Identifier: Apache-2.0
//! Totals of the readahead policies of a tenant, over all that were attached one after the other.

use crate::wire::Readahead;
use crate::wire::readahead::Pages;

/// The readahead policy of a tenant. The kernel's counts begin at 0 with every policy that is
/// attached; the totals here continue.
#[derive(Debug, Clone, Default)]
pub struct ReadaheadTotals {
    earlier: Pages,
    last: Pages,
    policy: Option<Readahead>,
}

impl ReadaheadTotals {
    /// Takes the kernel's present counts; `None` if there is no policy.
    pub fn take(&mut self, now: Option<Readahead>) {
        let pages = now.as_ref().and_then(|policy| policy.pages).unwrap_or_default();
        if is_below(&pages, &self.last) {
            self.earlier = sum(&self.earlier, &self.last);
        }
        self.last = pages;
        self.policy = now;
    }

    /// The policy, with the totals of all policies that were attached to the tenant so far.
    #[must_use]
    pub fn shown(&self) -> Option<Readahead> {
        let mut shown = self.policy.clone()?;
        shown.pages = shown.pages.map(|last| sum(&self.earlier, &last));
        Some(shown)
    }
}

fn is_below(now: &Pages, last: &Pages) -> bool {
    now.ahead_total < last.ahead_total
        || now.used_total < last.used_total
        || now.wasted_total < last.wasted_total
}

fn sum(one: &Pages, other: &Pages) -> Pages {
    Pages {
        ahead_total: one.ahead_total + other.ahead_total,
        used_total: one.used_total + other.used_total,
        wasted_total: one.wasted_total + other.wasted_total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, pages: Option<[u64; 3]>) -> Option<Readahead> {
        let pages = pages.map(|[ahead_total, used_total, wasted_total]| Pages {
            ahead_total,
            used_total,
            wasted_total,
        });
        Some(Readahead { policy: name.into(), pages })
    }

    #[test]
    fn totals_go_on_when_another_policy_is_attached() {
        let mut totals = ReadaheadTotals::default();
        for (now, shown) in [
            (None, None),
            (policy("leap", Some([8, 4, 0])), policy("leap", Some([8, 4, 0]))),
            // The policy was swapped: the kernel's counts continue.
            (policy("stride", Some([10, 4, 1])), policy("stride", Some([10, 4, 1]))),
            (None, None),
            (policy("leap", Some([12, 0, 0])), policy("leap", Some([22, 4, 1]))),
            // The policy was detached and attached again between two observations: its count of
            // used pages is lower.
            (policy("linux", Some([13, 0, 0])), policy("linux", Some([23, 4, 1]))),
            (policy("linux", Some([5, 1, 0])), policy("linux", Some([28, 5, 1]))),
        ] {
            totals.take(now);
            assert_eq!(totals.shown(), shown);
        }
    }

    #[test]
    fn the_counts_of_a_cgroup_above_are_not_the_tenants() {
        let mut totals = ReadaheadTotals::default();
        totals.take(policy("leap", Some([8, 4, 0])));
        totals.take(policy("linux", None));
        assert_eq!(totals.shown(), policy("linux", None));
        totals.take(policy("leap", Some([9, 5, 0])));
        assert_eq!(totals.shown(), policy("leap", Some([17, 9, 0])));
    }
}
