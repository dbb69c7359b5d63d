// SPDX-License-Identifier: Apache-2.0
//! Programs of the host that manage the memory of cgroups.

use super::Finding;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The names of their main tasks, and what each does to cgroups.
const PROGRAMS: [(&str, &str); 12] = [
    ("earlyoom", "kills processes when memory runs out"),
    ("incusd", "sets memory.max, memory.high and memory.low of its instances"),
    ("kubelet", "sets memory.max of pods and containers (without MemoryQoS)"),
    ("libvirtd", "sets memory.max and memory.high of virtual machines"),
    ("lxd", "sets memory.max, memory.high and memory.low of its instances"),
    ("nohang", "kills processes under memory pressure"),
    ("oomd", "kills cgroups, and sets memory.high where its plugin senpai is on"),
    ("senpai", "sets memory.high, or memory.reclaim, of the cgroups it is given"),
    ("slurmstepd", "sets memory.max and memory.high of jobs"),
    ("systemd-oomd", "kills cgroups whose unit or slice has a ManagedOOM property"),
    ("uresourced", "sets memory.low and memory.min of user sessions"),
    ("virtqemud", "sets memory.max and memory.high of virtual machines"),
];
const KUBELET: &str = "kubelet";
const KUBELET_CONFIG: &str = "/var/lib/kubelet/config.yaml";
const QUALITY_OF_SERVICE: &str = "sets memory.max, memory.min and memory.high of pods and \
    containers (MemoryQoS)";

/// The programs that run, according to `/proc`, sorted by name.
#[must_use]
pub fn running(proc: &Path) -> Vec<Finding> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(proc).into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(name) = fs::read_to_string(entry.path().join("comm")) else { continue };
        let known = PROGRAMS.iter().find(|(program, _)| *program == name.trim());
        if let Some(&(program, does)) = known {
            let has_quality = program == KUBELET && has_memory_qos(&entry.path());
            let does = if has_quality { QUALITY_OF_SERVICE } else { does };
            found.entry(program).or_insert_with(|| (pid, does));
        }
    }
    let finding = |(program, (pid, does)): (&str, (u32, &str))| Finding {
        key: program.into(),
        message: format!("{program} (process {pid}) {does}"),
    };
    found.into_iter().map(finding).collect()
}

/// Whether a kubelet has the feature MemoryQoS, by its arguments or its configuration. In a
/// container without the host's files, only the arguments are visible.
fn has_memory_qos(process: &Path) -> bool {
    let arguments = fs::read(process.join("cmdline")).unwrap_or_default();
    let arguments: Vec<String> =
        arguments.split(|&byte| byte == 0).map(|a| String::from_utf8_lossy(a).into()).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|a| a == name).map(|at| at + 1);
        let joined = arguments.iter().find_map(|a| a.strip_prefix(name)?.strip_prefix('='));
        joined.or_else(|| arguments.get(at?).map(String::as_str))
    };
    let gates = value("--feature-gates").unwrap_or_default();
    let config = value("--config").unwrap_or(KUBELET_CONFIG);
    gates.split(',').any(|gate| gate == "MemoryQoS=true")
        || fs::read_to_string(config).is_ok_and(|text| turns_on_memory_qos(&text))
}

/// Whether a configuration turns the feature on. The gate may be in YAML or JSON, on a line by
/// itself or not.
fn turns_on_memory_qos(config: &str) -> bool {
    let uncommented = config.lines().filter(|line| !line.trim_start().starts_with('#'));
    let packed: String = uncommented
        .flat_map(str::chars)
        .filter(|c| !c.is_whitespace() && *c != '"' && *c != '\'')
        .collect();
    packed.contains("MemoryQoS:true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(proc: &Path, pid: u32, comm: &str, arguments: &[&str]) {
        let dir = proc.join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("comm"), format!("{comm}\n")).unwrap();
        fs::write(dir.join("cmdline"), arguments.join("\0")).unwrap();
    }

    fn messages(proc: &Path) -> Vec<String> {
        running(proc).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn programs_that_manage_memory_are_named_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 1, "systemd", &["/sbin/init"]);
        process(dir.path(), 77, "systemd-oomd", &["/lib/systemd/systemd-oomd"]);
        process(dir.path(), 78, "senpai", &["senpai"]);
        fs::write(dir.path().join("meminfo"), "").unwrap();
        let found = messages(dir.path());
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("senpai (process 78) sets memory.high"), "{found:?}");
        assert!(found[1].contains("systemd-oomd (process 77) kills cgroups"), "{found:?}");
    }

    #[test]
    fn the_configuration_of_a_kubelet_shows_whether_it_sets_memory_high() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("kubelet.yaml");
        fs::write(&config, "kind: KubeletConfiguration\n").unwrap();
        let named = format!("--config={}", config.display());
        let tell = |arguments: &[&str]| {
            process(dir.path(), 5, "kubelet", arguments);
            messages(dir.path()).remove(0)
        };
        assert!(tell(&["kubelet", &named]).contains("without MemoryQoS"));
        let gates = ["kubelet", &named, "--feature-gates", "A=true,MemoryQoS=true"];
        assert!(tell(&gates).contains("memory.high of pods"));
        fs::write(&config, "featureGates:\n  # MemoryQoS: true\n  MemoryQoS: false\n").unwrap();
        assert!(tell(&["kubelet", &named]).contains("without MemoryQoS"));
        fs::write(&config, "featureGates:\n  MemoryQoS: true\n").unwrap();
        assert!(tell(&["kubelet", &named]).contains("memory.high of pods"));
        fs::write(&config, "{\"featureGates\": {\"MemoryQoS\": true}}").unwrap();
        assert!(
            tell(&["kubelet", "--config", &config.display().to_string()]).contains("MemoryQoS)")
        );
    }
}
