// SPDX-License-Identifier: Apache-2.0
//! What can be asked.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Eviction policies of the page cache on this node.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Policies of cgroups: attach, replace, watch and check them.
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
}

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Give a policy to a cgroup that has none; it stays when this command ends.
    Attach(Placement),
    /// Replace the policy of a cgroup at once; nothing that is cached is lost.
    Swap(Placement),
    /// Take the policy from a cgroup, which returns to the kernel's default.
    Detach {
        #[command(flatten)]
        cgroup: CgroupOption,
    },
    /// Change tunables of the policy that a cgroup has.
    Set {
        #[command(flatten)]
        cgroup: CgroupOption,
        /// Tunables and their values; one element of an array is KEY.ELEMENT=VALUE.
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
        #[command(flatten)]
        dir: DirOption,
    },
    /// Show the policies of cgroups and what the kernel counts about them.
    Stat {
        /// Directory of one cgroup, or 'all' for every one with a policy.
        #[arg(long, value_name = "PATH", default_value = "all")]
        cgroup: PathBuf,
        /// Print JSON on stdout.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        dir: DirOption,
    },
    /// Load policies without attaching them: what the verifier makes of each hook.
    Verify {
        /// The policy, or 'all' for every one.
        #[arg(long, value_name = "NAME", default_value = "all")]
        policy: String,
        /// Print JSON on stdout.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        dir: DirOption,
    },
}

/// A policy for a cgroup.
#[derive(Debug, Args)]
pub struct Placement {
    #[command(flatten)]
    pub cgroup: CgroupOption,
    /// The policy.
    #[arg(long, value_name = "NAME")]
    pub policy: String,
    /// A tunable and its value; one element of an array is KEY.ELEMENT=VALUE.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    #[command(flatten)]
    pub dir: DirOption,
}

#[derive(Debug, Args)]
pub struct CgroupOption {
    /// Directory of the cgroup.
    #[arg(long = "cgroup", value_name = "PATH")]
    pub dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct DirOption {
    /// Folder of compiled policies [default: $CACHEPILOT_BPF_DIR, or /usr/lib/cachepilot/bpf]
    #[arg(long = "policies", value_name = "DIR")]
    pub policies: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn no_two_options_of_a_command_share_a_name() {
        Arguments::command().debug_assert();
        let line = "x policy attach --cgroup C --policy P --policies D --set a=1 --set b=2";
        let Command::Policy { command } =
            Arguments::try_parse_from(line.split(' ')).unwrap().command;
        let PolicyCommand::Attach(placement) = command else { panic!("{command:?}") };
        assert_eq!(placement.cgroup.dir, PathBuf::from("C"));
        assert_eq!(placement.dir.policies, Some(PathBuf::from("D")));
        assert_eq!((placement.policy.as_str(), placement.settings.len()), ("P", 2));
    }
}
