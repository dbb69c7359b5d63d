// SPDX-License-Identifier: Apache-2.0
//! What the sampler can observe, and the kernel functions that this requires.

use libbpf_rs::btf::{Btf, types};

/// Programs that observe one thing together. A kernel has the functions of one of the alternatives.
pub struct Part {
    /// What the part observes.
    pub name: &'static str,
    /// The alternatives, in order of preference.
    pub alternatives: &'static [Programs],
}

/// Programs by name, and what each is attached to.
pub type Programs = &'static [(&'static str, Target)];

/// What a program is attached to.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// A function of the kernel.
    Function(&'static str),
    /// A tracepoint of the kernel.
    Tracepoint(&'static str),
}

use Target::{Function, Tracepoint};

/// All parts of the sampler.
pub const PARTS: [Part; 8] = [
    Part {
        name: "reads",
        alternatives: &[&[
            ("read_begin", Function("filemap_read")),
            ("read_end", Function("filemap_read")),
        ]],
    },
    Part {
        name: "splices",
        alternatives: &[&[
            ("splice_begin", Function("filemap_splice_read")),
            ("splice_end", Function("filemap_splice_read")),
        ]],
    },
    Part {
        name: "writes",
        // The newest kernels may have the second function inlined, beside the first.
        alternatives: &[
            &[
                ("write_begin_mpol", Function("__filemap_get_folio_mpol")),
                ("write_end_mpol", Function("__filemap_get_folio_mpol")),
            ],
            &[
                ("write_begin", Function("__filemap_get_folio")),
                ("write_end", Function("__filemap_get_folio")),
            ],
            &[
                ("write_begin_old", Function("pagecache_get_page")),
                ("write_end_old", Function("pagecache_get_page")),
            ],
        ],
    },
    Part {
        name: "faults",
        alternatives: &[&[
            ("fault_around", Function("filemap_map_pages")),
            ("fault_begin", Function("filemap_fault")),
            ("fault_end", Function("filemap_fault")),
        ]],
    },
    Part {
        name: "misses",
        alternatives: &[&[("folio_added", Tracepoint("mm_filemap_add_to_page_cache"))]],
    },
    Part {
        name: "evictions",
        alternatives: &[
            &[("folio_removed", Function("__filemap_remove_folio"))],
            &[("removed_old", Function("__delete_from_page_cache"))],
        ],
    },
    Part { name: "refaults", alternatives: &[&[("refaulted", Function("workingset_refault"))]] },
    Part {
        name: "removals",
        alternatives: &[&[("folios_removed", Function("delete_from_page_cache_batch"))]],
    },
];

/// The programs of a part for this kernel; empty if it does not have the functions.
#[must_use]
pub fn choose(part: &Part, types: &Btf<'_>) -> Programs {
    let exists = |target: Target| match target {
        Function(name) => types.type_by_name::<types::Func<'_>>(name).is_some(),
        Tracepoint(name) => {
            types.type_by_name::<types::Typedef<'_>>(&format!("btf_trace_{name}")).is_some()
        }
    };
    choose_of(part, exists)
}

/// As [`choose`], with `exists` to check for functions and tracepoints.
#[must_use]
pub fn choose_of(part: &Part, exists: impl Fn(Target) -> bool) -> Programs {
    let fits = |programs: &&Programs| programs.iter().all(|&(_, target)| exists(target));
    part.alternatives.iter().find(fits).copied().unwrap_or(&[])
}

/// Names of the functions of all alternatives of a part.
#[must_use]
pub fn functions(part: &Part) -> String {
    let names = part.alternatives.iter().flat_map(|programs| programs.iter());
    let names = names.map(|&(_, Function(name) | Tracepoint(name))| name);
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    names.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_functions_are_named_with_their_alternatives() {
        let dir = tempfile::tempdir().unwrap();
        // The object's own types represent a kernel without any of the functions.
        let types = crate::bpf::sampler::tests::types(dir.path());
        for part in &PARTS {
            assert!(choose(part, &types).is_empty(), "{}", part.name);
        }
        let evictions = PARTS.iter().find(|part| part.name == "evictions").unwrap();
        let names = "__filemap_remove_folio or __delete_from_page_cache";
        assert_eq!(functions(evictions), names);
    }
}
