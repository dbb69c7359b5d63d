// SPDX-License-Identifier: Apache-2.0
//! The parts of which the node of this machine is made.

use super::KernelNode;
use super::config::{KernelConfig, KernelKind};
use super::host::{Host, budget_bytes};
use super::policy::{CacheExt, PolicyControl};
use crate::bpf::sampler::load::SamplerSizes;
use crate::bpf::source::{self, AccessSource};
use crate::cgroup;
use crate::cgroup::fs::CgroupFs;
use crate::curves::{CurvesConfig, CurvesSettings};
use crate::error::{Error, Result};
use crate::managers::Managers;
use crate::policies::folder::PolicyDir;
use crate::policies::memory::PolicyMemory;
use std::path::Path;

/// The parts of a node. [`KernelNode::open`] uses those of this machine.
pub struct Parts {
    /// The cgroup hierarchy.
    pub fs: CgroupFs,
    /// The machine.
    pub host: Host,
    /// Policies, if they can be attached here.
    pub policies: Option<Box<dyn PolicyControl>>,
    /// The source of sampled accesses, if they can be sampled here.
    pub source: Option<Box<dyn AccessSource>>,
    /// Other programs that manage memory, if they can be queried.
    pub managers: Option<Managers>,
}

impl Parts {
    /// The parts of this machine, without a source of accesses.
    fn of_this_machine(config: &KernelConfig) -> Result<Self> {
        let mount = match config.mount.as_os_str().is_empty() {
            true => cgroup::mount::mounted()?,
            false => config.mount.clone(),
        };
        let dir = (!config.policies.as_os_str().is_empty()).then_some(config.policies.as_path());
        let memory = PolicyMemory { mib: config.policy_memory_mib };
        let policies = match (config.kind, CacheExt::open(PolicyDir::find(dir), memory)) {
            (KernelKind::Stock, _) => None,
            (_, Ok(policies)) => Some(Box::new(policies) as Box<dyn PolicyControl>),
            (KernelKind::CacheExt, Err(error)) => return Err(error),
            (KernelKind::Auto, Err(error)) => {
                tracing::warn!(%error, "no policies here: limits and curves only");
                None
            }
        };
        let managers = Managers::start(config.others());
        if let Err(error) = &managers {
            tracing::warn!(%error, "other programs that manage memory are not looked for");
        }
        let (fs, host, managers) = (CgroupFs::new(mount), Host::default(), managers.ok());
        Ok(Self { fs, host, policies, source: None, managers })
    }
}

impl KernelNode {
    /// Opens the node of this machine. Finds and adopts the changes that an earlier agent left.
    ///
    /// # Errors
    /// Returns an error if there is no cgroup v2, if policies were requested but cannot be
    /// attached, or if `state_dir` cannot be used. If accesses cannot be sampled, this is no error:
    /// `curves` is then missing in the capabilities, and `cachepilot-agent doctor` says why.
    pub fn open(config: KernelConfig, curves: &CurvesSettings, state_dir: &Path) -> Result<Self> {
        let sizes = SamplerSizes { max_tenants: config.max_tenants, ring_bytes: config.ring_bytes };
        let mut parts = Parts::of_this_machine(&config)?;
        match source::open(sizes) {
            Ok(source) => parts.source = Some(source),
            Err(error) => tracing::warn!(%error, "accesses cannot be sampled: no curves"),
        }
        let curves = curves.config(budget_bytes(&config, &parts.fs, &parts.host));
        Self::with_parts(config, curves, state_dir, parts)
    }

    /// Opens the node without curves, in order to return tenants to their first policies and
    /// limits. If tenants may have policies and these cannot be detached, that is an error.
    ///
    /// # Errors
    /// As [`KernelNode::open`].
    pub fn open_unwatched(config: KernelConfig, state_dir: &Path) -> Result<Self> {
        let mut parts = Parts::of_this_machine(&config)?;
        if parts.policies.is_none() && config.kind != KernelKind::Stock {
            parts.policies = match CacheExt::open_to_detach() {
                Ok(policies) => Some(Box::new(policies)),
                Err(Error::NoCacheExt(_)) => None,
                Err(error) => return Err(error),
            };
        }
        Self::with_parts(config, CurvesConfig::default(), state_dir, parts)
    }
}
