// SPDX-License-Identifier: Apache-2.0
//! Finds the cgroups to watch.

use crate::cgroup::fs::CgroupFs;
use crate::error::{Error, Result};
use crate::node::kernel::tenant::found::{Found, has_memory, matches, walk};
use std::collections::HashSet;

/// The cgroups that `patterns` match (paths below the mount, by fnmatch(3) with wildcards that do
/// not match a slash), each with everything below it. Without patterns: those with the memory
/// controller that have none with it below them, as that is where processes are.
#[must_use]
pub fn find(fs: &CgroupFs, patterns: &[String]) -> Vec<Found> {
    if patterns.is_empty() {
        let mut found = walk(fs, "/", |cgroup, _| has_memory(fs, cgroup));
        let above = |one: &Found| Some(one.cgroup.rsplit_once('/')?.0.to_owned());
        let parents: HashSet<String> = found.iter().filter_map(above).collect();
        found.retain(|one| !parents.contains(&one.cgroup));
        return found;
    }
    walk(fs, "/", |cgroup, is_inside| {
        let path = cgroup.trim_start_matches('/');
        let is_meant = |pattern: &String| matches(pattern.trim_start_matches('/'), path);
        !is_inside && patterns.iter().any(is_meant) && has_memory(fs, cgroup)
    })
}

/// As [`find`], but finding none is an error.
///
/// # Errors
/// Returns [`Error::NoMatch`], or [`Error::NoMemoryCgroups`] if no pattern could match.
pub fn find_some(fs: &CgroupFs, patterns: &[String]) -> Result<Vec<Found>> {
    let found = find(fs, patterns);
    if !found.is_empty() {
        return Ok(found);
    }
    let mount = fs.mount().to_path_buf();
    match walk(fs, "/", |cgroup, _| has_memory(fs, cgroup)).len() {
        0 => Err(Error::NoMemoryCgroups(mount)),
        candidates => Err(Error::NoMatch { patterns: patterns.to_vec(), mount, candidates }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::kernel::fake::Fake;
    use std::fs;

    fn names(fake: &Fake, patterns: &[&str]) -> Vec<(String, usize)> {
        let patterns: Vec<String> = patterns.iter().map(|&p| p.into()).collect();
        let found = find(&fake.fs(), &patterns);
        found.into_iter().map(|one| (one.cgroup, one.members.len())).collect()
    }

    #[test]
    fn without_patterns_cgroups_with_processes_are_watched() {
        let fake =
            Fake::new(&["/system.slice", "/system.slice/db.service", "/pod", "/pod/a", "/pod/a/b"]);
        // This cgroup lacks the memory controller, so its accesses count for the one above.
        fs::create_dir(fake.fs().dir("/system.slice/db.service/workers")).unwrap();
        let expected =
            [("/pod/a/b".to_owned(), 1), ("/system.slice/db.service".to_owned(), 2)].to_vec();
        assert_eq!(names(&fake, &[]), expected);
    }

    #[test]
    fn a_pattern_means_a_cgroup_and_all_below_it() {
        let fake = Fake::new(&["/system.slice", "/system.slice/db.service", "/pod", "/pod/a"]);
        assert_eq!(names(&fake, &["pod"]), [("/pod".to_owned(), 2)]);
        assert_eq!(names(&fake, &["/pod*", "pod/a"]), [("/pod".to_owned(), 2)]);
        assert_eq!(names(&fake, &["*/db.*"]), [("/system.slice/db.service".to_owned(), 1)]);
        assert!(names(&fake, &["*.service"]).is_empty());
    }

    #[test]
    fn finding_none_says_how_many_could_have_been_meant() {
        let fake = Fake::new(&["/pod", "/pod/a"]);
        let patterns = ["nope".to_owned(), "no/pe".to_owned()];
        let message = find_some(&fake.fs(), &patterns).unwrap_err().to_string();
        assert!(
            message.starts_with("--cgroup nope --cgroup no/pe: matches none of the 2 cgroups"),
            "{message}"
        );
        let empty = Fake::new(&[]);
        fs::create_dir_all(empty.fs().dir("/x")).unwrap();
        let message = find_some(&empty.fs(), &[]).unwrap_err().to_string();
        assert!(message.contains("cgroup_no_v1=memory"), "{message}");
    }
}
