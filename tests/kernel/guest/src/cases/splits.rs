// SPDX-License-Identifier: Apache-2.0
//! Large folios that are split.

use super::{Case, Lab, MIB, Outcome, Xfs, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::error::{Context, Result, write_text};
use crate::files::{TestFile, page_content};
use crate::policy::{self, Attached};
use std::os::unix::fs::FileExt;

pub const CASES: &[Case] = &[case("a_policy_is_told_of_every_part_of_a_split", &[Xfs], told)];

/// Splits the large folios of a file into pages.
pub fn split(file: &TestFile) -> Result<()> {
    let range = format!("{},0x0,{:#x}", file.path.display(), file.pages);
    write_text("/sys/kernel/debug/split_huge_pages", &range)
}

/// `struct splitting_state` of tests/kernel/policies/splitting.bpf.c.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Splitting {
    list: u64,
    added: u64,
    added_pages: u64,
    split_off: u64,
    removed: u64,
    wrong: u64,
}

fn splitting(attached: &Attached) -> Result<Splitting> {
    let state = attached.policy().state::<Splitting>()?;
    // SAFETY: the state is mapped as long as the policy is open.
    Ok(unsafe { state.read_volatile() })
}

fn told(_: &Lab) -> Outcome {
    const PAGES: u64 = 2048;
    let file = TestFile::create("parts", PAGES)?;
    let bytes: Vec<u8> = (0..PAGES).flat_map(page_content).collect();
    let cgroup = Cgroup::create("parts", Some(64 * MIB))?;
    let attached = policy::attach("splitting", &cgroup)?;
    let before = splitting(&attached)?;
    child::run(&cgroup, || {
        let descriptor = file.open()?;
        descriptor.write_all_at(&bytes, 0).context(|| "write".into())?;
        descriptor.sync_all().context(|| "fsync".into())
    })?;
    let whole = splitting(&attached)?;
    let (folios, pages) = (whole.added - before.added, whole.added_pages - before.added_pages);
    ensure!(pages >= PAGES && folios < PAGES / 2, "there are no large folios here: {whole:?}");
    split(&file)?;
    let found = splitting(&attached)?;
    // Folios of other files are single pages, and few.
    ensure!(
        found.wrong == 0 && found.split_off == pages - folios && found.split_off > PAGES / 2,
        "{pages} pages were in {folios} folios: {found:?}"
    );
    let stat = cgroup.stat()?;
    let (resident, removed) = (stat.get("resident_pages"), found.removed);
    ensure!(resident >= PAGES && stat.get("unregistered") == 0, "{stat:?}");
    cgroup.write("memory.reclaim", "1M")?;
    let chosen = cgroup.stat()?.get("reclaimed_pages");
    ensure!(chosen >= 256, "{chosen} pages were reclaimed of what was split");
    file.uncache()?;
    let last = splitting(&attached)?;
    ensure!(last.removed - removed >= PAGES, "not all went one by one: {last:?}");
    Ok(format!("{folios} folios; {last:?}"))
}
