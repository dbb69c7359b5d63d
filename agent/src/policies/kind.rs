// SPDX-License-Identifier: Apache-2.0
//! The kinds of policies. A cgroup may have one policy of each kind, and each is attached and
//! detached independently.

use cachepilot_models::policy::Manifest;

/// What is done differently for policies of readahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Kind {
    /// What is evicted, or admitted.
    #[default]
    Eviction,
    /// What is read ahead.
    Readahead,
}

impl Kind {
    /// The kernel's struct that is the table of hooks.
    pub(crate) fn ops_struct(self) -> &'static str {
        match self {
            Self::Eviction => "cache_ext_ops",
            Self::Readahead => "cache_ext_prefetch_ops",
        }
    }

    /// The folder of pins.
    pub(crate) fn pin_root(self) -> &'static str {
        match self {
            Self::Eviction => "/sys/fs/bpf/cachepilot",
            Self::Readahead => "/sys/fs/bpf/cachepilot_prefetch",
        }
    }

    /// Keys of `memory.cache_ext` for the policy that decides, and for the cgroup that owns it.
    pub(crate) fn stat_keys(self) -> [&'static str; 2] {
        match self {
            Self::Eviction => ["policy", "owner"],
            Self::Readahead => ["prefetch_policy", "prefetch_owner"],
        }
    }

    /// The kind's folder below that of compiled policies; `None` for policies in the folder itself.
    pub(crate) fn folder(self) -> Option<&'static str> {
        match self {
            Self::Eviction => None,
            Self::Readahead => Some("prefetch"),
        }
    }

    /// Parses the manifest of a policy of this kind; `name` is the policy's folder.
    pub(crate) fn parse(self, text: &str, name: &str) -> Result<Manifest, String> {
        match self {
            Self::Eviction => Manifest::parse(text, name),
            Self::Readahead => Manifest::parse_prefetch(text, name),
        }
    }
}
