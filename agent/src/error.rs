// SPDX-License-Identifier: Apache-2.0
//! The one error type of this crate.

use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong between a command line and a running policy. Every message is one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused an operation on a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// File the operation was on.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file does not hold what its format requires.
    #[error("{}: {message}", path.display())]
    Format {
        /// The offending file.
        path: PathBuf,
        /// What is wrong and where.
        message: String,
    },
    /// A tunable that cannot be set as asked.
    #[error("--set {text}: {message}")]
    Setting {
        /// What was given.
        text: String,
        /// What is wrong and what is allowed.
        message: String,
    },
    /// No object file of that name.
    #[error("no policy {name:?} in {} (known: {known})", dir.display())]
    UnknownPolicy {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        dir: PathBuf,
        /// Policies that are there.
        known: String,
    },
    /// A directory without a single policy.
    #[error("{}: no policies (*.bpf.o) here; name their folder by --policies or CACHEPILOT_BPF_DIR", .0.display())]
    NoPolicies(PathBuf),
    /// No hierarchy of version 2.
    #[error(
        "no cgroup v2 hierarchy is mounted: boot with systemd.unified_cgroup_hierarchy=1, or mount -t cgroup2 none /sys/fs/cgroup"
    )]
    NoCgroup2,
    /// A hierarchy in which no memory is accounted for.
    #[error(
        "no cgroup below {} has the memory controller: write +memory to its cgroup.subtree_control; if cgroup v1 has the controller, boot with cgroup_no_v1=memory",
        .0.display()
    )]
    NoMemoryCgroups(PathBuf),
    /// Patterns that name no cgroup.
    #[error(
        "--cgroup {}: matches none of the {candidates} cgroups below {} that have the memory controller",
        patterns.join(" --cgroup "), mount.display()
    )]
    NoMatch {
        /// What was asked for.
        patterns: Vec<String>,
        /// Where cgroups were looked for.
        mount: PathBuf,
        /// So many could have been meant.
        candidates: usize,
    },
    /// A path that is not in the cgroup v2 hierarchy.
    #[error("{}: not a cgroup v2 directory", .0.display())]
    NotCgroup2(PathBuf),
    /// The root cgroup has no limit, hence nothing that a policy could do.
    #[error("{}: the root cgroup cannot have a policy; name a cgroup below it", .0.display())]
    RootCgroup(PathBuf),
    /// The memory controller is off for this cgroup.
    #[error(
        "{}: the memory controller is off here (write +memory to cgroup.subtree_control of the cgroup above)",
        .0.display()
    )]
    NoMemoryController(PathBuf),
    /// A kernel without the patch series.
    #[error("this kernel has no cache_ext: {0}")]
    NoCacheExt(&'static str),
    /// Loading programs takes root.
    #[error("loading programs into the kernel takes root (CAP_BPF, CAP_SYS_ADMIN)")]
    NotRoot,
    /// What other processes have open is only shown to root.
    #[error("{}: to see the files of processes takes root (CAP_SYS_ADMIN, CAP_SYS_PTRACE)", .0.display())]
    NoRights(PathBuf),
    /// No BPF file system where links are pinned.
    #[error("{}: not a BPF file system (mount -t bpf bpf {})", .0.display(), .0.display())]
    NoBpffs(PathBuf),
    /// Another process is changing policies.
    #[error("{}: another process is changing policies", .0.display())]
    Locked(PathBuf),
    /// The cgroup has a policy already.
    #[error("{} has the policy {policy} already; replace it by swap", path.display())]
    AlreadyAttached {
        /// The cgroup.
        path: PathBuf,
        /// Its policy.
        policy: String,
    },
    /// The cgroup has a policy whose link this program did not pin.
    #[error("{} has the policy {policy}, which another program attached", path.display())]
    Foreign {
        /// The cgroup.
        path: PathBuf,
        /// Its policy.
        policy: String,
    },
    /// The cgroup has no policy of its own.
    #[error("{} has no policy of its own; give it one by attach", .0.display())]
    NotAttached(PathBuf),
    /// The kernel refused a policy.
    #[error("the kernel refuses policy {policy}: {}", message.trim())]
    Refused {
        /// The policy.
        policy: String,
        /// The last words of the verifier or of libbpf.
        message: String,
    },
    /// A system call on a policy failed.
    #[error("{what}: {source}")]
    Kernel {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A setting of a configuration, or one of its files.
    #[error("{}: {message}", path.display())]
    Config {
        /// The configuration file.
        path: PathBuf,
        /// Key, value and what is allowed.
        message: String,
    },
    /// Another agent keeps its state in the same directory.
    #[error("{}: another agent runs with this state_dir", .0.display())]
    AgentRuns(PathBuf),
    /// An address that cannot be listened on.
    #[error("metrics = \"{address}\": {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The node's thread cannot go on.
    #[error("the node {0}")]
    Node(String),
    /// The sampler of page cache accesses cannot run.
    #[error("the sampler cannot run here: {0}")]
    Sampler(String),
    /// A simulation, a curve or a trace.
    #[error(transparent)]
    Models(#[from] cachepilot_models::Error),
}

impl Error {
    /// An [`Error::Io`] on `path`, to be used with `map_err`.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { path, source }
    }

    /// An [`Error::Format`] on `path`.
    pub fn format(path: &Path, message: impl Into<String>) -> Self {
        Self::Format { path: path.to_path_buf(), message: message.into() }
    }

    /// An [`Error::Kernel`], to be used with `map_err`.
    pub fn kernel(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Kernel { what, source }
    }

    /// 2 when what was asked for cannot be, 1 when this machine cannot do it now.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Io { .. }
            | Self::Format { .. }
            | Self::Setting { .. }
            | Self::Config { .. }
            | Self::Models(_)
            | Self::UnknownPolicy { .. }
            | Self::NoPolicies(_)
            | Self::NoMatch { .. }
            | Self::NotCgroup2(_)
            | Self::RootCgroup(_)
            | Self::NoMemoryController(_)
            | Self::AlreadyAttached { .. }
            | Self::Foreign { .. }
            | Self::NotAttached(_) => 2,
            Self::NoCacheExt(_)
            | Self::NoCgroup2
            | Self::NoMemoryCgroups(_)
            | Self::NotRoot
            | Self::NoRights(_)
            | Self::NoBpffs(_)
            | Self::Locked(_)
            | Self::AgentRuns(_)
            | Self::Listen { .. }
            | Self::Node(_)
            | Self::Refused { .. }
            | Self::Sampler(_)
            | Self::Kernel { .. } => 1,
        }
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
