// SPDX-License-Identifier: Apache-2.0
//! Which node a configuration asks for: the only place that knows all kinds.

use super::Node;
use super::kernel::KernelNode;
use super::kernel::config::{KernelConfig, KernelKind};
use super::simulated::{SimulatedNode, SimulationConfig};
use crate::config::{Config, Held, Kind};
use crate::curves::CurvesSettings;
use crate::error::{Error, Result};
use serde::de::DeserializeOwned;
use std::path::Path;

/// The node of `config`.
///
/// # Errors
/// [`Error::Config`] on a section that makes no sense or belongs to another kind, and what the node
/// says when it cannot be opened.
pub fn open(config: &Config) -> Result<Box<dyn Node>> {
    check_sections(config)?;
    let curves: CurvesSettings = section(config, "curves", config.curves.as_ref())?;
    curves.check().map_err(|message| Error::Config { path: config.path.clone(), message })?;
    let Some(kernel) = kernel_section(&config.path, config.kind, config.kernel.as_ref())? else {
        let simulation: SimulationConfig = section(config, "simulated", config.simulated.as_ref())?;
        let simulation = simulation.resolve(&config.path)?;
        let curves = curves.config(simulation.budget_bytes);
        return Ok(Box::new(SimulatedNode::new(simulation, curves)?));
    };
    Ok(Box::new(KernelNode::open(kernel, &curves, &config.state_dir)?))
}

/// What `[kernel]` says, with its defaults; `None` for a simulated node.
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
    let parsed = KernelConfig::parse(path, section)?;
    Ok(Some(KernelConfig { kind, ..parsed }))
}

/// The node that may hold something, without its curves, to give that back.
///
/// # Errors
/// As [`open`]; [`Error::Config`] for a simulated node, which holds nothing.
pub fn open_unwatched(held: &Held) -> Result<Box<dyn Node>> {
    let Some(section) = kernel_section(&held.path, held.kind, held.kernel.as_ref())? else {
        let message = "kind = \"simulated\": such a node holds nothing".into();
        return Err(Error::Config { path: held.path.clone(), message });
    };
    Ok(Box::new(KernelNode::open_unwatched(section, &held.state_dir)?))
}

/// A section that nobody would read is a mistake, not a spare.
///
/// # Errors
/// [`Error::Config`].
pub fn check_sections(config: &Config) -> Result<()> {
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

/// What the section `name` says, or its defaults when there is none.
///
/// # Errors
/// [`Error::Config`], one line that names the section and what is wrong in it.
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
