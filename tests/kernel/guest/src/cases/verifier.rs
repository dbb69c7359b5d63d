// SPDX-License-Identifier: Apache-2.0
//! What cannot be loaded or attached.

use super::{Case, Lab, Once, Outcome, case};
use crate::cgroup::Cgroup;
use crate::ensure;
use crate::error::{Context, Error, Result, read_text};
use crate::hostile::{Handle, Mode};
use crate::policy::{self, Policy};
use std::fs;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    case("a_number_is_no_folio", &[Once], number),
    case("hooks_do_not_sleep", &[Once], sleeping),
    case("functions_are_for_policies_only", &[Once], outsider),
    case("what_repeats_instructions_uncounted_is_refused", &[Once], uncounted),
    case("a_hook_of_very_many_instructions_is_refused", &[Once], long_hook),
    case("a_hook_that_runs_in_a_row_is_shorter", &[Once], long_in_a_row),
    case("a_hook_that_copies_long_values_is_refused", &[Once], copying),
    case("a_hook_whose_maps_take_long_is_refused", &[Once], slow_maps),
    case("init_and_exit_of_very_many_instructions_are_refused", &[Once], long_ends),
    case("init_that_takes_long_ends_in_time", &[Once], slow_steps),
    case("the_context_of_a_decision_cannot_be_forged", &[Once], forged),
    case("a_readahead_policy_does_not_print", &[Once], printing),
    case("counts_need_a_place", &[Once], nowhere),
    case("shipped_policies_are_short_enough", &[Once], shipped),
    case("a_policy_needs_a_hook_that_does_something", &[Once], incomplete),
    case("a_failing_init_attaches_nothing", &[Once], failing_init),
    case("a_cgroup_that_is_not_there_is_refused", &[Once], no_cgroup),
    case("a_second_policy_is_refused", &[Once], second),
    case("a_swap_to_another_cgroup_is_refused", &[Once], other_cgroup),
];

fn refused<T>(outcome: Result<T>, what: &str) -> Outcome {
    match outcome {
        Ok(_) => Err(Error::Check(format!("{what} was not refused"))),
        Err(error) => Ok(error.to_string()),
    }
}

/// It is refused, and for the reason that is meant.
fn refused_for<T>(reason: &str, outcome: Result<T>, what: &str) -> Outcome {
    let said = refused(outcome, what)?;
    ensure!(said.contains(reason), "refused, but not for {reason:?}: {said}");
    Ok(said)
}

fn load_refused(name: &str, reason: &str) -> Outcome {
    let cgroup = Cgroup::create("refused", None)?;
    refused_for(reason, policy::load(name, &cgroup), name)
}

fn number(_: &Lab) -> Outcome {
    load_refused("number_as_folio", "untrusted_ptr")
}

fn sleeping(_: &Lab) -> Outcome {
    load_refused("sleeping", "sleep")
}

fn outsider(_: &Lab) -> Outcome {
    load_refused("outsider", "not allowed")
}

/// Objects of tests/kernel/policies/unbounded, and what the verifier's log names.
const UNBOUNDED: [(&str, &str); 12] = [
    ("unbounded_iterator", "bpf_iter_num_new"),
    ("unbounded_init", "bpf_iter_num_new"),
    ("unbounded_may_goto", "may_goto"),
    ("unbounded_loop", "bpf_loop"),
    ("unbounded_elements", "bpf_for_each_map_elem"),
    ("unbounded_ring", "bpf_user_ringbuf_drain"),
    ("unbounded_tail_call", "bpf_tail_call"),
    ("unbounded_global", "global functions"),
    ("unbounded_print", "bpf_trace_printk"),
    ("unbounded_again", "too complex"),
    ("unbounded_sample", "too complex"),
    ("unbounded_renewed", "too complex"),
];

fn uncounted(_: &Lab) -> Outcome {
    let said = UNBOUNDED.map(|(name, reason)| load_refused(name, reason));
    let failed = said.iter().filter_map(|outcome| outcome.as_ref().err());
    let failed: Vec<String> = failed.map(ToString::to_string).collect();
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(said.into_iter().collect::<Result<Vec<_>>>()?.join("; "))
}

fn long_hook(_: &Lab) -> Outcome {
    all_refused(&["unbounded_long"])
}

/// They are loaded, but not attached.
fn all_refused(names: &[&str]) -> Outcome {
    let cgroup = Cgroup::create("long", None)?;
    let refuse = |name: &&str| attach_refused(policy::load(name, &cgroup)?, &cgroup, name);
    Ok(names.iter().map(refuse).collect::<Result<Vec<_>>>()?.join("; "))
}

/// What is called once, under mutexes of the whole host.
fn long_ends(_: &Lab) -> Outcome {
    all_refused(&["unbounded_long_init", "unbounded_long_exit", "unbounded_steps"])
}

/// What is called for hundreds of folios in a row with interrupts off.
fn long_in_a_row(_: &Lab) -> Outcome {
    all_refused(&["long_split", "unbounded_removed", "unbounded_counted"])
}

