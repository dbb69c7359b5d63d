// SPDX-License-Identifier: Apache-2.0
//! Variants: a policy with other values of its tunables has a name of its own, `NAME:VARIANT`. This
//! file is also compiled into the build script.

use super::manifest::{Manifest, is_identifier};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Separates the name of a policy from that of its variant.
pub const SEPARATOR: char = ':';

/// A policy with other values of its tunables. It is simulated and chosen like a separate policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Name of the variant, without that of the policy.
    pub name: String,
    /// The tunables that differ from the defaults: `tunable`, or `"tunable.3"` for an element of an
    /// array.
    pub tunables: BTreeMap<String, u64>,
}

/// Returns the name of the policy in `NAME` or `NAME:VARIANT`.
#[must_use]
pub fn policy_of(name: &str) -> &str {
    name.split_once(SEPARATOR).map_or(name, |(policy, _)| policy)
}

impl Manifest {
    /// Returns the names of the policy and of its variants.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let variant = |variant: &Variant| format!("{}{SEPARATOR}{}", self.name, variant.name);
        std::iter::once(self.name.clone()).chain(self.variants.iter().map(variant))
    }

    /// Returns the values of all tunables of `name`, one of [`Self::names`], in the order of
    /// `struct policy_tunables`.
    ///
    /// # Errors
    /// One line that lists the known variants.
    pub fn values_of(&self, name: &str) -> Result<Vec<u32>, String> {
        let Some((_, wanted)) = name.split_once(SEPARATOR) else {
            return Ok(self.tunable_defaults());
        };
        match self.variants.iter().find(|variant| variant.name == wanted) {
            Some(variant) => self.tunable_values(variant.given()),
            None => {
                let known: Vec<String> = self.names().skip(1).collect();
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                Err(format!("{name:?} is no variant of {} (known: {known})", self.name))
            }
        }
    }

    /// Returns the name that belongs to these values of the tunables: the variant with the same
    /// values, or else the policy. Lists of task ids are ignored.
    #[must_use]
    pub fn name_of(&self, values: &[u32]) -> String {
        let values = self.with_tasks(values.to_vec(), &[]);
        let same = |name: &String| self.values_of(name).is_ok_and(|own| own == values);
        self.names().skip(1).find(same).unwrap_or_else(|| self.name.clone())
    }

    pub(super) fn validate_variants(&self) -> Result<(), String> {
        let mut known = vec![("the defaults".to_owned(), self.tunable_defaults())];
        for variant in &self.variants {
            let fail = |message: String| Err(format!("variants.{}: {message}", variant.name));
            if !is_identifier(&variant.name) {
                return fail("name is not of the form [a-z][a-z0-9_]*".into());
            }
            let values = match self.tunable_values(variant.given()) {
                Ok(values) => values,
                Err(message) => return fail(message),
            };
            // An attached policy is recognised by its values, so variants must differ in them.
            if let Some((same, _)) = known.iter().find(|(n, v)| *n == variant.name || *v == values)
            {
                return fail(format!("the same name or the same values as {same}"));
            }
            known.push((variant.name.clone(), values));
        }
        Ok(())
    }
}

impl Variant {
    fn given(&self) -> impl Iterator<Item = (&str, u64)> {
        self.tunables.iter().map(|(key, &value)| (key.as_str(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::find;

    fn manifest() -> Manifest {
        let mut manifest = find("s3fifo").unwrap().manifest.clone();
        let variant = |name: &str, tunable: &str, value| Variant {
            name: name.into(),
            tunables: [(tunable.to_owned(), value)].into(),
        };
        manifest.variants =
            vec![variant("wide", "small_pct", 40), variant("easy", "promote_accesses", 1)];
        manifest
    }

    #[test]
    fn a_name_stands_for_values_and_values_for_a_name() {
        let manifest = manifest();
        assert_eq!(manifest.names().collect::<Vec<_>>(), ["s3fifo", "s3fifo:wide", "s3fifo:easy"]);
        for (name, values) in
            [("s3fifo", vec![10, 2]), ("s3fifo:wide", vec![40, 2]), ("s3fifo:easy", vec![10, 1])]
        {
            assert_eq!(manifest.values_of(name), Ok(values.clone()));
            assert_eq!(manifest.name_of(&values), name);
            assert_eq!(policy_of(name), "s3fifo");
        }
        assert_eq!(manifest.name_of(&[33, 3]), "s3fifo", "set by hand");
        let unknown = manifest.values_of("s3fifo:tall").unwrap_err();
        let expected = "\"s3fifo:tall\" is no variant of s3fifo (known: s3fifo:wide, s3fifo:easy)";
        assert_eq!(unknown, expected);
    }
}
