// SPDX-License-Identifier: Apache-2.0
//! Finds the cgroups that are tenants, and the cgroups that each of them contains.

use crate::cgroup::PROCESSES;
use crate::cgroup::fs::CgroupFs;
use crate::glob::{self, Slash};
use crate::node::kernel::config::KernelConfig;
use crate::node::kernel::host::Host;

/// Cgroups in which systemd puts the machine's own services and sessions, systemd.special(7).
const OF_THE_SYSTEM: [&str; 4] = ["init.scope", "machine.slice", "system.slice", "user.slice"];

/// A tenant as it is in the hierarchy now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its path below the mount.
    pub cgroup: String,
    /// Its id.
    pub id: u64,
    /// Ids of the tenant and of all cgroups below it, except tenants inside it and their cgroups;
    /// sorted.
    pub members: Vec<u64>,
}

/// All tenants, sorted by path. A cgroup that vanishes in the meantime is left out.
#[must_use]
pub fn scan(fs: &CgroupFs, config: &KernelConfig) -> Vec<Found> {
    walk(fs, &config.root, |cgroup, inside| is_tenant(fs, config, cgroup, inside))
}

/// All wanted cgroups below `root`, sorted by path, each with the cgroups below it that belong to
/// no other wanted one. `is_wanted` gets each path, and whether that path is inside a wanted
/// cgroup.
pub(crate) fn walk(
    fs: &CgroupFs,
    root: &str,
    is_wanted: impl Fn(&str, bool) -> bool,
) -> Vec<Found> {
    let mut found = Vec::new();
    let mut pending: Vec<(String, Option<usize>)> =
        fs.children(root).into_iter().map(|child| (child, None)).collect();
    while let Some((cgroup, above)) = pending.pop() {
        let Ok(id) = fs.id(&cgroup) else { continue };
        let own = is_wanted(&cgroup, above.is_some());
        let owner = if own { Some(found.len()) } else { above };
        if own {
            found.push(Found { cgroup: cgroup.clone(), id, members: Vec::new() });
        }
        if let Some(owner) = owner {
            found[owner].members.push(id);
        }
        pending.extend(fs.children(&cgroup).into_iter().map(|child| (child, owner)));
    }
    found.iter_mut().for_each(|tenant| tenant.members.sort_unstable());
    found.sort_by(|a, b| a.cgroup.cmp(&b.cgroup));
    found
}

fn is_tenant(fs: &CgroupFs, config: &KernelConfig, cgroup: &str, inside: bool) -> bool {
    let below = cgroup.strip_prefix(config.root.trim_end_matches('/')).unwrap_or(cgroup);
    let below = below.trim_start_matches('/');
    let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, below));
    let means = |patterns: &[String]| patterns.iter().any(|one| is_meant(one, cgroup, below));
    let is_wanted = means(&config.named) || (!inside && means(&config.matches));
    let is_own = config.own.as_deref().is_some_and(|own| is_at_or_below(own, cgroup));
    is_wanted && !any(&config.exclude) && !is_own && has_memory(fs, cgroup)
}

/// Whether the memory controller is on for a cgroup.
pub(crate) fn has_memory(fs: &CgroupFs, cgroup: &str) -> bool {
    fs.file(cgroup, "memory.current").exists()
}

/// Whether a pattern selects this cgroup. A `*` at the top level does not select cgroups of the
/// system; they must be spelled out.
fn is_meant(pattern: &str, cgroup: &str, below: &str) -> bool {
    let first = |path: &str| path.split('/').next().map(ToOwned::to_owned);
    let top = first(cgroup.trim_start_matches('/'));
    let is_spelled_out = top != first(below) || first(pattern) == top;
    let is_system = top.is_some_and(|top| OF_THE_SYSTEM.contains(&top.as_str()));
    matches(pattern, below) && (!is_system || is_spelled_out)
}

