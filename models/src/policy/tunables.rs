// SPDX-License-Identifier: Apache-2.0
//! Values for the tunables of a policy, from settings by name.

use super::manifest::{Manifest, Tunable};
use std::collections::BTreeMap;
use std::ops::Range;

/// Unit of a tunable that is a list of tasks.
const TASK_UNIT: &str = "task id";

impl Manifest {
    /// Returns the values of all tunables in the order of `struct policy_tunables`: those in
    /// `given` are set, and the others have their defaults. An array name sets all its elements.
    /// `name.3` sets element 3 and takes precedence over the value of the whole array.
    ///
    /// # Errors
    /// One line that names the policy, the tunable and what is allowed.
    pub fn tunable_values<'a>(
        &self,
        given: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<Vec<u32>, String> {
        self.with_tunables(self.tunable_defaults(), given)
    }

    /// Like [`Self::tunable_values`], but the tunables not in `given` have the values in `values`.
    ///
    /// # Errors
    /// As [`Self::tunable_values`].
    pub fn with_tunables<'a>(
        &self,
        mut values: Vec<u32>,
        given: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<Vec<u32>, String> {
        // The order by name puts an array before its elements, which override it.
        let given: BTreeMap<&str, u64> = given.into_iter().collect();
        for (key, value) in given {
            let (words, value) =
                self.setting(key, value).map_err(|e| format!("{}.{key}: {e}", self.name))?;
            values[words].fill(value);
        }
        Ok(values)
    }

    /// Returns whether the policy treats certain tasks differently, which an operator has to name.
    #[must_use]
    pub fn needs_tasks(&self) -> bool {
        self.needs.iter().any(|need| need == "tasks")
    }

    /// Returns `values`, the values of all tunables, with `tasks` written to every list of task
    /// ids. A list takes as many tasks as it has room for, and its remaining elements are 0.
    #[must_use]
    pub fn with_tasks(&self, mut values: Vec<u32>, tasks: &[u32]) -> Vec<u32> {
        let mut start = 0;
        for tunable in &self.tunables {
            let words = start..start + tunable.length as usize;
            start = words.end;
            if tunable.unit == TASK_UNIT {
                let tasks = tasks.iter().copied().chain(std::iter::repeat(0));
                values[words].iter_mut().zip(tasks).for_each(|(word, task)| *word = task);
            }
        }
        values
    }

    /// Returns the words that `key` names, and the value for each of them.
    ///
    /// # Errors
    /// One line that says what is allowed, without the key.
    pub fn setting(&self, key: &str, value: u64) -> Result<(Range<usize>, u32), String> {
        let (name, element) = match key.split_once('.') {
            Some((name, element)) => (name, Some(element)),
            None => (key, None),
        };
        let (start, tunable) = self.tunable(name)?;
        let within = u32::try_from(value).ok().filter(|v| (tunable.min..=tunable.max).contains(v));
        let value =
            within.ok_or_else(|| format!("{value} is not in {}..={}", tunable.min, tunable.max))?;
        let length = tunable.length as usize;
        match element.map(str::parse::<usize>) {
            None => Ok((start..start + length, value)),
            Some(Ok(i)) if i < length => Ok((start + i..start + i + 1, value)),
            Some(_) => Err(format!("the element is not in 0..={}", length - 1)),
        }
    }

    /// Returns the tunable of this name, and the index of its first word.
    fn tunable(&self, name: &str) -> Result<(usize, &Tunable), String> {
        let mut start = 0;
        for tunable in &self.tunables {
            if tunable.name == name {
                return Ok((start, tunable));
            }
            start += tunable.length as usize;
        }
        let known: Vec<&str> = self.tunables.iter().map(|t| t.name.as_str()).collect();
        match known.as_slice() {
            [] => Err("the policy has no tunables".into()),
            _ => Err(format!("no such tunable (known: {})", known.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn manifest() -> Manifest {
        let tunable = |name: &str, length| Tunable {
            name: name.into(),
            kind: "u32".into(),
            length,
            default: 5,
            min: 2,
            max: 9,
            unit: "pages".into(),
            description: "a limit".into(),
        };
        let mut manifest = crate::policy::policies()[0].manifest.clone();
        manifest.name = "sample".into();
        manifest.tunables = vec![tunable("first", 1), tunable("many", 3), tunable("last", 1)];
        manifest
    }

    #[test]
    fn tunables_that_are_not_given_have_their_default() {
        assert_eq!(manifest().tunable_values([]), Ok(vec![5; 5]));
        assert_eq!(manifest().tunable_values([("last", 9)]), Ok(vec![5, 5, 5, 5, 9]));
    }

    #[test]
    fn an_element_overrides_its_array_in_any_order() {
        let values = Ok(vec![5, 7, 7, 2, 5]);
        assert_eq!(manifest().tunable_values([("many", 7), ("many.2", 2)]), values);
        assert_eq!(manifest().tunable_values([("many.2", 2), ("many", 7)]), values);
    }

    #[test]
    fn lists_of_tasks_take_what_they_have_room_for() {
        let mut manifest = manifest();
        assert_eq!(manifest.with_tasks(vec![5; 5], &[7]), [5; 5], "there is no such list");
        manifest.tunables[1].unit = "task id".into();
        assert_eq!(manifest.with_tasks(vec![5; 5], &[7]), [5, 7, 0, 0, 5]);
        assert_eq!(manifest.with_tasks(vec![5; 5], &[1, 2, 3, 4]), [5, 1, 2, 3, 5]);
    }

    #[test]
    fn refusals_name_the_tunable_and_what_is_allowed() {
        let refused = |key: &str, value| manifest().tunable_values([(key, value)]).unwrap_err();
        assert_eq!(refused("first", 10), "sample.first: 10 is not in 2..=9");
        assert_eq!(refused("first", 1 << 32), "sample.first: 4294967296 is not in 2..=9");
        assert_eq!(refused("many.3", 5), "sample.many.3: the element is not in 0..=2");
        assert_eq!(refused("many.x", 5), "sample.many.x: the element is not in 0..=2");
        let unknown = "sample.fist: no such tunable (known: first, many, last)";
        assert_eq!(refused("fist", 5), unknown);
    }

    proptest! {
        #[test]
        fn any_key_and_value_is_set_or_refused(key in "(first|many|last|[a-z]{0,5})(\\.[0-9-]{0,2})?", value in 0_u64..12) {
            if let Ok(values) = manifest().tunable_values([(key.as_str(), value)]) {
                prop_assert!(values.len() == 5 && values.contains(&(value as u32)));
            }
        }
    }
}
