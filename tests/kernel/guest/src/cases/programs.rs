// SPDX-License-Identifier: Apache-2.0
//! Reclaim that programs ask for.

use super::{Case, Lab, Once, Outcome, PAGES_PER_MIB, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::credentials;
use crate::ensure;
use crate::error::Result;
use crate::files::TestFile;
use crate::policy;

pub const CASES: &[Case] = &[case("a_program_reclaims_pages_of_a_cgroup", &[Once], reclaimed)];

fn reclaimed(_: &Lab) -> Outcome {
    let file = TestFile::sparse("reclaimed", 8 * PAGES_PER_MIB)?;
    let cgroup = Cgroup::create("reclaimed", None)?;
    let _attached = policy::attach("fifo", &cgroup)?;
    child::run(&cgroup, || file.skim(0..file.pages))?;
    let id = cgroup.id()?;
    let run = |program: &str| policy::run_program("reclaiming", program, id);
    let refused = |outcome: Result<()>, code: i32| {
        let said = outcome.err().map(|error| error.to_string()).unwrap_or_default();
        let wanted = format!("os error {code}");
        ensure!(said.contains(&wanted), "{said:?} does not say {wanted}");
        Ok(())
    };
    child::run(&Cgroup::create("stranger", None)?, || {
        credentials::become_loader()?;
        refused(run("reclaim_512"), libc::EACCES)
    })?;
    refused(run("reclaim_too_many"), libc::E2BIG)?;
    ensure!(file.cached_pages()? == file.pages, "refused calls reclaimed something");
    run("reclaim_512")?;
    let gone = file.pages - file.cached_pages()?;
    let stat = cgroup.stat()?;
    ensure!(
        stat.get("program_requests") == 1 && stat.get("program_pages") == gone,
        "{gone} pages went: {stat:?}"
    );
    ensure!(stat.get("reclaimed_pages") == gone, "the policy did not choose all: {stat:?}");
    Ok(format!("{gone} pages"))
}
