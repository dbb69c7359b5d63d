// SPDX-License-Identifier: Apache-2.0
//! Tunables on a command line: `key=value`, `array=value` or `array.3=value`.

use crate::error::{Error, Result};
use cachepilot_models::policy::Manifest;
use std::ops::Range;
use std::str::FromStr;

/// One `key=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The name of the tunable, or of an element of an array.
    pub key: String,
    /// Its value.
    pub value: u64,
}

impl FromStr for Setting {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fail = |message: &str| Error::Setting { text: text.into(), message: message.into() };
        let (key, value) = text.split_once('=').ok_or_else(|| fail("expected KEY=VALUE"))?;
        let value = value.parse().map_err(|_| fail("the value is not a number of 0 or more"))?;
        Ok(Self { key: key.into(), value })
    }
}

impl Setting {
    /// Parses all settings of a command line.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] for the first one that cannot be parsed.
    pub fn parse_all(texts: &[String]) -> Result<Vec<Self>> {
        texts.iter().map(|text| text.parse()).collect()
    }
}

/// The words of `struct policy_tunables` that `settings` change, and the value of each. Arrays come
/// before their elements, which override them.
///
/// # Errors
/// Returns [`Error::Setting`] with what is allowed.
pub fn changes(manifest: &Manifest, settings: &[Setting]) -> Result<Vec<(Range<usize>, u32)>> {
    let mut settings: Vec<&Setting> = settings.iter().collect();
    settings.sort_by(|a, b| a.key.cmp(&b.key));
    let change = |setting: &&Setting| {
        manifest.setting(&setting.key, setting.value).map_err(|message| Error::Setting {
            text: format!("{}={}", setting.key, setting.value),
            message: format!("{}: {message}", manifest.name),
        })
    };
    settings.iter().map(change).collect()
}

/// All words of `struct policy_tunables`: `words`, changed by `settings`.
///
/// # Errors
/// As [`changes`].
pub fn changed_words(
    manifest: &Manifest,
    mut words: Vec<u32>,
    settings: &[Setting],
) -> Result<Vec<u32>> {
    for (range, value) in changes(manifest, settings)? {
        words[range].fill(value);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cachepilot_models::policy::find;
    use proptest::prelude::*;

    fn get_scan() -> &'static Manifest {
        &find("get_scan").unwrap().manifest
    }

    fn words(texts: &[&str]) -> Result<Vec<u32>> {
        let texts: Vec<String> = texts.iter().map(|&t| t.into()).collect();
        let defaults = get_scan().tunable_defaults();
        changed_words(get_scan(), defaults, &Setting::parse_all(&texts)?)
    }

    #[test]
    fn settings_change_the_defaults() {
        let defaults = get_scan().tunable_defaults();
        assert_eq!(words(&[]).unwrap(), defaults);
        let changed = words(&["pages_per_candidate=3"]).unwrap();
        let different: Vec<_> = changed.iter().zip(&defaults).filter(|(a, b)| a != b).collect();
        assert_eq!(different, [(&3, &16)]);
    }

    #[test]
    fn an_element_overrides_its_array() {
        let changed = words(&["scan_tasks.1=8", "scan_tasks=7"]).unwrap();
        assert_eq!(changed.iter().filter(|&&w| w == 7).count(), 15);
        assert_eq!(changed.iter().filter(|&&w| w == 8).count(), 1);
        assert_eq!(changes(get_scan(), &["scan_tasks.1=8".parse().unwrap()]).unwrap().len(), 1);
    }

    #[test]
    fn refusals_name_the_key_and_what_is_allowed() {
        let refused = |text| words(&[text]).unwrap_err().to_string();
        assert_eq!(refused("nope"), "--set nope: expected KEY=VALUE");
        assert_eq!(refused("a=-1"), "--set a=-1: the value is not a number of 0 or more");
        let range = refused("pages_per_candidate=0");
        let expected = "--set pages_per_candidate=0: get_scan: 0 is not in 2..=";
        assert!(range.starts_with(expected), "{range}");
        let unknown = refused("nope=1");
        assert!(unknown.contains("known: ") && unknown.contains("scan_tasks"), "{unknown}");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text: String) {
            let setting = text.parse::<Setting>();
            prop_assert!(setting.is_err() || text.contains('='));
        }

        #[test]
        fn a_formatted_setting_is_parsed(key in "[a-z_]{1,9}(\\.[0-9]{1,2})?", value: u64) {
            let setting: Setting = format!("{key}={value}").parse().unwrap();
            prop_assert_eq!(setting, Setting { key, value });
        }
    }
}
