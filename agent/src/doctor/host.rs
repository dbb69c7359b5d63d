// SPDX-License-Identifier: Apache-2.0
//! Checks of what the host must have before anything can be tried.

use super::Check;
use crate::cgroup::{self, mount::file_system_magic};
use crate::policies::support;
use std::fs;
use std::path::Path;

const TYPES: &str = "/sys/kernel/btf/vmlinux";
const BPF_FS: &str = "/sys/fs/bpf";
/// Files with the AppArmor profile of this process. The second file belongs to AppArmor only if no
/// other security module uses it.
const APPARMOR: [&str; 2] = ["/proc/self/attr/apparmor/current", "/proc/self/attr/current"];
const BPF_FS_MAGIC: u32 = 0xcafe_4a11;

/// All checks of the host.
pub fn checks() -> Vec<Check> {
    let mut checks = vec![root()];
    checks.extend(hierarchy());
    checks.push(types());
    checks.push(bpf_file_system());
    checks.extend(profile());
    checks.push(cache_ext());
    checks
}

/// The next step on a host. If /sys is not mounted, as in a chroot, nothing can be said about the
/// host, and the next step is to mount it.
fn next_step(on_a_host: &'static str) -> &'static str {
    match Path::new("/sys/kernel").is_dir() {
        true => on_a_host,
        false => "mount -t sysfs sysfs /sys; in a chroot or a container run it on the host instead",
    }
}

fn root() -> Check {
    // SAFETY: the call has no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    match user {
        0 => Check::works("root", "this process is root"),
        user => Check::missing("root", format!("user {user}"), "run it as root"),
    }
}

fn hierarchy() -> Vec<Check> {
    const NAMES: [&str; 3] = ["cgroup v2", "memory controller", "io controller"];
    let mount = match cgroup::mount::mounted() {
        Ok(mount) => mount,
        Err(_) => {
            let step =
                next_step("boot with systemd.unified_cgroup_hierarchy=1 (or cgroup_no_v1=all)");
            let first = Check::missing(NAMES[0], "it is mounted nowhere", step);
            let rest = NAMES[1..].iter().map(|name| Check::untried(name, NAMES[0]));
            return [first].into_iter().chain(rest).collect();
        }
    };
    let read = |name: &str| cgroup::fs::read(&mount.join(name)).unwrap_or_default();
    let (there, on) = (read("cgroup.controllers"), read("cgroup.subtree_control"));
    let has = |list: &str, controller: &str| list.split_whitespace().any(|c| c == controller);
    let shown = mount.display();
    let memory = match (has(&there, "memory"), has(&on, "memory")) {
        (_, true) => Check::works(NAMES[1], format!("on below {shown}")),
        (true, false) => Check::missing(
            NAMES[1],
            format!("off below {shown}"),
            &format!("echo +memory > {shown}/cgroup.subtree_control"),
        ),
        (false, false) => Check::missing(
            NAMES[1],
            format!("{shown}/cgroup.controllers has no memory: it belongs to cgroup v1 here"),
            "boot with cgroup_no_v1=memory (or systemd.unified_cgroup_hierarchy=1)",
        ),
    };
    let io = match has(&on, "io") {
        true => Check::works(NAMES[2], format!("on below {shown}")),
        false => Check::without(
            NAMES[2],
            "off: block reads of tenants are not counted",
            &format!("echo +io > {shown}/cgroup.subtree_control"),
        ),
    };
    vec![Check::works(NAMES[0], format!("mounted at {shown}")), memory, io]
}

fn types() -> Check {
    match Path::new(TYPES).exists() {
        true => Check::works("BTF", TYPES),
        false => Check::missing(
            "BTF",
            format!("{TYPES} is missing"),
            next_step("use a kernel with CONFIG_DEBUG_INFO_BTF=y"),
        ),
    }
}

fn bpf_file_system() -> Check {
    match file_system_magic(Path::new(BPF_FS)) {
        Ok(BPF_FS_MAGIC) => Check::works("bpffs", format!("mounted at {BPF_FS}")),
        _ => Check::without(
            "bpffs",
            format!("{BPF_FS} is no BPF file system: policies could not outlive the agent"),
            "mount -t bpf bpf /sys/fs/bpf",
        ),
    }
}

/// The AppArmor profile of this process, if it may cause refusals.
fn profile() -> Option<Check> {
    let text = APPARMOR.iter().find_map(|path| fs::read_to_string(path).ok())?;
    confined_by(text.trim_end_matches(['\n', '\0']))
}

/// Checks a profile by its name. The default profiles of container runtimes deny every write below
/// /sys except to cgroups.
fn confined_by(told: &str) -> Option<Check> {
    let name = told.strip_suffix(" (enforce)")?;
    let detail = format!(
        "{name} is in force: such profiles of container runtimes refuse pins below {BPF_FS}, and so \
         every policy"
    );
    let step = "run the agent unconfined: appArmorProfile: {type: Unconfined} in the container's \
                securityContext, or --security-opt apparmor=unconfined";
    Some(Check::note("AppArmor", detail, step))
}

fn cache_ext() -> Check {
    match support::check() {
        Ok(_) => Check::works("cache_ext", "the kernel has it"),
        Err(error) => Check::without(
            "cache_ext",
            format!("{error} (curves and limits only)"),
            "boot a kernel with the patches, see docs/operating/kernel.md",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn a_profile_that_is_enforced_is_named() {
        let check = confined_by("cri-containerd.apparmor.d (enforce)").unwrap();
        assert_eq!((check.name.as_str(), check.status), ("AppArmor", Status::Note));
        assert!(check.detail.starts_with("cri-containerd.apparmor.d is in force"), "{check:?}");
        assert!(check.next_step.contains("appArmorProfile: {type: Unconfined}"), "{check:?}");
        let selinux = "system_u:system_r:container_t:s0";
        for told in ["unconfined", "docker-default (complain)", "", selinux] {
            assert_eq!(confined_by(told), None, "{told}");
        }
    }
}
