// SPDX-License-Identifier: Apache-2.0
//! Policies: loading, attaching, swapping, and their state as user space sees it.

use crate::cgroup::Cgroup;
use crate::error::{Context, Error, Result};
use crate::messages;
use libbpf_rs::btf::types::{DataSec, Var};
use libbpf_rs::{
    AsRawLibbpf, Link, MapCore, MapType, Object, ObjectBuilder, OpenObject, ProgramInput,
};
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Bytes before `cgroup_id` in `struct cache_ext_ops` of bpf/include/kernel_types.h: seven hooks.
const CGROUP_ID_AT: usize = 7 * size_of::<u64>();
/// The same in `struct cache_ext_prefetch_ops` of bpf/include/prefetch.bpf.h: two hooks.
const PREFETCH_CGROUP_ID_AT: usize = 2 * size_of::<u64>();

/// Section of a policy's variables, and the one that POLICY_STATE declares.
const BSS: &str = ".bss";
const STATE: &str = "cache_ext_state";

static SHIPPED: OnceLock<PathBuf> = OnceLock::new();

/// Says where the compiled policies of bpf/policies are.
pub fn set_shipped_dir(dir: PathBuf) {
    SHIPPED.get_or_init(|| dir);
}

/// A policy in the kernel, attached to nothing.
pub struct Policy {
    object: Object,
    name: String,
}

/// A policy that is attached until this value, or its link, goes.
pub struct Attached {
    link: Link,
    policy: Policy,
}

/// Where the compiled policy of the tests is.
#[must_use]
pub fn object(name: &str) -> PathBuf {
    PathBuf::from(env!("TEST_POLICIES")).join(format!("{name}.bpf.o"))
}

/// Those of a kind are in the same folder of the shipped ones.
fn open(name: &str, kind: &str) -> Result<OpenObject> {
    let test = object(name);
    let shipped = SHIPPED.get().map(|dir| dir.join(kind).join(format!("{name}.bpf.o")));
    let path = if test.exists() { test } else { shipped.unwrap_or(test) };
    ObjectBuilder::default().open_file(&path).context(|| format!("opening {}", path.display()))
}

/// Loads a policy for a cgroup.
///
/// # Errors
/// When the verifier refuses it.
pub fn load(name: &str, cgroup: &Cgroup) -> Result<Policy> {
    load_for_id(name, cgroup.id()?)
}

/// Loads a policy for a cgroup that need not exist.
///
/// # Errors
/// When the verifier refuses it.
pub fn load_for_id(name: &str, cgroup_id: u64) -> Result<Policy> {
    load_open(name, open(name, "")?, CGROUP_ID_AT, cgroup_id)
}

/// Loads a readahead policy for a cgroup.
///
/// # Errors
/// When the verifier refuses it.
pub fn load_prefetch(name: &str, cgroup: &Cgroup) -> Result<Policy> {
    load_open(name, open(name, "prefetch")?, PREFETCH_CGROUP_ID_AT, cgroup.id()?)
}

fn load_open(name: &str, mut open: OpenObject, id_at: usize, cgroup_id: u64) -> Result<Policy> {
    let mut tables = open.maps_mut().filter(|map| map.map_type() == MapType::StructOps);
    if let Some(mut table) = tables.next() {
        let value = table.initial_value_mut().unwrap_or_default();
        let place = value.get_mut(id_at..id_at + size_of::<u64>());
        place
            .ok_or_else(|| Error::Check(format!("{name}: its table is too small")))?
            .copy_from_slice(&cgroup_id.to_ne_bytes());
    }
    drop(tables);
    messages::record();
    match open.load() {
        Ok(object) => Ok(Policy { object, name: name.into() }),
        Err(_) => Err(Error::Refused { policy: name.into(), said: messages::decisive() }),
    }
}

/// Loads a policy and attaches it, and waits until it has adopted what is resident.
///
/// # Errors
/// When the kernel refuses it.
pub fn attach(name: &str, cgroup: &Cgroup) -> Result<Attached> {
    let attached = load(name, cgroup)?.attach()?;
    cgroup.wait_for_state("running")?;
    Ok(attached)
}

