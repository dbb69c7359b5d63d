// SPDX-License-Identifier: Apache-2.0
//! Reports other programs that manage memory on this host. None of that is a fault, but all of it
//! is worth knowing.

use super::Check;
use crate::cgroup::fs::CgroupFs;
use crate::cgroup::{self, tree};
use crate::managers::Finding;
use crate::managers::pods::{Pods, SOCKETS, is_pod};
use crate::managers::programs;
use crate::managers::systemd::{Systemd, is_unit};
use std::path::{Path, PathBuf};
use tokio::runtime;

const SYSTEMD: &str = "systemd";
const MANAGED_OOM: &str = "ManagedOOM";
const PROGRAMS: &str = "other managers";
const LIMITS: &str = "limits of others";
const PODS: &str = "pods";
/// The most cgroups whose units are queried, those nearest to the top first.
const UNITS_MAX: usize = 1000;
/// The most names that are shown of a list.
const NAMED_MAX: usize = 3;

/// All checks. Those about Kubernetes are made only if there are pods, or a container runtime.
pub fn checks() -> Vec<Check> {
    let mut checks = vec![other_programs(&programs::running(Path::new("/proc")))];
    let Ok(cgroups) = cgroup::mount::mounted().and_then(|mount| all_below(&mount)) else {
        return checks;
    };
    checks.push(limits(&cgroups));
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(async {
            checks.extend(systemd(&cgroups).await);
            checks.extend(pods(&cgroups).await);
        }),
        Err(error) => {
            let told = format!("it cannot be asked: {error}");
            checks.push(Check::without(SYSTEMD, told, "see the reason"));
        }
    }
    checks
}

/// A cgroup, and its `memory.high` if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    cgroup: String,
    high_bytes: Option<u64>,
}

/// The cgroups below `mount`, those nearest to the top first. Those that vanish in the meantime are
/// left out.
fn all_below(mount: &Path) -> crate::Result<Vec<Seen>> {
    std::fs::metadata(mount).map_err(crate::Error::io(mount))?;
    let fs = CgroupFs::new(mount);
    let seen = |cgroup: String| {
        let high_bytes = fs.limit(&cgroup, "memory.high").ok().flatten();
        Seen { cgroup, high_bytes }
    };
    let dirs = tree::below(mount).filter_map(Result::ok);
    let below = dirs.filter_map(|dir| Some(dir.path.strip_prefix(mount).ok()?.to_owned()));
    let mut paths: Vec<PathBuf> = std::iter::once(PathBuf::new()).chain(below).collect();
    paths.sort_by_key(|path| path.components().count());
    Ok(paths.iter().filter_map(|path| Some(seen(format!("/{}", path.to_str()?)))).collect())
}

