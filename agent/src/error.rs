// SPDX-License-Identifier: Apache-2.0
//! The error type of this crate.

use std::io;
use std::path::{Path, PathBuf};

/// Everything that can go wrong between a command line and a running policy. Every message is one
/// line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused an operation on a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file of the operation.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The content of a file does not follow its format.
    #[error("{}: {message}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// A tunable cannot be set to the requested value.
    #[error("--set {text}: {message}")]
    Setting {
        /// The setting as it was given, `KEY=VALUE`.
        text: String,
        /// What is wrong, and what is allowed.
        message: String,
    },
    /// There is no object file of this policy.
    #[error("no policy {name:?} in {} (known: {known})", dir.display())]
    UnknownPolicy {
        /// The name that was requested.
        name: String,
        /// The directory that was searched.
        dir: PathBuf,
        /// The policies in that directory.
        known: String,
    },
    /// The directory contains no policy.
    #[error("{}: no policies (*.bpf.o) here; name their folder by --policies or CACHEPILOT_BPF_DIR", .0.display())]
    NoPolicies(PathBuf),
    /// No cgroup v2 hierarchy is mounted.
    #[error(
        "no cgroup v2 hierarchy is mounted: boot with systemd.unified_cgroup_hierarchy=1, or mount -t cgroup2 none /sys/fs/cgroup"
    )]
    NoCgroup2,
    /// No cgroup in the hierarchy has the memory controller.
    #[error(
        "no cgroup below {} has the memory controller: write +memory to its cgroup.subtree_control; if cgroup v1 has the controller, boot with cgroup_no_v1=memory",
        .0.display()
    )]
    NoMemoryCgroups(PathBuf),
    /// The patterns match no cgroup.
    #[error(
        "--cgroup {}: matches none of the {candidates} cgroups below {} that have the memory controller",
        patterns.join(" --cgroup "), mount.display()
    )]
    NoMatch {
        /// The patterns.
        patterns: Vec<String>,
        /// The mount point below which cgroups were searched.
        mount: PathBuf,
        /// The number of cgroups that have the memory controller.
        candidates: usize,
    },
    /// The path is not in the cgroup v2 hierarchy.
    #[error("{}: not a cgroup v2 directory", .0.display())]
    NotCgroup2(PathBuf),
    /// The root cgroup cannot have a policy, as it has no limit that a policy could work with.
    #[error("{}: the root cgroup cannot have a policy; name a cgroup below it", .0.display())]
    RootCgroup(PathBuf),
    /// The memory controller is off for this cgroup.
    #[error(
        "{}: the memory controller is off here (write +memory to cgroup.subtree_control of the cgroup above)",
        .0.display()
    )]
    NoMemoryController(PathBuf),
    /// The kernel lacks the cache_ext patch series.
    #[error("this kernel has no cache_ext: {0}")]
    NoCacheExt(&'static str),
    /// Loading BPF programs requires root.
    #[error("loading programs into the kernel takes root (CAP_BPF, CAP_SYS_ADMIN)")]
    NotRoot,
    /// Only root can see which files other processes have open.
    #[error("{}: to see the files of processes takes root (CAP_SYS_ADMIN, CAP_SYS_PTRACE)", .0.display())]
    NoRights(PathBuf),
    /// There is no BPF file system at the path where links are pinned.
    #[error("{}: not a BPF file system (mount -t bpf bpf {})", .0.display(), .0.display())]
    NoBpffs(PathBuf),
    /// Another process is changing policies.
    #[error("{}: another process is changing policies", .0.display())]
    Locked(PathBuf),
    /// The cgroup already has a policy.
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
        /// The last message of the verifier or of libbpf.
        message: String,
    },
    /// The policies of this node would take more memory than they may.
    #[error(
        "policy {policy} needs {bytes} bytes beside the {others} of the policies that are attached: more than policy_memory_mib = {mib} of [kernel] allows"
    )]
    PolicyMemory {
        /// The policy.
        policy: String,
        /// The memory that it needs.
        bytes: u64,
        /// The memory of the policies that are attached.
        others: u64,
        /// The limit, MiB.
        mib: u64,
    },
    /// A system call on a policy failed.
    #[error("{what}: {source}")]
    Kernel {
        /// The operation that failed.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A setting of a configuration, or one of its files, is invalid.
    #[error("{}: {message}", path.display())]
    Config {
        /// The configuration file.
        path: PathBuf,
        /// The key, its value, and what is allowed.
        message: String,
    },
    /// Another agent runs with the same state directory.
    #[error("{}: another agent runs with this state_dir", .0.display())]
    AgentRuns(PathBuf),
    /// The agent cannot listen on an address.
    #[error("metrics = \"{address}\": {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The thread of the node cannot go on.
    #[error("the node {0}")]
    Node(String),
    /// The sampler of page cache accesses cannot run.
    #[error("the sampler cannot run here: {0}")]
    Sampler(String),
    /// A simulation, a curve or a trace failed.
    #[error(transparent)]
    Models(#[from] cachepilot_models::Error),
}

impl Error {
    /// Returns a function that makes an [`Error::Io`] on `path`, for `map_err`.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { path, source }
    }

    /// Returns an [`Error::Format`] on `path`.
    pub fn format(path: &Path, message: impl Into<String>) -> Self {
        Self::Format { path: path.to_path_buf(), message: message.into() }
    }

    /// Returns a function that makes an [`Error::Kernel`], for `map_err`.
    pub fn kernel(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Kernel { what, source }
    }

    /// The exit status of a command: 2 if the request itself is invalid, 1 if this machine cannot
    /// fulfil it now.
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
            | Self::PolicyMemory { .. }
            | Self::Sampler(_)
            | Self::Kernel { .. } => 1,
        }
    }
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
