// SPDX-License-Identifier: Apache-2.0
//! Policies of tenants: reads which one decides, and replaces it.

pub(super) mod cost;
pub(super) mod readahead;

use crate::bpf::program;
use crate::cgroup::Cgroup;
use crate::error::{Error, Result};
use crate::policies::Policies;
use crate::policies::folder::PolicyDir;
use crate::policies::kind::Kind;
use crate::policies::memory::PolicyMemory;
use crate::policies::stats::CgroupStats;
use crate::wire::{DEFAULT_POLICY, Readahead};
use cachepilot_models::policy::Manifest;
use std::time::Duration;

const EJECTED: &str = "ejected";
/// The longest wait for another process that changes policies. The node's thread also drains the
/// ring buffer of accesses, which may overflow during the wait.
const LOCK_PATIENCE: Duration = Duration::from_millis(100);

/// The policies that decide for a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deciding {
    /// Name of the eviction policy or variant, `default` for the kernel's own.
    pub name: String,
    /// The cgroup's own policy, `default` if it has none. Then the policy of the nearest cgroup
    /// above decides.
    pub own: String,
    /// Why the kernel ejected the policy that was attached. `default` has decided since.
    pub ejected: Option<String>,
    /// The readahead policy, if there is one.
    pub readahead: Option<Readahead>,
}

/// The kernel counts run times until this is dropped.
pub type Counting = Box<dyn Send>;

/// Policies of cgroups. The real implementation is [`CacheExt`].
pub trait PolicyControl: Send {
    /// Names of the policies and variants that can be attached, sorted.
    fn names(&self) -> Vec<String>;

    /// The policies that decide for a cgroup.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn deciding(&self, cgroup: &Cgroup) -> Result<Deciding>;

    /// Makes `policy`, which may be `default`, decide for a cgroup. A policy that treats tasks
    /// apart gets `tasks`.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn change(&self, cgroup: &Cgroup, policy: &str, tasks: &[u32]) -> Result<()>;

    /// Replaces the tasks that the policy of a cgroup treats apart, if it is a policy that does so.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn set_tasks(&self, cgroup: &Cgroup, tasks: &[u32]) -> Result<()>;

    /// Allows one more wait for another process that changes policies.
    fn renew(&self);

    /// Removes what is left of policies of cgroups that are gone.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn sweep(&self) -> Result<()>;

    /// Makes the kernel count the run time of programs until the result is dropped.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn count_run_time(&self) -> Result<Counting>;

    /// The id of the cgroup's own table of hooks, and the nanoseconds that the table's programs ran
    /// while run times were counted; `None` without a policy of its own.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn run_time_ns(&self, cgroup: &Cgroup) -> Result<Option<(u32, u64)>>;
}

/// Policies on a kernel with cache_ext. Their links are pinned and stay when the agent ends.
#[derive(Debug)]
pub struct CacheExt {
    policies: Policies,
    dir: PolicyDir,
    names: Vec<String>,
    /// Manifests of the policies that have variants.
    varied: Vec<Manifest>,
}

impl CacheExt {
    /// Gives access to the policies of this machine; compiled ones are in `dir`. All that are
    /// attached together take no more than `memory`.
    ///
    /// # Errors
    /// Returns an error if this kernel or this process cannot load policies, or if there are none.
    pub fn open(dir: PolicyDir, memory: PolicyMemory) -> Result<Self> {
        let policies = Policies::open()?.hurried(LOCK_PATIENCE).within(memory);
        let names = dir.candidates()?;
        let manifests = names.iter().filter_map(|name| Some(dir.policy(name).ok()?.manifest));
        let varied = manifests.filter(|manifest| !manifest.variants.is_empty()).collect();
        Ok(Self { policies, dir, names, varied })
    }

    /// Gives access without the compiled policies: policies can be detached, but not attached.
    ///
    /// # Errors
    /// As [`CacheExt::open`].
    pub fn open_to_detach() -> Result<Self> {
        let (names, varied) = (Vec::new(), Vec::new());
        let policies = Policies::open()?.hurried(LOCK_PATIENCE);
        Ok(Self { policies, dir: PolicyDir::find(None), names, varied })
    }

    /// The variant of `policy` that a cgroup has, by the values of its tunables, or `policy` itself
    /// if no variant has these values.
    fn variant(&self, cgroup: &Cgroup, policy: &str) -> String {
        let manifest = self.varied.iter().find(|manifest| manifest.name == policy);
        // For an object that this agent does not know, or the policy of a cgroup above, only the
        // name is known.
        let words = manifest.and_then(|m| self.policies.words(cgroup.id, m).ok().flatten());
        match (manifest, words) {
            (Some(manifest), Some(words)) => manifest.name_of(&words),
            _ => policy.into(),
        }
    }
}

impl PolicyControl for CacheExt {
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn deciding(&self, cgroup: &Cgroup) -> Result<Deciding> {
        let stats = CgroupStats::read(cgroup)?;
        let default = || DEFAULT_POLICY.to_owned();
        let readahead = stats.readahead(cgroup.id);
        if stats.text("state") == Some(EJECTED) {
            let policy = stats.policy().unwrap_or("a policy");
            let reason = stats.text("reason").unwrap_or("for no known reason");
            let ejected = Some(format!("{policy}: {reason}"));
            return Ok(Deciding { name: default(), own: default(), ejected, readahead });
        }
        let name = stats.policy().map_or_else(default, |policy| self.variant(cgroup, policy));
        let own = stats.own(Kind::Eviction, cgroup.id).map_or_else(default, |_| name.clone());
        Ok(Deciding { name, own, ejected: None, readahead })
    }

    fn change(&self, cgroup: &Cgroup, policy: &str, tasks: &[u32]) -> Result<()> {
        let attached = self.policies.pinned_policy(cgroup.id)?;
        if policy == DEFAULT_POLICY {
            return match self.policies.detach(cgroup) {
                Ok(_) | Err(Error::NotAttached(_)) => Ok(()),
                Err(error) => Err(error),
            };
        }
        let (file, tunables) = self.dir.resolve(policy)?;
        let tunables = file.manifest.with_tasks(tunables, tasks);
        match attached {
            Some(_) => self.policies.swap(cgroup, &file, &tunables).map(drop),
            None => self.policies.attach(cgroup, &file, &tunables),
        }
    }

    fn set_tasks(&self, cgroup: &Cgroup, tasks: &[u32]) -> Result<()> {
        let Some(policy) = self.policies.pinned_policy(cgroup.id)? else { return Ok(()) };
        match self.dir.policy(&policy).map(|file| file.manifest) {
            Ok(manifest) if manifest.needs_tasks() => {
                self.policies.set_tasks(cgroup.id, &manifest, tasks)
            }
            // The tasks of a policy that is not known here cannot be set.
            _ => Ok(()),
        }
    }

    fn renew(&self) {
        self.policies.renew();
    }

    fn sweep(&self) -> Result<()> {
        self.policies.sweep()
    }

    fn count_run_time(&self) -> Result<Counting> {
        let held =
            program::count_run_times().map_err(Error::kernel("counting how long programs run"))?;
        Ok(Box::new(held))
    }

    fn run_time_ns(&self, cgroup: &Cgroup) -> Result<Option<(u32, u64)>> {
        self.policies.run_time_ns(cgroup.id)
    }
}
