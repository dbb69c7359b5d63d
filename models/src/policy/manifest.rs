// SPDX-License-Identifier: Apache-2.0
//! The manifest `policy.toml` of a policy folder. This file is also compiled into the build script,
//! with [`super::tunables`] and [`super::variants`], so it depends on nothing else in the crate.

use super::variants::Variant;
use serde::{Deserialize, Serialize};

/// Names of the hooks that a policy may implement.
pub const HOOKS: [&str; 10] = [
    "init",
    "exit",
    "evict_folios",
    "folio_added",
    "folio_accessed",
    "folio_removed",
    "admit_folio",
    "folio_counted",
    "folio_advised",
    "folio_split",
];

/// Names of the hooks that a readahead policy may implement.
pub const PREFETCH_HOOKS: [&str; 2] = [WINDOW_HOOK, "page_used"];

/// The hook that every readahead policy needs.
pub const WINDOW_HOOK: &str = "decide_window";

/// The hook of policies that evict. Policies without it leave eviction to the kernel.
pub const EVICTION_HOOK: &str = "evict_folios";

/// Hooks that a policy with [`EVICTION_HOOK`] must also implement. Such a policy chooses from
/// lists: the first hook creates them, and the second fills them.
pub const LIST_HOOKS: [&str; 2] = ["init", "folio_added"];

/// In simulation, the policy that evicts below a policy that leaves eviction to the kernel: a model
/// of the kernel's own eviction.
pub const KERNEL_MODEL: &str = "kernel_lru";

/// Kernel features beyond lists that a policy may need.
pub const NEEDS: [&str; 7] =
    ["ghosts", "scoring", "folio_state", "page_keys", "tasks", "clock", "random"];

/// A number that an operator may set, when a policy is loaded or while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunable {
    /// Name of the field in `TUNABLE(name)`.
    pub name: String,
    /// `u32`, the only type so far.
    #[serde(rename = "type")]
    pub kind: String,
    /// Number of elements. Above 1 the tunable is an array, and all elements start at `default`.
    #[serde(default = "one")]
    pub length: u32,
    /// Value if none is set.
    pub default: u32,
    /// Smallest value allowed.
    pub min: u32,
    /// Largest value allowed.
    pub max: u32,
    /// Unit of the value. A miniature simulation scales values in `pages` with the cache.
    pub unit: String,
    /// What the tunable does.
    pub description: String,
}

fn one() -> u32 {
    1
}

/// The manifest of one policy folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name of the folder, of the policy on the command line and of its struct_ops table.
    pub name: String,
    /// Name as written in the literature.
    pub title: String,
    /// How the policy decides, in one sentence.
    pub summary: String,
    /// Workloads that the policy suits.
    pub good_at: String,
    /// Workloads that the policy does not suit.
    pub bad_at: String,
    /// Source: authors, title, venue, year.
    pub paper: String,
    /// Whether the policy is recommended for production.
    pub production: bool,
    /// Whether the autopilot may choose the policy.
    #[serde(default)]
    pub autopilot: bool,
    /// True for a model that is never loaded into a kernel.
    #[serde(default)]
    pub simulation_only: bool,
    /// Size in bytes of the struct passed to `POLICY_FOLIO_STATE`; 0 for none.
    pub folio_state_bytes: u32,
    /// Size in bytes of the value kept with a ghost: 0, 2 or 4.
    #[serde(default)]
    pub ghost_value_bytes: u32,
    /// Hooks that the policy implements.
    pub hooks: Vec<String>,
    /// Kernel features beyond lists that the policy needs; see [`NEEDS`].
    #[serde(default)]
    pub needs: Vec<String>,
    /// Tunables of the policy.
    #[serde(default)]
    pub tunables: Vec<Tunable>,
    /// Variants: other values of the tunables, each worth simulating beside the defaults.
    #[serde(default)]
    pub variants: Vec<Variant>,
}

impl Manifest {
    /// Parses and validates the text of a `policy.toml` in the folder `folder`.
    ///
    /// # Errors
    /// One line that names the key and what is allowed.
    pub fn parse(text: &str, folder: &str) -> Result<Self, String> {
        Self::parse_with(text, folder, &HOOKS)
    }

