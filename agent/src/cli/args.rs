// SPDX-License-Identifier: Apache-2.0
//! The arguments of the command line.

use super::cachestat::options::CachestatOptions;
use cachepilot_agent::policies::kind::Kind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// The agent of a node, and the eviction policies of its page cache.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the agent until SIGTERM or SIGINT; policies and limits stay when it ends.
    Run {
        #[command(flatten)]
        config: ConfigOption,
        /// What is logged to stderr.
        #[arg(long, value_enum, default_value_t = LogLevel::Info)]
        log_level: LogLevel,
    },
    /// Give every tenant back the policy and the limit that it had at first. The agent must be
    /// stopped; takes root, and up to a minute. Status 1: something is left, as the output says.
    Release(ReleaseOptions),
    /// Check a configuration and print what holds, with the defaults filled in.
    CheckConfig {
        #[command(flatten)]
        config: ConfigOption,
        /// Print JSON on stdout.
        #[arg(long)]
        json: bool,
    },
    /// Print what /metrics shows of an example node with one tenant: names, units and labels.
    Metrics,
    /// Policies of cgroups: attach, replace, watch and check them.
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Record the page cache accesses of a cgroup and those below it, all of them, as a trace.
    Record(RecordOptions),
    /// Watch the page cache of cgroups: hits, misses, curves and what is cold. It changes nothing,
    /// needs no controller, and does not disturb an agent. Takes root.
    Cachestat(CachestatOptions),
    /// Evict, keep or prefetch pages of a file, of those that are charged to the caller's cgroup.
    Advise(AdviseOptions),
    /// List the pages of files that a cgroup has in memory, and read such a list on another node.
    Pages {
        #[command(subcommand)]
        command: PagesCommand,
    },
    /// Prove that everything that the agent needs works on this host, by a live canary.
    Doctor(DoctorOptions),
    /// The canary's own process.
    #[command(hide = true)]
    DoctorCanary {
        /// The canary's file.
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct ReleaseOptions {
    #[command(flatten)]
    pub config: ConfigOption,
    /// Only if a lease of the controller has ended, or the agent's state is damaged. Otherwise only
    /// undo the changes whose time to be confirmed is over.
    #[arg(long)]
    pub if_lease_ended: bool,
    /// Print JSON on stdout.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// Folder on a disk for the canary's file of 4 MiB.
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub policies: DirOption,
    /// Print JSON on stdout.
    #[arg(long)]
    pub json: bool,
}

/// What is to become of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AdviceOption {
    /// Evict what is clean and not mapped; what is dirty begins to be written.
    Evict,
    /// Have the cgroup's policy keep what is cached, as far as it can.
    Keep,
    /// Read what is not cached, without waiting for it.
    Prefetch,
}

#[derive(Debug, Args)]
pub struct AdviseOptions {
    /// What is to become of the pages.
    #[arg(value_enum)]
    pub advice: AdviceOption,
    /// A file that the caller may read.
    pub file: PathBuf,
    /// First byte.
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    pub offset: i64,
    /// So many bytes; 0: up to the end of the file.
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    pub length: i64,
}

#[derive(Debug, Subcommand)]
pub enum PagesCommand {
    /// Print the pages in memory of the files that processes of a cgroup, and of those below it, have
    /// open or mapped: a line FIRST_PAGE PAGES PATH for each range, pages of 4 KiB. Takes root.
    List {
        #[command(flatten)]
        cgroup: CgroupOption,
        /// Print only files below this directory. May be given more than once.
        #[arg(long, value_name = "DIR")]
        below: Vec<PathBuf>,
        /// Print at most so many MiB of pages, the same share of each part of the list.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        most_mib: Option<u32>,
    },
    /// Read the pages of a list into the page cache, one read of up to 128 KiB at a time. What
    /// cannot be read is skipped and counted.
    Read {
        /// Directory of a cgroup that this command moves to before it reads: the pages are charged
        /// to it.
        #[arg(long, value_name = "PATH")]
        cgroup: Option<PathBuf>,
        /// Print JSON on stdout.
        #[arg(long)]
        json: bool,
        /// The list [default: standard input]
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub struct RecordOptions {
    #[command(flatten)]
    pub cgroup: CgroupOption,
    /// The trace: FILE.cptrace or FILE.cptrace.zst.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Stop after so many seconds; without it, at Ctrl-C or SIGTERM.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=604_800))]
    pub seconds: Option<u32>,
    /// Record pages whose hash is below this of 1: a sample of the pages, each with every access.
    #[arg(long, value_name = "RATE", default_value_t = 1.0)]
    pub rate: f64,
    /// Room for events in the kernel, MiB, a power of two.
    #[arg(long, value_name = "MIB", default_value_t = 16)]
    pub ring_mib: u32,
    /// Who counts: programs, on any kernel; or the patched kernel itself, when no agent asks it to.
    #[arg(long, value_enum, default_value_t = CountingOption::Programs)]
    pub counting: CountingOption,
    /// Print JSON on stdout.
    #[arg(long)]
    pub json: bool,
}

/// Who counts accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CountingOption {
    Programs,
    Kernel,
}

#[derive(Debug, Args)]
pub struct ConfigOption {
    /// The configuration; configs/agent.toml is an example.
    #[arg(long = "config", value_name = "FILE", default_value = "/etc/cachepilot/agent.toml")]
    pub file: PathBuf,
}

/// From few lines to many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<LogLevel> for tracing::Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Give a policy to a cgroup that has none; it stays when this command ends.
    Attach(Attachment),
    /// Replace the policy of a cgroup at once; nothing that is cached is lost.
    Swap(Placement),
    /// Take the policy from a cgroup, which returns to the kernel's default.
    Detach {
        #[command(flatten)]
        cgroup: CgroupOption,
        #[command(flatten)]
        kind: KindOption,
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
        #[command(flatten)]
        kind: KindOption,
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

/// A policy for a cgroup that has none: of the folder, or any other object.
#[derive(Debug, Args)]
pub struct Attachment {
    #[command(flatten)]
    pub cgroup: CgroupOption,
    /// The policy.
    #[arg(long, value_name = "NAME", required_unless_present = "object")]
    pub policy: Option<String>,
    /// Instead: an object with a table of hooks, like those of policies published with cache_ext.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["policy", "kind"])]
    pub object: Option<PathBuf>,
    /// A tunable and its value, or a global variable of the object; one element of an array of
    /// tunables is KEY.ELEMENT=VALUE.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Most entries of a map of the object.
    #[arg(long, value_name = "MAP=N", conflicts_with = "policy")]
    pub max_entries: Vec<String>,
    /// Tell the object to keep to the files that are below this directory now.
    #[arg(long, value_name = "DIR", conflicts_with = "policy")]
    pub watch: Option<PathBuf>,
    #[command(flatten)]
    pub dir: DirOption,
    #[command(flatten)]
    pub kind: KindOption,
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
    #[command(flatten)]
    pub kind: KindOption,
}

/// What the policy decides: a cgroup may have one of each kind.
#[derive(Debug, Args)]
pub struct KindOption {
    /// What the policy decides.
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Kind::Eviction)]
    pub kind: Kind,
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
        let command = Arguments::try_parse_from(line.split(' ')).unwrap().command;
        let Command::Policy { command: PolicyCommand::Attach(attachment) } = command else {
            panic!("{command:?}")
        };
        assert_eq!(attachment.cgroup.dir, PathBuf::from("C"));
        assert_eq!(attachment.dir.policies, Some(PathBuf::from("D")));
        assert_eq!((attachment.policy.as_deref(), attachment.settings.len()), (Some("P"), 2));
    }
}