/// Runs a program of an object once, with a number as its context; fails as the program does.
///
/// # Errors
/// What it returned, as an error of the system.
pub fn run_program(object: &str, program: &str, number: u64) -> Result<()> {
    let what = || format!("{object}: {program}");
    let object = open(object, "")?.load().context(what)?;
    let found = object.progs_mut().find(|one| one.name() == program);
    let found = found.ok_or_else(|| Error::Check(format!("{} is not there", what())))?;
    let mut context = number.to_ne_bytes();
    let input = ProgramInput { context_in: Some(&mut context), ..ProgramInput::default() };
    let output = found.test_run(input).context(what)?;
    match output.return_value.cast_signed() {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)).context(what),
    }
}

impl Policy {
    /// Attaches it to the cgroup that it was loaded for.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn attach(mut self) -> Result<Attached> {
        let name = self.name.clone();
        let mut tables = self.object.maps_mut().filter(|map| map.map_type() == MapType::StructOps);
        let mut table =
            tables.next().ok_or_else(|| Error::Check(format!("{name}: has no table")))?;
        let link = table.attach_struct_ops().context(|| format!("attaching {name}"))?;
        drop(tables);
        Ok(Attached { link, policy: self })
    }

    /// `POLICY_STATE`, shared with the kernel.
    ///
    /// # Errors
    /// When the object has none, or one of another size.
    pub fn state<T: Copy>(&self) -> Result<*mut T> {
        let mut maps = self.object.maps();
        let wrong = || Error::Check(format!("{}: its state is not what it should be", self.name));
        let bss = maps.find(|map| map.name().to_string_lossy().ends_with(BSS)).ok_or_else(wrong)?;
        let at = self.state_offset().ok_or_else(wrong)?;
        let mut bytes = 0_u64;
        // SAFETY: the map is one of an object that is open; it stays mapped as long as that.
        let memory = unsafe {
            libbpf_sys::bpf_map__initial_value(bss.as_libbpf_object().as_ptr(), &raw mut bytes)
        };
        if memory.is_null() || (at + size_of::<T>()) as u64 > bytes {
            return Err(wrong());
        }
        Ok(memory.cast::<u8>().wrapping_add(at).cast())
    }

    /// Where the state is among the global variables.
    fn state_offset(&self) -> Option<usize> {
        let types = self.object.btf().ok()??;
        let section: DataSec<'_> = types.type_by_name(BSS)?;
        let is_state = |ty| {
            let variable: Option<Var<'_>> = types.type_by_id(ty);
            variable.and_then(|variable| variable.name()) == Some(OsStr::new(STATE))
        };
        let found = section.iter().find(|variable| is_state(variable.ty))?;
        usize::try_from(found.offset).ok()
    }
}

impl Attached {
    /// Replaces the policy; the old one is returned.
    ///
    /// # Errors
    /// When the kernel refuses the new one; the old one stays.
    pub fn swap(&mut self, next: Policy) -> Result<Policy> {
        let table = next.object.maps().find(|map| map.map_type() == MapType::StructOps);
        let table = table.ok_or_else(|| Error::Check(format!("{}: has no table", next.name)))?;
        let link: *mut libbpf_sys::bpf_link = self.link.as_libbpf_object().as_ptr();
        // SAFETY: both are open.
        let result =
            unsafe { libbpf_sys::bpf_link__update_map(link, table.as_libbpf_object().as_ptr()) };
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result))
                .context(|| format!("swapping to {}", next.name));
        }
        Ok(std::mem::replace(&mut self.policy, next))
    }

    /// Loads another policy and replaces the present one.
    ///
    /// # Errors
    /// As [`Self::swap`].
    pub fn swap_to(&mut self, name: &str, cgroup: &Cgroup) -> Result<Policy> {
        self.swap(load(name, cgroup)?)
    }

    /// Detaches it, by closing the link.
    pub fn detach(self) -> Policy {
        drop(self.link);
        self.policy
    }

    /// Detaches it by the system call, as `bpftool link detach` does.
    ///
    /// # Errors
    /// What the system says.
    pub fn detach_by_call(&self) -> Result<()> {
        self.link.detach().context(|| format!("detaching {}", self.policy.name))
    }

    /// Pins the link: the policy stays when this process ends.
    ///
    /// # Errors
    /// What the system says.
    pub fn pin(&mut self, path: &str) -> Result<()> {
        self.link.pin(path).context(|| format!("pinning {path}"))
    }

    /// The policy that is attached.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
}