fn is_at_or_below(cgroup: &str, above: &str) -> bool {
    cgroup.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The cgroup of the process `pid`, from `/proc/self/cgroup`. In a container, that file may show
/// the path in a cgroup namespace. If that path does not contain the process, the hierarchy is
/// searched for it.
#[must_use]
pub fn own(fs: &CgroupFs, host: &Host, pid: u32) -> Option<String> {
    let has = |cgroup: &str| {
        let processes = fs.read(cgroup, PROCESSES).unwrap_or_default();
        processes.lines().any(|line| line.parse() == Ok(pid))
    };
    let told = host.line("self/cgroup").unwrap_or_default();
    let told = told.lines().find_map(|line| line.strip_prefix("0::"));
    if let Some(path) = told.filter(|path| has(path)) {
        return Some(path.to_owned());
    }
    let mut pending = fs.children("/");
    while let Some(cgroup) = pending.pop() {
        if has(&cgroup) {
            return Some(cgroup);
        }
        pending.extend(fs.children(&cgroup));
    }
    None
}

/// Whether a path matches a pattern whose wildcards do not match a slash.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    glob::matches(pattern, path, Slash::Apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::kernel::fake::Fake;

    fn names(fake: &Fake, config: &KernelConfig) -> Vec<String> {
        scan(&fake.fs(), config).into_iter().map(|tenant| tenant.cgroup).collect()
    }

    fn config(matches: &[&str], exclude: &[&str], named: &[&str]) -> KernelConfig {
        let list = |texts: &[&str]| texts.iter().map(|&t| t.into()).collect();
        KernelConfig {
            root: "/jobs".into(),
            matches: list(matches),
            exclude: list(exclude),
            named: list(named),
            ..KernelConfig::default()
        }
    }

    #[test]
    fn patterns_name_tenants_below_the_root() {
        let fake = Fake::new(&["/jobs/a", "/jobs/b/deep", "/jobs/web-1", "/jobs/web-2", "/other"]);
        assert_eq!(
            names(&fake, &config(&["*"], &["b"], &[])),
            ["/jobs/a", "/jobs/web-1", "/jobs/web-2"]
        );
        assert_eq!(
            names(&fake, &config(&["web-*", "b/*"], &["*-2"], &[])),
            ["/jobs/b/deep", "/jobs/web-1"]
        );
        assert_eq!(names(&fake, &config(&["[ab]"], &[], &[])), ["/jobs/a"]);
        assert_eq!(names(&fake, &config(&["nope"], &[], &[])), [""; 0]);
    }

    #[test]
    fn nested_cgroups_are_one_tenant_unless_named() {
        let fake = Fake::new(&["/jobs/a", "/jobs/a/x", "/jobs/a/x/y", "/jobs/a/z"]);
        let found = scan(&fake.fs(), &config(&["*", "*/*"], &[], &[]));
        assert_eq!((found.len(), found[0].members.len()), (1, 4));
        let found = scan(&fake.fs(), &config(&["*"], &[], &["a/x"]));
        let ids = |cgroups: &[&str]| {
            let mut ids: Vec<u64> = cgroups.iter().map(|c| fake.fs().id(c).unwrap()).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(found[0].members, ids(&["/jobs/a", "/jobs/a/z"]));
        assert_eq!(found[1].cgroup, "/jobs/a/x");
        assert_eq!(found[1].members, ids(&["/jobs/a/x", "/jobs/a/x/y"]));
    }

    #[test]
    fn without_a_memory_controller_there_is_no_tenant() {
        let fake = Fake::new(&["/jobs/a"]);
        std::fs::create_dir(fake.fs().dir("/jobs/bare")).unwrap();
        assert_eq!(names(&fake, &config(&["*"], &[], &[])), ["/jobs/a"]);
    }

    #[test]
    fn slices_of_the_system_are_tenants_when_they_are_spelled_out() {
        let fake = Fake::new(&["/system.slice/a", "/system.slice/b", "/init.scope", "/jobs"]);
        fake.make("/system.slice");
        let of = |root: &str, patterns: &[&str]| {
            names(&fake, &KernelConfig { root: root.into(), ..config(patterns, &[], &[]) })
        };
        assert_eq!(of("/", &["*"]), ["/jobs"]);
        assert_eq!(of("/", &["*", "*/*"]), ["/jobs"]);
        assert_eq!(of("/", &["system.slice"]), ["/system.slice"]);
        assert_eq!(of("/", &["system.slice/*"]), ["/system.slice/a", "/system.slice/b"]);
        assert_eq!(of("/system.slice", &["*"]), ["/system.slice/a", "/system.slice/b"]);
        let named = KernelConfig { root: "/".into(), ..config(&["jobs"], &[], &["*/*"]) };
        assert_eq!(names(&fake, &named), ["/jobs"]);
    }

    #[test]
    fn the_agents_own_cgroup_and_its_parents_are_no_tenants() {
        let fake = Fake::new(&["/jobs/a", "/jobs/a/agent", "/jobs/ab"]);
        let own = Some("/jobs/a/agent".to_owned());
        let config = KernelConfig { own, ..config(&["*"], &[], &["a/agent"]) };
        assert_eq!(names(&fake, &config), ["/jobs/ab"]);
    }

    #[test]
    fn the_own_cgroup_is_the_one_with_the_process() {
        let fake = Fake::new(&["/jobs/a", "/jobs/b", "/jobs/c"]);
        let proc = fake.dir.path().join("proc");
        std::fs::create_dir_all(proc.join("self")).unwrap();
        let host = Host::new(&proc, "");
        fake.write("/jobs/a", "cgroup.procs", "70\n7\n");
        // No kernel shows this. It reveals which source the answer is from.
        fake.write("/jobs/c", "cgroup.procs", "70\n");
        for (told, pid, found) in [
            ("3:cpu:/x\n0::/jobs/a\n", 7, Some("/jobs/a")),
            ("0::/jobs/a\n", 70, Some("/jobs/a")),
            ("0::/jobs/c\n", 70, Some("/jobs/c")),
            ("0::/\n", 7, Some("/jobs/a")),
            ("0::/jobs/b\n", 7, Some("/jobs/a")),
            ("0::/jobs/a\n", 8, None),
        ] {
            std::fs::write(proc.join("self/cgroup"), told).unwrap();
            assert_eq!(own(&fake.fs(), &host, pid).as_deref(), found, "{told}");
        }
    }

    #[test]
    fn a_cgroup_that_is_created_again_has_another_id() {
        let fake = Fake::new(&["/jobs/a"]);
        let config = config(&["*"], &[], &[]);
        let before = scan(&fake.fs(), &config);
        std::fs::rename(fake.fs().dir("/jobs/a"), fake.fs().dir("/jobs/old")).unwrap();
        fake.make("/jobs/a");
        let after = scan(&fake.fs(), &config);
        assert_ne!(before[0].id, after[0].id);
    }
}
