// SPDX-License-Identifier: Apache-2.0
//! Which cgroups are tenants, and which cgroups each of them is made of.

use super::cgroup_fs::CgroupFs;
use super::config::KernelConfig;
use std::ffi::CString;

/// A tenant as the hierarchy has it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its path below the mount.
    pub cgroup: String,
    /// Its id.
    pub id: u64,
    /// Ids of itself and of all cgroups below it, but for tenants inside of it; sorted.
    pub members: Vec<u64>,
}

/// All tenants, by path. A cgroup that vanishes meanwhile is left out.
#[must_use]
pub fn scan(fs: &CgroupFs, config: &KernelConfig) -> Vec<Found> {
    let mut found = Vec::new();
    let mut pending: Vec<(String, Option<usize>)> =
        fs.children(&config.root).into_iter().map(|child| (child, None)).collect();
    while let Some((cgroup, above)) = pending.pop() {
        let Ok(id) = fs.id(&cgroup) else { continue };
        let own = is_tenant(fs, config, &cgroup, above.is_some());
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
    let wanted = any(&config.named) || (!inside && any(&config.matches));
    wanted && !any(&config.exclude) && fs.file(cgroup, "memory.current").exists()
}

/// Whether a path is of a pattern, slashes only by themselves: fnmatch(3).
fn matches(pattern: &str, path: &str) -> bool {
    let (Ok(pattern), Ok(path)) = (CString::new(pattern), CString::new(path)) else {
        return false;
    };
    // SAFETY: both are C strings.
    unsafe { libc::fnmatch(pattern.as_ptr(), path.as_ptr(), libc::FNM_PATHNAME) == 0 }
}

#[cfg(test)]
mod tests {
    use super::super::fake::Fake;
    use super::*;

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
    fn a_cgroup_made_anew_has_another_id() {
        let fake = Fake::new(&["/jobs/a"]);
        let config = config(&["*"], &[], &[]);
        let before = scan(&fake.fs(), &config);
        std::fs::rename(fake.fs().dir("/jobs/a"), fake.fs().dir("/jobs/old")).unwrap();
        fake.make("/jobs/a");
        let after = scan(&fake.fs(), &config);
        assert_ne!(before[0].id, after[0].id);
    }
}
