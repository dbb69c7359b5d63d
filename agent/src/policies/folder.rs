// SPDX-License-Identifier: Apache-2.0
//! The folder of compiled policies: `NAME.bpf.o` and its manifest `NAME.toml`. The content of the
//! folder is the only list of policies.

use super::kind::Kind;
use crate::error::{Error, Result};
use cachepilot_models::policy::{Manifest, policy_of};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder in an installed package.
const INSTALLED: &str = "/usr/lib/cachepilot/bpf";
/// The environment variable that names the folder if no option does.
const VARIABLE: &str = "CACHEPILOT_BPF_DIR";
const OBJECT_SUFFIX: &str = ".bpf.o";

/// A folder of compiled policies of one kind.
#[derive(Debug, Clone)]
pub struct PolicyDir {
    path: PathBuf,
    kind: Kind,
}

/// A compiled policy.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    /// The object file.
    pub object: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
}

impl PolicyDir {
    /// The folder of an option, of the environment, or the installed one, in this order.
    #[must_use]
    pub fn find(option: Option<&Path>) -> Self {
        let variable = env::var_os(VARIABLE).filter(|v| !v.is_empty());
        let dir = option.map(PathBuf::from).or_else(|| variable.map(PathBuf::from));
        Self { path: dir.unwrap_or_else(|| PathBuf::from(INSTALLED)), kind: Kind::Eviction }
    }

    /// The folder for policies of another kind, which is below this one.
    #[must_use]
    pub fn of(&self, kind: Kind) -> Self {
        let path = kind.folder().map_or_else(|| self.path.clone(), |name| self.path.join(name));
        Self { path, kind }
    }

    /// The kind of its policies.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Names of all policies, sorted.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read or contains no policy.
    pub fn names(&self) -> Result<Vec<String>> {
        let entries = fs::read_dir(&self.path).map_err(Error::io(&self.path))?;
        let files = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> =
            files.filter_map(|f| f.strip_suffix(OBJECT_SUFFIX).map(Into::into)).collect();
        names.sort();
        if names.is_empty() { Err(Error::NoPolicies(self.path.clone())) } else { Ok(names) }
    }

    /// Names of all policies and of their variants, sorted. For a policy whose manifest is invalid,
    /// only the policy's name is listed.
    ///
    /// # Errors
    /// As [`Self::names`].
    pub fn candidates(&self) -> Result<Vec<String>> {
        let names = |name: String| match self.policy(&name) {
            Ok(file) => file.manifest.names().collect(),
            Err(_) => vec![name],
        };
        let mut candidates: Vec<String> = self.names()?.into_iter().flat_map(names).collect();
        candidates.sort();
        Ok(candidates)
    }

    /// The policy that `name`, which may be a variant, belongs to, and the values of all its
    /// tunables.
    ///
    /// # Errors
    /// As [`Self::policy`], or [`Error::UnknownPolicy`] with a list of the variants.
    pub fn resolve(&self, name: &str) -> Result<(PolicyFile, Vec<u32>)> {
        let file = self.policy(policy_of(name))?;
        let values = file.manifest.values_of(name).map_err(|_| Error::UnknownPolicy {
            name: name.into(),
            dir: self.path.clone(),
            known: file.manifest.names().collect::<Vec<_>>().join(", "),
        })?;
        Ok((file, values))
    }

