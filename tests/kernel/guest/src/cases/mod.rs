// SPDX-License-Identifier: Apache-2.0
//! Every case, and the sets that they run in.

mod admission;
mod advice;
mod charges;
mod children;
mod counted;
mod filtering;
mod handovers;
mod hooks;
mod hooks_removal;
mod hostile;
mod keys;
mod lifetime;
mod limits;
mod loader;
mod long;
mod memory;
mod nodes;
mod notes;
mod parts;
mod prefetch;
mod prefetch_shipped;
mod prefetch_silent;
mod programs;
mod published;
mod reclaim;
mod requests;
mod rights;
mod small_caches;
mod splits;
mod swap;
mod unused;
mod verifier;
mod watchdog;

use crate::error::Result;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What cases get.
#[derive(Debug)]
pub struct Lab {
    /// For cases that take as long as they are told.
    pub time: Duration,
    /// Most that a miss ratio may change by while policies are swapped.
    pub tolerance: f64,
    /// The loader.
    pub agent: PathBuf,
    /// Folder of compiled policies.
    pub policies: PathBuf,
}

/// Cases that want the same machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Set {
    /// ext4, the kernel's LRU of active and inactive lists.
    Ext4,
    /// ext4, the multi-generational LRU.
    Ext4Mglru,
    /// xfs, which uses large folios.
    Xfs,
    /// xfs, the multi-generational LRU.
    XfsMglru,
    /// Two nodes and little memory.
    Nodes,
    /// Two nodes and little memory, the multi-generational LRU.
    NodesMglru,
    /// What takes minutes.
    Long,
}

impl Set {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Ext4,
        Self::Ext4Mglru,
        Self::Xfs,
        Self::XfsMglru,
        Self::Nodes,
        Self::NodesMglru,
        Self::Long,
    ];

    /// Whether the multi-generational LRU is to be on.
    #[must_use]
    pub fn uses_mglru(self) -> bool {
        matches!(self, Self::Ext4Mglru | Self::XfsMglru | Self::NodesMglru)
    }

    fn groups(self) -> &'static [Group] {
        match self {
            Self::Ext4 => &[Ext4, Once],
            Self::Ext4Mglru => &[Ext4],
            Self::Xfs | Self::XfsMglru => &[Xfs],
            Self::Nodes | Self::NodesMglru => &[Nodes],
            Self::Long => &[Long],
        }
    }
}

impl fmt::Display for Set {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ext4 => "ext4",
            Self::Ext4Mglru => "ext4-mglru",
            Self::Xfs => "xfs",
            Self::XfsMglru => "xfs-mglru",
            Self::Nodes => "nodes",
            Self::NodesMglru => "nodes-mglru",
            Self::Long => "long",
        })
    }
}

/// The machine that a case wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// A scratch disk with ext4.
    Ext4,
    /// The same; it does not matter which LRU there is.
    Once,
    /// A scratch disk with xfs.
    Xfs,
    /// Two nodes.
    Nodes,
    /// Time.
    Long,
}

use Group::{Ext4, Long, Nodes, Once, Xfs};

/// What a case has to say when it passes.
pub type Outcome = Result<String>;

/// A property of the kernel.
#[derive(Debug)]
pub struct Case {
    /// What is tested.
    pub name: &'static str,
    groups: &'static [Group],
    /// Tests it.
    pub run: fn(&Lab) -> Outcome,
}

const fn case(name: &'static str, groups: &'static [Group], run: fn(&Lab) -> Outcome) -> Case {
    Case { name, groups, run }
}

/// The cases of a set, in their order.
pub fn of(set: Set) -> impl Iterator<Item = &'static Case> {
    let lists = [
        hooks::CASES,
        hooks_removal::CASES,
        counted::CASES,
        limits::CASES,
        reclaim::CASES,
        requests::CASES,
        children::CASES,
        lifetime::CASES,
        nodes::CASES,
        notes::CASES,
        handovers::CASES,
        splits::CASES,
        parts::CASES,
        hostile::CASES,
        keys::CASES,
        watchdog::CASES,
        verifier::CASES,
        rights::CASES,
        admission::CASES,
        advice::CASES,
        filtering::CASES,
        unused::CASES,
        small_caches::CASES,
        swap::CASES,
        loader::CASES,
        programs::CASES,
        published::CASES,
        prefetch::CASES,
        prefetch_shipped::CASES,
        prefetch_silent::CASES,
        memory::CASES,
        charges::CASES,
        long::CASES,
    ];
    lists
        .into_iter()
        .flatten()
        .filter(move |case| case.groups.iter().any(|group| set.groups().contains(group)))
}

const MIB: u64 = 1 << 20;
const PAGES_PER_MIB: u64 = 256;
