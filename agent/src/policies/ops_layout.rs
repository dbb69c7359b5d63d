// SPDX-License-Identifier: Apache-2.0
//! The value of a struct_ops map in the layout of the running kernel.
//!
//! libbpf builds this value too, but passes it to the kernel only together with a new link. A swap
//! updates a link that another process created and pinned, so the value is built here in both
//! cases.

use libbpf_rs::HasSize;
use libbpf_rs::btf::types::{MemberAttr, Ptr, Struct};
use libbpf_rs::btf::{Btf, TypeId};
use std::collections::BTreeMap;
use std::ffi::OsStr;

/// Prefix that turns the name of a struct of hooks into that of its map's value.
const VALUE_PREFIX: &str = "bpf_struct_ops_";

/// Offsets of the members of a struct of hooks in the value of its map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpsLayout {
    value_bytes: usize,
    /// Offset of each member from the start of the value, bytes.
    offsets: BTreeMap<String, usize>,
    /// Offsets of the members that are hooks.
    hooks: Vec<usize>,
    name_bytes: usize,
}

/// The content of a registered map's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Name of the policy.
    pub policy: String,
    /// Id of the cgroup that it is for.
    pub cgroup_id: u64,
}

impl OpsLayout {
    /// The layout of `ops_struct` by the kernel's types; `None` if the kernel has no such struct.
    #[must_use]
    pub fn of(types: &Btf<'_>, ops_struct: &str) -> Option<Self> {
        let value: Struct<'_> = types.type_by_name(&format!("{VALUE_PREFIX}{ops_struct}"))?;
        let ops: Struct<'_> = types.type_by_name(ops_struct)?;
        let (_, start) = members(&value).find(|(name, _)| *name == "data")?;
        let offsets: BTreeMap<String, usize> =
            members(&ops).map(|(name, at)| (name.to_owned(), start + at)).collect();
        let pointers = ops.iter().filter(|m| types.type_by_id::<Ptr<'_>>(m.ty).is_some());
        let hooks = pointers.filter_map(|m| offsets.get(m.name?.to_str()?).copied()).collect();
        let name = ops.iter().find(|m| m.name == Some(OsStr::new("name")))?;
        let name_bytes = array_bytes(types, name.ty)?;
        Some(Self { value_bytes: value.size(), offsets, hooks, name_bytes })
    }

    /// The value for a policy: its name, its cgroup, and the descriptor of the program of each
    /// hook.
    ///
    /// # Errors
    /// Returns the name of a hook that the kernel does not have.
    pub fn encode(&self, what: &Registered, hooks: &[(String, i32)]) -> Result<Vec<u8>, String> {
        let mut value = vec![0; self.value_bytes];
        for (hook, descriptor) in hooks {
            // The member is a pointer. It contains the descriptor of a program until the kernel
            // replaces it.
            let at = *self.offsets.get(hook).ok_or(hook)?;
            put(&mut value, at, &u64::from(descriptor.cast_unsigned()).to_ne_bytes());
        }
        let at = |member: &str| self.offsets.get(member).copied().ok_or(member.to_owned());
        put(&mut value, at("cgroup_id")?, &what.cgroup_id.to_ne_bytes());
        let name = what.policy.as_bytes();
        // The last byte is the terminator.
        put(&mut value, at("name")?, &name[..name.len().min(self.name_bytes - 1)]);
        Ok(value)
    }

    /// Reads the value of a registered map; `None` if it is too short.
    #[must_use]
    pub fn decode(&self, value: &[u8]) -> Option<Registered> {
        let id = *self.offsets.get("cgroup_id")?;
        let name = *self.offsets.get("name")?;
        let id = value.get(id..id + 8)?.try_into().ok()?;
        let name = value.get(name..name + self.name_bytes)?;
        let name = name.split(|&byte| byte == 0).next()?;
        let policy = String::from_utf8_lossy(name).into_owned();
        Some(Registered { policy, cgroup_id: u64::from_ne_bytes(id) })
    }

    /// Ids of the programs of a registered map, from its value: the kernel stores them in place of
    /// the descriptors.
    #[must_use]
    pub fn program_ids(&self, value: &[u8]) -> Vec<u32> {
        let id = |&at: &usize| {
            let word = value.get(at..at + 8)?.try_into().ok()?;
            u32::try_from(u64::from_ne_bytes(word)).ok().filter(|&id| id != 0)
        };
        self.hooks.iter().filter_map(id).collect()
    }

    /// Size of the value, bytes.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }
}

fn put(value: &mut [u8], at: usize, bytes: &[u8]) {
    value[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Names and byte offsets of the members of a struct.
pub(super) fn members<'a>(of: &'a Struct<'a>) -> impl Iterator<Item = (&'a str, usize)> {
    of.iter().filter_map(|member| match member.attr {
        MemberAttr::Normal { offset } => Some((member.name?.to_str()?, offset as usize / 8)),
        MemberAttr::BitField { .. } => None,
    })
}

fn array_bytes(types: &Btf<'_>, id: TypeId) -> Option<usize> {
    let array: libbpf_rs::btf::types::Array<'_> = types.type_by_id(id)?;
    Some(array.capacity())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> OpsLayout {
        let members = [("init", 64), ("evict_folios", 72), ("cgroup_id", 80), ("name", 88)];
        let offsets = members.map(|(name, at)| (name.to_owned(), at)).into();
        OpsLayout { value_bytes: 128, offsets, hooks: vec![64, 72], name_bytes: 16 }
    }

    fn registered(policy: &str) -> Registered {
        Registered { policy: policy.into(), cgroup_id: 0x0102_0304_0506 }
    }

    #[test]
    fn programs_are_put_where_the_kernel_has_the_hooks() {
        let hooks = [("evict_folios".into(), 9), ("init".into(), 7)];
        let value = layout().encode(&registered("lfu"), &hooks).unwrap();
        assert_eq!(value[..64], [0; 64]);
        assert_eq!((value[64], value[72]), (7, 9));
        assert_eq!(value[80..88], 0x0102_0304_0506_u64.to_ne_bytes());
        assert_eq!(&value[88..92], b"lfu\0");
    }

    #[test]
    fn programs_are_found_by_their_ids_but_for_hooks_that_a_policy_lacks() {
        let value = layout().encode(&registered("lfu"), &[("evict_folios".into(), 9)]).unwrap();
        assert_eq!(layout().program_ids(&value), [9]);
        assert_eq!(layout().program_ids(&value[..70]), [0; 0]);
    }

    #[test]
    fn encoded_values_are_decoded_with_long_names_cut() {
        for (name, kept) in [("lfu", "lfu"), ("a_name_of_20_letters", "a_name_of_20_le")] {
            let value = layout().encode(&registered(name), &[]).unwrap();
            assert_eq!(layout().decode(&value), Some(registered(kept)));
        }
    }

    #[test]
    fn a_hook_that_the_kernel_lacks_is_named() {
        let refused = layout().encode(&registered("lfu"), &[("fork".into(), 3)]);
        assert_eq!(refused, Err("fork".into()));
    }

    #[test]
    fn a_short_value_is_no_table() {
        assert_eq!(layout().decode(&[0; 100]), None);
    }
}