fn named(names: &[String]) -> String {
    let first = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn other_programs(found: &[Finding]) -> Check {
    if found.is_empty() {
        return Check::works(PROGRAMS, "no program runs that is known to manage memory of cgroups");
    }
    let told: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
    let step = "leave cgroups to one of them, or exclude theirs in [kernel]; a limit that another \
                rewrites is set once more, then left to it";
    Check::note(PROGRAMS, told.join("; "), step)
}

fn limits(cgroups: &[Seen]) -> Check {
    let limited = cgroups.iter().filter_map(|seen| {
        let bytes = seen.high_bytes?;
        Some(format!("{} ({bytes})", seen.cgroup))
    });
    let limited: Vec<String> = limited.collect();
    if limited.is_empty() {
        return Check::works(LIMITS, "no cgroup has memory.high");
    }
    let of_pods = cgroups.iter().any(|seen| seen.high_bytes.is_some() && is_pod(&seen.cgroup));
    let step = match of_pods {
        true => "the kubelet's MemoryQoS sets that of pods: turn it off for pods that are tenants",
        false => "unless an agent runs: look who sets it before such a cgroup is a tenant",
    };
    Check::note(LIMITS, format!("memory.high of {}", named(&limited)), step)
}

async fn systemd(cgroups: &[Seen]) -> Vec<Check> {
    let systemd = Systemd::default();
    let version = systemd.version().await;
    let Ok(Some(version)) = version else {
        let why = version.err().map_or("it is not on the bus".into(), |error| error.to_string());
        let detail = format!(
            "{why}: limits are written to the files of its units, too, and it may write over them"
        );
        let step = "where systemd runs: make /run/dbus/system_bus_socket visible to the agent";
        return vec![Check::without(SYSTEMD, detail, step)];
    };
    let detail = format!("version {version}: limits of its units are their property MemoryHigh");
    vec![Check::works(SYSTEMD, detail), managed_oom(&systemd, cgroups).await]
}

async fn managed_oom(systemd: &Systemd, cgroups: &[Seen]) -> Check {
    let mut killed = Vec::new();
    for seen in cgroups.iter().filter(|seen| is_unit(&seen.cgroup)).take(UNITS_MAX) {
        let Ok(Some(unit)) = systemd.unit_of(&seen.cgroup).await else { continue };
        match systemd.managed_oom(&unit).await {
            Ok(properties) if properties.is_empty() => {}
            Ok(properties) => killed.push(format!("{}: {}", unit.name, properties.join(" and "))),
            Err(error) => {
                return Check::without(MANAGED_OOM, error.to_string(), "see the reason");
            }
        }
    }
    if killed.is_empty() {
        return Check::works(MANAGED_OOM, "no unit asks systemd-oomd to kill it");
    }
    let step = "a lower limit raises memory pressure: turn ManagedOOMMemoryPressure off for tenants, \
                or keep them out of such slices";
    Check::note(MANAGED_OOM, named(&killed), step)
}

async fn pods(cgroups: &[Seen]) -> Option<Check> {
    let count = cgroups.iter().filter(|seen| is_pod(&seen.cgroup)).count();
    let socket = SOCKETS.iter().map(Path::new).find(|socket| socket.exists());
    let step = "make the runtime's socket visible to the agent, see cri_socket of [kernel]";
    match socket {
        None if count == 0 => None,
        None => {
            let detail = format!("{count} cgroups of pods, and no container runtime to name them");
            Some(Check::without(PODS, detail, step))
        }
        Some(socket) => Some(match Pods::ask(socket).await {
            Ok(pods) => {
                let known = cgroups.iter().filter(|seen| pods.of_cgroup(&seen.cgroup).is_some());
                let known = known.count();
                Check::works(PODS, format!("{} names {known} of {count}", socket.display()))
            }
            Err(error) => Check::without(PODS, error, step),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;
    use std::fs;

    fn seen(cgroup: &str, high_bytes: Option<u64>) -> Seen {
        Seen { cgroup: cgroup.into(), high_bytes }
    }

    #[test]
    fn limits_set_by_others_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        for (path, high) in [("a/b", "max\n"), ("a", "4096\n"), ("c", "max\n")] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
            fs::write(dir.path().join(path).join("memory.high"), high).unwrap();
        }
        let mut found = all_below(dir.path()).unwrap();
        found.sort_by(|a, b| a.cgroup.cmp(&b.cgroup));
        let expected =
            [seen("/", None), seen("/a", Some(4096)), seen("/a/b", None), seen("/c", None)];
        assert_eq!(found, expected);
        let check = limits(&found);
        assert_eq!(
            (check.status, check.detail.as_str()),
            (Status::Note, "memory.high of /a (4096)")
        );
        assert!(check.next_step.starts_with("unless an agent runs"), "{check:?}");
        assert_eq!(limits(&[seen("/a", None)]).status, Status::Works);
        let pod = format!("/kubepods.slice/kubepods-pod{}.slice", "1b4c8d2e_0000");
        assert!(limits(&[seen(&pod, Some(4096))]).next_step.contains("MemoryQoS"));
        assert!(all_below(&dir.path().join("nope")).is_err());
    }

    #[test]
    fn the_first_of_many_names_are_shown() {
        let names: Vec<String> = (1..=5).map(|n| n.to_string()).collect();
        assert_eq!(named(&names), "1, 2, 3 and 2 more");
        assert_eq!(named(&names[..3]), "1, 2, 3");
    }

    #[test]
    fn programs_are_notes_and_no_illness() {
        assert_eq!(other_programs(&[]).status, Status::Works);
        let finding = |key: &str| Finding { key: key.into(), message: format!("{key} kills") };
        let check = other_programs(&[finding("earlyoom"), finding("oomd")]);
        assert_eq!(
            (check.status, check.detail.as_str()),
            (Status::Note, "earlyoom kills; oomd kills")
        );
        assert!(check.is_good() && !check.next_step.is_empty());
    }
}
