// SPDX-License-Identifier: Apache-2.0
//! Creates the node that a configuration describes. This is the only module that knows all kinds of
//! nodes.

use super::Node;
use super::kernel::KernelNode;
use super::kernel::adoption::ledger::Ledger;
use super::kernel::config::{KernelConfig, KernelKind};
use super::simulated::{SimulatedNode, SimulationConfig};
use crate::cgroup::mount::{CONTROLLERS, is_hierarchy};
use crate::config::{Config, Held, Kind};
use crate::curves::CurvesSettings;
use crate::error::{Error, Result};
use serde::de::DeserializeOwned;
use std::path::Path;

/// The section of a kind of node, all of its keys checked.
enum Settings {
    Kernel(KernelConfig),
    Simulated(SimulationConfig),
}

/// Opens the node of `config`.
///
/// # Errors
/// Returns [`Error::Config`] for a section that is invalid or belongs to another kind of node, and
/// the node's own error if it cannot be opened.
pub fn open(config: &Config) -> Result<Box<dyn Node>> {
    let (settings, curves) = settings(config)?;
    match settings {
        Settings::Simulated(simulation) => {
            let curves = curves.config(simulation.budget_bytes);
            Ok(Box::new(SimulatedNode::new(simulation, curves)?))
        }
        Settings::Kernel(kernel) => {
            check_mount(&config.path, &kernel.mount)?;
            Ok(Box::new(KernelNode::open(kernel, &curves, &config.state_dir)?))
        }
    }
}

/// Checks the sections of `config`.
///
/// # Errors
/// Returns [`Error::Config`] as [`open`] does, except for what depends on the machine.
pub fn check(config: &Config) -> Result<()> {
    settings(config).map(|_| ())
}

/// Refuses a mount that is no cgroup hierarchy of this machine, as [`open`] does.
///
/// # Errors
/// Returns [`Error::Config`].
pub fn check_hierarchy(config: &Config) -> Result<()> {
    match kernel_section(&config.path, config.kind, config.kernel.as_ref())? {
        Some(kernel) => check_mount(&config.path, &kernel.mount),
        None => Ok(()),
    }
}

fn settings(config: &Config) -> Result<(Settings, CurvesSettings)> {
    check_sections(config)?;
    let curves: CurvesSettings = section(config, "curves", config.curves.as_ref())?;
    curves.check().map_err(|message| Error::Config { path: config.path.clone(), message })?;
    let kernel = kernel_section(&config.path, config.kind, config.kernel.as_ref())?;
    let found = match kernel {
        Some(kernel) => Settings::Kernel(kernel),
        None => {
            let simulation: SimulationConfig =
                section(config, "simulated", config.simulated.as_ref())?;
            Settings::Simulated(simulation.resolve(&config.path)?)
        }
    };
    Ok((found, curves))
}

/// Reads `[kernel]` with its defaults. Returns `None` for a simulated node.
fn kernel_section(
    path: &Path,
    kind: Kind,
    section: Option<&toml::Table>,
) -> Result<Option<KernelConfig>> {
    let kind = match kind {
        Kind::Simulated => return Ok(None),
        Kind::Auto => KernelKind::Auto,
        Kind::CacheExt => KernelKind::CacheExt,
        Kind::Stock => KernelKind::Stock,
    };
    Ok(Some(KernelConfig { kind, ..KernelConfig::parse(path, section)? }))
}

/// Refuses a folder that is no hierarchy. No cgroup is found in it, so all that were changed would
/// count as gone and be forgotten, with the limits and policies that they still have.
fn check_mount(path: &Path, mount: &Path) -> Result<()> {
    if mount.as_os_str().is_empty() || is_hierarchy(mount) {
        return Ok(());
    }
    let message = format!(
        "[kernel]: mount = {mount:?}: not a cgroup v2 hierarchy (there is no {CONTROLLERS}); empty \
         means where this machine has it"
    );
    Err(Error::Config { path: path.into(), message })
}

