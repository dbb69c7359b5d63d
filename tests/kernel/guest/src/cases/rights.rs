// SPDX-License-Identifier: Apache-2.0
//! Who may have a policy decide over a cgroup, or have it watched.

use super::{Case, Lab, MIB, Once, Outcome, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::credentials::{self, NOBODY};
use crate::ensure;
use crate::error::{Context, Error, Result};
use crate::policy::{self, Attached};
use std::os::unix::fs::chown;

pub const CASES: &[Case] = &[
    case("a_policy_needs_the_right_to_write_the_cgroup", &[Once], attach),
    case("a_swap_needs_the_right_to_write_the_cgroup", &[Once], swap),
    case("watching_needs_the_right_to_write_the_cgroup", &[Once], watch),
];

const EACCES: &str = "Permission denied";

/// Runs a closure as somebody who may load programs, and is not root.
fn as_loader(work: impl FnOnce() -> Result<()>) -> Result<()> {
    let place = Cgroup::create("loader", None)?;
    child::run(&place, || {
        credentials::become_loader()?;
        work()
    })
}

/// Hands a cgroup over, as its file system lets it be done.
fn delegate(cgroup: &Cgroup) -> Result<()> {
    for file in ["", "/cgroup.procs"] {
        let path = cgroup.path() + file;
        chown(&path, Some(NOBODY), Some(NOBODY)).context(|| path.clone())?;
    }
    Ok(())
}

fn check_denied<T>(outcome: Result<T>, what: &str) -> Result<()> {
    match outcome {
        Ok(_) => Err(Error::Check(format!("{what} was not refused"))),
        Err(error) => {
            ensure!(error.to_string().contains(EACCES), "{what}: {error}");
            Ok(())
        }
    }
}

fn attach(_: &Lab) -> Outcome {
    let cgroup = Cgroup::create("owned", Some(8 * MIB))?;
    as_loader(|| check_denied(policy::attach("fifo", &cgroup), "attaching"))?;
    delegate(&cgroup)?;
    as_loader(|| policy::attach("fifo", &cgroup).map(|_| ()))?;
    policy::attach("fifo", &cgroup)?;
    Ok("refused to strangers".into())
}

/// The link is root's, who has left it to somebody else.
fn swap(_: &Lab) -> Outcome {
    let cgroup = Cgroup::create("lent", Some(8 * MIB))?;
    let mut attached = policy::attach("fifo", &cgroup)?;
    let swap = |attached: &mut Attached| attached.swap_to("mru", &cgroup).map(|_| ());
    as_loader(|| check_denied(swap(&mut attached), "swapping"))?;
    let stat = cgroup.stat()?;
    ensure!(stat.text("policy") == "fifo" && stat.get("swaps") == 0, "swapped: {stat:?}");
    delegate(&cgroup)?;
    as_loader(|| swap(&mut attached))?;
    swap(&mut attached)?;
    Ok("refused to strangers".into())
}

fn watch(_: &Lab) -> Outcome {
    let cgroup = Cgroup::create("watched", None)?;
    let id = cgroup.id()?;
    let run = |program: &str| policy::run_program("watching", program, id);
    as_loader(|| check_denied(run("watch"), "watching"))?;
    run("watch")?;
    as_loader(|| check_denied(run("unwatch"), "ending it"))?;
    delegate(&cgroup)?;
    as_loader(|| run("unwatch").and_then(|()| run("watch")))?;
    run("unwatch")?;
    Ok("refused to strangers".into())
}