/// One instruction that copies as much as a map says.
fn copying(_: &Lab) -> Outcome {
    all_refused(&["unbounded_copies"])
}

fn slow_maps(_: &Lab) -> Outcome {
    all_refused(&["unbounded_keys", "unbounded_trie", "unbounded_filter"])
}

/// Its steps are few enough, but each has a thousand pages copied.
fn slow_steps(_: &Lab) -> Outcome {
    const TIMES: std::ops::Range<Duration> = Duration::from_millis(500)..Duration::from_secs(4);
    let cgroup = Cgroup::create("slow", None)?;
    let policy = policy::load("unbounded_slow_steps", &cgroup)?;
    let start = Instant::now();
    let said = attach_refused(policy, &cgroup, "a slow init")?;
    let took = start.elapsed();
    // Sooner it was refused for something else, later its steps were used up.
    ensure!(TIMES.contains(&took), "init took {took:?}: {said}");
    Ok(format!("{said} after {took:?}"))
}

fn prefetch_refused(name: &str, reason: &str) -> Outcome {
    let cgroup = Cgroup::create("refused", None)?;
    refused_for(reason, policy::load_prefetch(name, &cgroup), name)
}

fn forged(_: &Lab) -> Outcome {
    let stack = prefetch_refused("forged_window", "must point to")?;
    Ok(format!("{stack}; {}", prefetch_refused("forged_value", "must point to")?))
}

fn printing(_: &Lab) -> Outcome {
    prefetch_refused("printing_window", "bpf_trace_printk")
}

fn nowhere(_: &Lab) -> Outcome {
    load_refused("counting_nowhere", "NULL")
}

fn attach_refused(policy: Policy, cgroup: &Cgroup, what: &str) -> Outcome {
    let outcome = refused(policy.attach(), what);
    let stat = cgroup.stat()?;
    ensure!(stat.text("policy") == "none", "something was attached: {stat:?}");
    outcome
}

/// Most instructions that the verifier followed through one of the programs that are open here.
fn most_instructions() -> Result<u64> {
    let entries = fs::read_dir("/proc/self/fdinfo").context(|| "fdinfo".into())?;
    let texts = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let counts = texts.filter_map(|text| {
        let count = text.lines().find_map(|line| line.strip_prefix("verified_insns:"))?;
        count.trim().parse().ok()
    });
    Ok(counts.max().unwrap_or(0))
}

fn shipped(lab: &Lab) -> Outcome {
    let mut said = Vec::new();
    for entry in fs::read_dir(&lab.policies).context(|| "policies".into())?.flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix(".bpf.o") else { continue };
        let cgroup = Cgroup::create("shipped", None)?;
        let policy = policy::load(name, &cgroup)?;
        let most = most_instructions()?;
        policy.attach()?;
        said.push(format!("{name} {most}"));
    }
    ensure!(said.len() > 1, "there are no policies in {}", lab.policies.display());
    Ok(said.join(", "))
}

fn incomplete(_: &Lab) -> Outcome {
    let cgroup = Cgroup::create("incomplete", None)?;
    attach_refused(policy::load("incomplete", &cgroup)?, &cgroup, "a policy with init alone")
}

fn failing_init(_: &Lab) -> Outcome {
    let cgroup = Cgroup::create("failing", None)?;
    let mut said = String::new();
    for mode in [Mode::FailingInit, Mode::PositiveInit] {
        let policy = policy::load("hostile", &cgroup)?;
        Handle::of(&policy)?.set_mode(mode);
        said += &attach_refused(policy, &cgroup, &format!("{mode:?}"))?;
    }
    policy::attach("fifo", &cgroup)?;
    Ok(said)
}

fn no_cgroup(_: &Lab) -> Outcome {
    let cgroup = Cgroup::create("gone", None)?;
    let policy = policy::load("fifo", &cgroup)?;
    cgroup.remove()?;
    refused(policy.attach(), "a cgroup that was removed")?;
    refused(policy::load_for_id("fifo", u64::MAX)?.attach(), "a cgroup that never was")
}

fn second(_: &Lab) -> Outcome {
    let cgroup = Cgroup::create("second", None)?;
    let _first = policy::attach("fifo", &cgroup)?;
    let outcome = refused(policy::load("lru", &cgroup)?.attach(), "a second policy");
    ensure!(cgroup.stat()?.text("policy") == "fifo", "the first one is gone");
    outcome
}

fn other_cgroup(_: &Lab) -> Outcome {
    let (here, there) = (Cgroup::create("here", None)?, Cgroup::create("there", None)?);
    let mut attached = policy::attach("fifo", &here)?;
    let outcome = refused(attached.swap_to("lru", &there), "a swap to another cgroup");
    ensure!(here.stat()?.text("policy") == "fifo", "the first one is gone");
    ensure!(there.stat()?.text("policy") == "none", "the other cgroup has one");
    let root = read_text("/sys/fs/cgroup/memory.cache_ext")?;
    ensure!(root.starts_with("policy none"), "the root has a policy: {root}");
    outcome
}