    /// Like [`Self::parse`], for a readahead policy.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_prefetch(text: &str, folder: &str) -> Result<Self, String> {
        let manifest = Self::parse_with(text, folder, &PREFETCH_HOOKS)?;
        if !manifest.hooks.iter().any(|hook| hook == WINDOW_HOOK) {
            return Err(format!("hooks: {WINDOW_HOOK} is missing"));
        }
        Ok(manifest)
    }

    fn parse_with(text: &str, folder: &str, hooks: &[&str]) -> Result<Self, String> {
        let manifest: Self = toml::from_str(text).map_err(|e| one_line(&e.to_string()))?;
        manifest.validate(folder, hooks)?;
        Ok(manifest)
    }

    fn validate(&self, folder: &str, hooks: &[&str]) -> Result<(), String> {
        if self.name != folder {
            return Err(format!("name: {:?} differs from the folder {folder:?}", self.name));
        }
        if !is_identifier(&self.name) {
            return Err(format!("name: {:?} is not of the form [a-z][a-z0-9_]*", self.name));
        }
        if self.folio_state_bytes > 8 {
            return Err(format!("folio_state_bytes: {} is not 0 to 8", self.folio_state_bytes));
        }
        if ![0, 2, 4].contains(&self.ghost_value_bytes) {
            return Err(format!("ghost_value_bytes: {} is not 0, 2 or 4", self.ghost_value_bytes));
        }
        if self.autopilot && self.simulation_only {
            return Err("autopilot: a policy that is simulation_only cannot be chosen".into());
        }
        check_words("hooks", &self.hooks, hooks)?;
        check_words("needs", &self.needs, &NEEDS)?;
        self.tunables.iter().try_for_each(Tunable::validate)?;
        self.validate_variants()
    }

    /// Returns whether the policy chooses what is evicted. Otherwise it leaves that to the kernel.
    #[must_use]
    pub fn evicts(&self) -> bool {
        self.hooks.iter().any(|hook| hook == EVICTION_HOOK)
    }

    /// Returns the number of 32-bit words that all tunables take together.
    #[must_use]
    pub fn tunable_words(&self) -> usize {
        self.tunables.iter().map(|t| t.length as usize).sum()
    }

    /// Returns the default values of all tunables, in the order of `struct policy_tunables`.
    #[must_use]
    pub fn tunable_defaults(&self) -> Vec<u32> {
        self.tunables.iter().flat_map(|t| vec![t.default; t.length as usize]).collect()
    }

    /// Returns the text of the generated `policy_manifest.h`.
    #[must_use]
    pub fn header(&self) -> String {
        let defaults: Vec<String> = self.tunables.iter().map(Tunable::initializer).collect();
        format!(
            "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */\n\
             /* Generated from policy.toml. */\n#pragma once\n\
             #define CACHE_EXT_POLICY {name}\n\
             #define CACHE_EXT_POLICY_NAME \"{name}\"\n\
             #define CACHE_EXT_FOLIO_STATE_BYTES {state}\n\
             #define CACHE_EXT_GHOST_VALUE_BYTES {ghost}\n\
             #define CACHE_EXT_TUNABLE_WORDS {words}\n\
             #define CACHE_EXT_TUNABLE_DEFAULTS {defaults}\n\
             struct policy_tunables {{\n{fields}}};\n",
            name = self.name,
            state = self.folio_state_bytes,
            ghost = self.ghost_value_bytes,
            words = self.tunable_words(),
            defaults = defaults.join(", "),
            fields = self.fields(),
        )
    }

    /// Returns the text of the generated `layer_manifest.h`, for policies that are simulated above
    /// this one.
    #[must_use]
    pub fn layer_header(&self) -> String {
        format!(
            "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */\n\
             /* Generated from the policy.toml of {name}. */\n#pragma once\n\
             #define cx_layer_FOLIO_STATE_BYTES {state}\n\
             #define CX_LAYER_GHOST_VALUE_BYTES {ghost}\n\
             #define CX_LAYER_TUNABLE_WORDS {words}\n\
             struct cx_layer_tunables {{\n{fields}}};\n",
            name = self.name,
            state = self.folio_state_bytes,
            ghost = self.ghost_value_bytes,
            words = self.tunable_words(),
            fields = self.fields(),
        )
    }

    /// Returns the members of the struct of tunables. A C struct needs a member even if there are
    /// no tunables.
    fn fields(&self) -> String {
        let fields: String = self.tunables.iter().map(Tunable::field).collect();
        if fields.is_empty() { "\tu32 none;\n".into() } else { fields }
    }
}

impl Tunable {
    fn validate(&self) -> Result<(), String> {
        let fail = |message: String| Err(format!("tunables.{}: {message}", self.name));
        if !is_identifier(&self.name) {
            return fail("name is not of the form [a-z][a-z0-9_]*".into());
        }
        if self.kind != "u32" {
            return fail(format!("type {:?} is not \"u32\"", self.kind));
        }
        if !(1..=256).contains(&self.length) {
            return fail(format!("length {} is not in 1..=256", self.length));
        }
        if !(self.min..=self.max).contains(&self.default) {
            return fail(format!("default {} is not in {}..={}", self.default, self.min, self.max));
        }
        Ok(())
    }

    fn field(&self) -> String {
        let array = if self.length > 1 { format!("[{}]", self.length) } else { String::new() };
        format!("\tu32 {}{array};\n", self.name)
    }

    fn initializer(&self) -> String {
        if self.length > 1 {
            format!(".{} = {{ [0 ... {}] = {} }}", self.name, self.length - 1, self.default)
        } else {
            format!(".{} = {}", self.name, self.default)
        }
    }
}

fn check_words(key: &str, words: &[String], known: &[&str]) -> Result<(), String> {
    match words.iter().find(|w| !known.contains(&w.as_str())) {
        Some(word) => Err(format!("{key}: {word:?} is none of {}", known.join(", "))),
        None => Ok(()),
    }
}

pub(super) fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