    /// The policy `name`.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] with a list of the known ones, or the mistake in its
    /// manifest.
    pub fn policy(&self, name: &str) -> Result<PolicyFile> {
        let names = self.names()?;
        if !names.iter().any(|n| n == name) {
            let (name, dir, known) = (name.into(), self.path.clone(), names.join(", "));
            return Err(Error::UnknownPolicy { name, dir, known });
        }
        let file = self.path.join(format!("{name}.toml"));
        let text = fs::read_to_string(&file).map_err(Error::io(&file))?;
        let manifest = self.kind.parse(&text, name).map_err(|e| Error::format(&file, e))?;
        Ok(PolicyFile { object: self.path.join(format!("{name}{OBJECT_SUFFIX}")), manifest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "\
        name = 'sample'\ntitle = 'Sample'\nsummary = ''\ngood_at = ''\nbad_at = ''\npaper = ''\n\
        production = false\nfolio_state_bytes = 0\nhooks = ['init']\n";

    fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, PolicyDir) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let policies = PolicyDir::find(Some(dir.path()));
        (dir, policies)
    }

    #[test]
    fn the_objects_of_the_folder_are_the_policies() {
        let (_dir, policies) =
            folder(&[("b.bpf.o", ""), ("a.bpf.o", ""), ("c.toml", ""), ("d.o", "")]);
        assert_eq!(policies.names().unwrap(), ["a", "b"]);
    }

    #[test]
    fn readahead_policies_are_in_a_subfolder_with_their_own_hooks() {
        let (dir, policies) = folder(&[("sample.bpf.o", ""), ("sample.toml", MANIFEST)]);
        let below = dir.path().join("prefetch");
        fs::create_dir(&below).unwrap();
        let manifest = MANIFEST.replace("'init'", "'decide_window'").replace("sample", "ahead");
        fs::write(below.join("ahead.bpf.o"), "").unwrap();
        fs::write(below.join("ahead.toml"), manifest).unwrap();
        let readahead = policies.of(Kind::Readahead);
        assert_eq!(policies.names().unwrap(), ["sample"]);
        assert_eq!(readahead.names().unwrap(), ["ahead"]);
        assert_eq!(readahead.policy("ahead").unwrap().object, below.join("ahead.bpf.o"));
        assert!(policies.of(Kind::Eviction).policy("sample").is_ok());
    }

    #[test]
    fn a_policy_has_the_manifest_beside_it() {
        let (dir, policies) = folder(&[("sample.bpf.o", ""), ("sample.toml", MANIFEST)]);
        let policy = policies.policy("sample").unwrap();
        assert_eq!(policy.object, dir.path().join("sample.bpf.o"));
        assert_eq!(policy.manifest.title, "Sample");
    }

    #[test]
    fn a_variant_is_its_policy_with_other_values() {
        let tunable = "[[tunables]]\nname = 'share'\ntype = 'u32'\ndefault = 5\nmin = 1\nmax = 9\n\
                       unit = 'percent'\ndescription = ''\n";
        let variant = "[[variants]]\nname = 'wide'\ntunables = { share = 9 }\n";
        let text = format!("{MANIFEST}{tunable}{variant}");
        let (dir, policies) = folder(&[("sample.bpf.o", ""), ("sample.toml", &text)]);
        assert_eq!(policies.names().unwrap(), ["sample"]);
        assert_eq!(policies.candidates().unwrap(), ["sample", "sample:wide"]);
        for (name, values) in [("sample", [5]), ("sample:wide", [9])] {
            let (file, found) = policies.resolve(name).unwrap();
            assert_eq!((file.manifest.name.as_str(), found), ("sample", values.to_vec()));
            assert_eq!(file.manifest.name_of(&values), name, "as it is read back");
        }
        let error = policies.resolve("sample:tall").unwrap_err().to_string();
        let shown = dir.path().display();
        let expected = format!("no policy \"sample:tall\" in {shown} (known: sample, sample:wide)");
        assert_eq!(error, expected);
    }

    #[test]
    fn refusals_name_the_folder_and_what_is_in_it() {
        let (dir, policies) = folder(&[("other.bpf.o", ""), ("sample.bpf.o", "")]);
        let error = policies.policy("nope").unwrap_err().to_string();
        let shown = dir.path().display();
        assert_eq!(error, format!("no policy \"nope\" in {shown} (known: other, sample)"));
        let error = policies.policy("sample").unwrap_err().to_string();
        assert!(error.starts_with(&format!("{shown}/sample.toml: ")), "{error}");
        let (_dir, empty) = folder(&[("sample.toml", MANIFEST)]);
        assert!(matches!(empty.policy("sample"), Err(Error::NoPolicies(_))));
    }

    #[test]
    fn a_manifest_of_another_policy_is_refused() {
        let (_dir, policies) = folder(&[("sampel.bpf.o", ""), ("sampel.toml", MANIFEST)]);
        assert!(matches!(policies.policy("sampel"), Err(Error::Format { .. })));
    }
}
