// SPDX-License-Identifier: Apache-2.0
//! The cgroup file `memory.cache_ext`: one "key value" line for each fact about a policy. Keys that
//! this version does not know are preserved.

use super::kind::Kind;
use crate::cgroup::{Cgroup, STATS_FILE};
use crate::error::{Error, Result};
use crate::wire::{Readahead, readahead::Pages};
use serde_json::{Map, Value};

/// Value of `policy` if there is none.
const NO_POLICY: &str = "none";
/// Keys whose value is text. Any other value that is a number is treated as a number.
const TEXT_KEYS: [&str; 4] = ["policy", "state", "reason", "prefetch_policy"];

/// The kernel's statistics of the policy that decides for a cgroup, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupStats(Vec<(String, String)>);

impl CgroupStats {
    /// Reads the file of a cgroup.
    ///
    /// # Errors
    /// Returns [`Error::NoCacheExt`] if there is no such file, and [`Error::Format`] if it cannot
    /// be parsed.
    pub fn read(cgroup: &Cgroup) -> Result<Self> {
        let file = cgroup.stats_file();
        match cgroup.read(STATS_FILE) {
            Ok(text) => Self::parse(&text).map_err(|e| Error::format(&file, e)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && cgroup.path.is_dir() => {
                Err(Error::NoCacheExt("memory.cache_ext is missing in memory cgroups"))
            }
            Err(e) => Err(Error::io(&file)(e)),
        }
    }

    /// Parses the text of the file.
    ///
    /// # Errors
    /// One line that names the offending line and the mistake in it.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut found: Vec<(String, String)> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let fail = |message: &str| Err(format!("line {}: {message}", number + 1));
            let Some((key, value)) = line.split_once(' ') else {
                return fail("not of the form \"key value\"");
            };
            if key.is_empty() || value.trim().is_empty() {
                return fail("not of the form \"key value\"");
            }
            if found.iter().any(|(k, _)| k == key) {
                return fail(&format!("{key} occurs twice"));
            }
            found.push((key.into(), value.trim().into()));
        }
        let stats = Self(found);
        for key in ["policy", "state", "owner"] {
            if stats.text(key).is_none() {
                return Err(format!("{key} is missing"));
            }
        }
        match stats.number("owner") {
            Some(_) => Ok(stats),
            None => Err("owner is not a number of 0 or more".into()),
        }
    }

    /// The value of `key`.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// The value of `key` if it is a number.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }

    /// The eviction policy that decides here, attached to this cgroup or to one above; `None` for
    /// the kernel's default.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        self.policy_of(Kind::Eviction).map(|(policy, _)| policy)
    }

    /// The policy of a kind that decides here, if there is one, and the id of the cgroup to which
    /// it is attached.
    #[must_use]
    pub fn policy_of(&self, kind: Kind) -> Option<(&str, u64)> {
        let [policy, owner] = kind.stat_keys();
        let policy = self.text(policy).filter(|&p| p != NO_POLICY)?;
        Some((policy, self.number(owner).unwrap_or(0)))
    }

    /// The policy of a kind that is attached to the cgroup `id` itself, if there is one.
    #[must_use]
    pub fn own(&self, kind: Kind, id: u64) -> Option<&str> {
        self.policy_of(kind).filter(|&(_, owner)| owner == id).map(|(policy, _)| policy)
    }

    /// Id of the cgroup to which the deciding eviction policy is attached; 0 for none.
    #[must_use]
    pub fn owner(&self) -> u64 {
        self.number("owner").unwrap_or(0)
    }

    /// The readahead policy that decides for the cgroup `cgroup_id`, whose file this is. Page
    /// counts belong to the policy, so they are given only if it is attached to this cgroup.
    #[must_use]
    pub fn readahead(&self, cgroup_id: u64) -> Option<Readahead> {
        let (policy, owner) = self.policy_of(Kind::Readahead)?;
        let pages = || {
            Some(Pages {
                ahead_total: self.number("prefetch_ahead_pages")?,
                used_total: self.number("prefetch_used_pages")?,
                wasted_total: self.number("prefetch_wasted_pages")?,
            })
        };
        let pages = (owner == cgroup_id).then(pages).flatten();
        Some(Readahead { policy: policy.into(), pages })
    }

    /// All keys with their values; numbers as numbers.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let value = |key: &str, text: &str| match text.parse::<u64>() {
            Ok(number) if !TEXT_KEYS.contains(&key) => Value::from(number),
            _ => Value::from(text),
        };
        self.0.iter().map(|(key, text)| (key.clone(), value(key, text))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "policy lfu\nowner 42\nstate ejected\nreason took 12 ms too long\n\
                        resident_pages 4096\nnew_key 0x7\n";

    #[test]
    fn keys_are_read_and_unknown_ones_passed_through() {
        let stats = CgroupStats::parse(FILE).unwrap();
        assert_eq!((stats.policy(), stats.owner()), (Some("lfu"), 42));
        assert_eq!(stats.text("reason"), Some("took 12 ms too long"));
        assert_eq!(stats.number("resident_pages"), Some(4096));
        let json = serde_json::to_string(&stats.to_json()).unwrap();
        assert_eq!(
            json,
            "{\"policy\":\"lfu\",\"owner\":42,\"state\":\"ejected\",\
             \"reason\":\"took 12 ms too long\",\"resident_pages\":4096,\"new_key\":\"0x7\"}"
        );
    }

    #[test]
    fn each_kind_has_a_policy_and_an_owner() {
        let both = format!("{FILE}prefetch_policy leap\nprefetch_owner 7\n");
        let stats = CgroupStats::parse(&both).unwrap();
        assert_eq!(stats.policy_of(Kind::Eviction), Some(("lfu", 42)));
        assert_eq!(stats.policy_of(Kind::Readahead), Some(("leap", 7)));
        let none = CgroupStats::parse(&format!("{FILE}prefetch_policy none\n")).unwrap();
        assert_eq!(none.policy_of(Kind::Readahead), None);
        let older = CgroupStats::parse(FILE).unwrap();
        assert_eq!(older.policy_of(Kind::Readahead), None, "a kernel without them");
    }

    #[test]
    fn pages_read_ahead_are_those_of_the_cgroup_with_the_policy() {
        let text = format!(
            "{FILE}prefetch_policy leap\nprefetch_owner 7\nprefetch_ahead_pages 100\n\
             prefetch_used_pages 60\nprefetch_wasted_pages 30\nprefetch_truncated_pages 1\n"
        );
        let stats = CgroupStats::parse(&text).unwrap();
        let pages = Pages { ahead_total: 100, used_total: 60, wasted_total: 30 };
        let of = |pages| Some(Readahead { policy: "leap".into(), pages });
        assert_eq!(stats.readahead(7), of(Some(pages)));
        assert_eq!(stats.readahead(8), of(None), "a cgroup below");
        let text = text.replace("policy leap", "policy none").replace("owner 7", "owner 0");
        assert_eq!(CgroupStats::parse(&text).unwrap().readahead(7), None);
        assert_eq!(CgroupStats::parse(FILE).unwrap().readahead(42), None, "an older kernel");
    }

    #[test]
    fn a_policy_called_by_a_number_stays_text() {
        let stats = CgroupStats::parse("policy 7\nowner 1\nstate running\nreason 3\n").unwrap();
        assert_eq!(stats.to_json()["policy"], Value::from("7"));
        assert_eq!(stats.to_json()["reason"], Value::from("3"));
    }

    #[test]
    fn malformed_lines_are_named() {
        let refused = |text: &str| CgroupStats::parse(text).unwrap_err();
        assert_eq!(refused("policy\n"), "line 1: not of the form \"key value\"");
        assert_eq!(refused("policy a\n\n"), "line 2: not of the form \"key value\"");
        assert_eq!(refused("policy a\npolicy b\n"), "line 2: policy occurs twice");
        assert_eq!(refused("policy a\nstate running\n"), "owner is missing");
        assert_eq!(refused(""), "policy is missing");
        let text = "policy a\nstate running\nowner x\n";
        assert_eq!(refused(text), "owner is not a number of 0 or more");
    }

    #[test]
    fn no_policy_is_none() {
        let stats = CgroupStats::parse("policy none\nowner 0\nstate none\nreason -\n").unwrap();
        assert_eq!(stats.policy(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes: Vec<u8>) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Err(message) = CgroupStats::parse(&text) {
                prop_assert!(!message.contains('\n'));
            }
        }

        #[test]
        fn every_key_of_the_file_is_parsed(keys in prop::collection::btree_map("[a-z]{9}", any::<u64>(), 0..9)) {
            let mut text = String::from("policy lru\nowner 3\nstate running\nreason -\n");
            for (key, value) in &keys {
                text += &format!("{key} {value}\n");
            }
            let stats = CgroupStats::parse(&text).unwrap();
            for (key, value) in &keys {
                prop_assert_eq!(stats.number(key), Some(*value));
            }
        }
    }
}
