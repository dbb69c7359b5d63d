// SPDX-License-Identifier: Apache-2.0
//! What is noted of a folio beside its cgroup, when the folio changes.

use super::nodes::stay_on_node;
use super::splits::split;
use super::{Case, Ext4, Lab, Nodes, Outcome, Xfs, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::error::{Context, Result};
use crate::files::{PAGE, TestFile, page_content};
use crate::mapping::Mapping;
use crate::policy;
use std::os::unix::fs::FileExt;

pub const CASES: &[Case] = &[
    case("a_hit_before_a_migration_moves_the_folio_in_time", &[Nodes], migrated),
    case("a_hit_before_a_split_moves_every_part_in_time", &[Xfs], split_after_hit),
    case("a_page_that_comes_after_hits_is_newer_than_they_are", &[Ext4], added_after_hits),
];

/// Pages on the list before the folios of a case, so that a request does not come across those.
const BEFORE: u64 = 64;
/// Pages that a request takes, for which the moves are made that hits left for later.
const TAKEN: u64 = 16;
const AFTER: u64 = 1024;

/// Files whose pages come before and after those of a case.
struct Others {
    before: TestFile,
    after: TestFile,
}

impl Others {
    fn create() -> Result<Self> {
        Ok(Self {
            before: TestFile::sparse("before", BEFORE)?,
            after: TestFile::sparse("after", AFTER)?,
        })
    }

    /// Has hits on the pages that come after those of a file, which were hit before: they are then
    /// the oldest, but for a few. Fails unless they go first.
    fn check_oldest(&self, cgroup: &Cgroup, file: &TestFile) -> Outcome {
        let reclaim =
            |pages: u64| cgroup.write("memory.reclaim", &(pages * PAGE as u64).to_string());
        reclaim(TAKEN)?;
        child::run(cgroup, || {
            child::stay_on_one_cpu()?;
            self.after.skim(0..AFTER)
        })?;
        reclaim(BEFORE - TAKEN + file.pages)?;
        let (left, others) = (file.cached_pages()?, self.after.cached_pages()?);
        ensure!(
            left <= file.pages / 8,
            "{left} of {} pages that were hit first are left, {others} of those hit last",
            file.pages
        );
        Ok(format!("{left} of {} pages are left, {others} of the others", file.pages))
    }
}

/// The hits wait in the ring of a processor while the folios move to another node.
fn migrated(_: &Lab) -> Outcome {
    const PAGES: u64 = 96;
    let file = TestFile::create("moving", PAGES)?;
    let others = Others::create()?;
    let cgroup = Cgroup::create("moving", None)?;
    let _attached = policy::attach("lru", &cgroup)?;
    child::run(&cgroup, || {
        child::stay_on_one_cpu()?;
        stay_on_node(0)?;
        others.before.skim(0..BEFORE)?;
        stay_on_node(1)?;
        file.read_all()?;
        stay_on_node(0)?;
        others.after.skim(0..AFTER)?;
        file.read_all()?;
        let mapping = Mapping::of_file(&file.open()?, PAGES)?;
        mapping.check_pages(0..PAGES)?;
        let moved = mapping.move_to_node(PAGES, 0)?;
        ensure!(moved > PAGES * 9 / 10, "{moved} of {PAGES} pages moved");
        Ok(())
    })?;
    others.check_oldest(&cgroup, &file)
}

/// The hits wait in the ring of a processor while large folios are split.
fn split_after_hit(_: &Lab) -> Outcome {
    const PAGES: u64 = 512;
    let file = TestFile::create("whole", PAGES)?;
    let bytes: Vec<u8> = (0..PAGES).flat_map(page_content).collect();
    let others = Others::create()?;
    let cgroup = Cgroup::create("whole", None)?;
    let _attached = policy::attach("lru", &cgroup)?;
    child::run(&cgroup, || {
        child::stay_on_one_cpu()?;
        others.before.skim(0..BEFORE)?;
        let descriptor = file.open()?;
        descriptor.write_all_at(&bytes, 0).context(|| "write".into())?;
        descriptor.sync_all().context(|| "fsync".into())?;
        others.after.skim(0..AFTER)?;
        file.read_all()
    })?;
    split(&file)?;
    others.check_oldest(&cgroup, &file)
}

/// Fewer hits than fill half of a processor's ring, from where on they are moved anyway.
fn added_after_hits(_: &Lab) -> Outcome {
    const HIT: u64 = 96;
    const ADDED: u64 = 64;
    let (hit, added) = (TestFile::sparse("hit", HIT)?, TestFile::sparse("added", ADDED)?);
    let cgroup = Cgroup::create("later", None)?;
    let _attached = policy::attach("mru", &cgroup)?;
    child::run(&cgroup, || {
        // The request drains the batch of this processor alone: what is in others stays.
        child::stay_on_one_cpu()?;
        hit.skim(0..HIT)?;
        hit.skim(0..HIT)?;
        added.skim(0..ADDED)?;
        cgroup.write("memory.reclaim", &(ADDED * PAGE as u64).to_string())
    })?;
    let (left, others) = (hit.cached_pages()?, added.cached_pages()?);
    ensure!(
        left >= HIT * 7 / 8 && others <= ADDED / 8,
        "{left} of {HIT} pages that were hit are left, {others} of {ADDED} that came later"
    );
    Ok(format!("{left} of {HIT} pages that were hit are left, {others} of those that came later"))
}