/// Opens, without curves, the node whose tenants may still have policies or limits of an agent, so
/// that these can be returned.
///
/// # Errors
/// As [`open`]. Returns [`Error::Config`] for a simulated node, on which nothing outlives the
/// agent.
pub fn open_unwatched(held: &Held) -> Result<Box<dyn Node>> {
    let Some(section) = kernel_section(&held.path, held.kind, held.kernel.as_ref())? else {
        let message = "kind = \"simulated\": such a node holds nothing".into();
        return Err(Error::Config { path: held.path.clone(), message });
    };
    check_mount(&held.path, &section.mount)?;
    Ok(Box::new(KernelNode::open_unwatched(section, &held.state_dir)?))
}

/// Whether the record of what tenants had first is damaged, so that a node that is opened gives back
/// what it finds.
///
/// # Errors
/// Returns [`Error::Io`] if this process may not read the record.
pub fn is_record_lost(held: &Held) -> Result<bool> {
    Ok(held.kind != Kind::Simulated && Ledger::is_lost_in(&held.state_dir)?)
}

/// Refuses a section that this kind of node does not read, since writing one is a mistake.
fn check_sections(config: &Config) -> Result<()> {
    let refuse =
        |message: &str| Error::Config { path: config.path.clone(), message: message.into() };
    match config.kind {
        Kind::Simulated if config.kernel.is_some() => {
            Err(refuse("[kernel]: kind = \"simulated\" has no kernel"))
        }
        Kind::Simulated if config.simulated.is_none() => {
            Err(refuse("[simulated]: kind = \"simulated\" needs this section"))
        }
        Kind::Auto | Kind::CacheExt | Kind::Stock if config.simulated.is_some() => {
            Err(refuse("[simulated]: only kind = \"simulated\" reads this section"))
        }
        _ => Ok(()),
    }
}

/// Reads the section `name`, or returns its defaults if it is missing.
///
/// # Errors
/// Returns [`Error::Config`], whose one line names the section and the mistake.
pub fn section<T: DeserializeOwned>(
    config: &Config,
    name: &str,
    table: Option<&toml::Table>,
) -> Result<T> {
    table.cloned().unwrap_or_default().try_into().map_err(|error: toml::de::Error| {
        let message = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Error::Config { path: config.path.clone(), message: format!("[{name}]: {message}") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Settings {
        seed: u64,
    }

    #[test]
    fn a_section_is_read_by_the_kind_it_belongs_to() {
        let read = |text: &str| {
            let config = Config::parse(Path::new("agent.toml"), text).unwrap();
            section::<Settings>(&config, "curves", config.curves.as_ref())
        };
        assert_eq!(read("").unwrap(), Settings { seed: 0 });
        assert_eq!(read("[curves]\nseed = 3").unwrap(), Settings { seed: 3 });
        for (text, expected) in [("sede = 3", "unknown field `sede`"), ("seed = \"a\"", "`seed`")] {
            let message = read(&format!("[curves]\n{text}")).unwrap_err().to_string();
            assert!(message.starts_with("agent.toml: [curves]: "), "{message}");
            assert!(message.contains(expected) && !message.contains('\n'), "{message}");
        }
    }

    fn refused(text: &str) -> String {
        let config = Config::parse(Path::new("agent.toml"), text).unwrap();
        check_sections(&config).unwrap_err().to_string()
    }

    #[test]
    fn sections_of_another_kind_are_refused() {
        assert!(refused("[simulated]").starts_with("agent.toml: [simulated]: only kind"));
        assert!(refused("kind = \"simulated\"\n[simulated]\n[kernel]").contains("[kernel]: "));
        assert!(refused("kind = \"simulated\"").contains("needs this section"));
        let config = Config::parse(Path::new("agent.toml"), "kind = \"stock\"\n[kernel]").unwrap();
        check_sections(&config).unwrap();
    }
}
