// SPDX-License-Identifier: Apache-2.0
//! Messages of libbpf and the verifier during a load, stored instead of printed.

use libbpf_rs::{PrintLevel, set_print};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

static MESSAGES: Mutex<String> = Mutex::new(String::new());
static RECORDING: Mutex<()> = Mutex::new(());

const BEGIN: &str = "': -- BEGIN PROG LOAD LOG --\n";
const END: &str = "-- END PROG LOAD LOG --";
/// Start of the last line of a verifier log, and of the line about the stack.
const TOTALS: &str = "processed ";
const STACK: &str = "stack depth ";

/// Stores all messages of libbpf while it exists.
pub struct Recording {
    _alone: MutexGuard<'static, ()>,
}

impl Recording {
    /// Starts to record. Waits until another recording ends.
    #[must_use]
    pub fn start() -> Self {
        let alone = RECORDING.lock().unwrap_or_else(PoisonError::into_inner);
        set_print(Some((PrintLevel::Debug, |level, text| {
            // Of the debug messages, only the verifier's logs are stored.
            if level != PrintLevel::Debug || text.contains(BEGIN) {
                messages().push_str(&text);
            }
        })));
        let recording = Self { _alone: alone };
        recording.restart();
        recording
    }

    /// Deletes the messages so far.
    pub fn restart(&self) {
        messages().clear();
    }

    /// The messages since the start.
    #[must_use]
    pub fn text(&self) -> String {
        messages().clone()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        set_print(None);
    }
}

fn messages() -> MutexGuard<'static, String> {
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The verifier's log of each program in `text`, with the name of the program.
fn logs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(BEGIN).zip(text.split(BEGIN).skip(1)).map(|(before, after)| {
        let program = before.rsplit('\'').next().unwrap_or_default();
        (program, after.split(END).next().unwrap_or_default())
    })
}

/// Bytes of stack of each accepted program. The sizes of its functions are added up, as the
/// verifier does for the deepest chain of calls: `8+16` is 24.
#[must_use]
pub fn stack_bytes(text: &str) -> BTreeMap<String, u32> {
    let depth = |log: &str| {
        let line = log.lines().find_map(|line| line.strip_prefix(STACK))?;
        line.trim().split('+').map(|part| part.parse::<u32>().ok()).sum::<Option<u32>>()
    };
    logs(text).filter_map(|(program, log)| Some((program.to_owned(), depth(log)?))).collect()
}

/// The last lines, at most `most`, that explain why a load failed. Each begins with the program's
/// name if it is known.
#[must_use]
pub fn decisive(text: &str, most: usize) -> Vec<String> {
    let Some((program, log)) = logs(text).last() else {
        let lines = text.lines().map(|line| line.trim_start_matches("libbpf: "));
        return tail(lines.filter(|line| !line.starts_with("failed to load")), "", most);
    };
    let lines = log.lines().filter(|l| !l.starts_with(TOTALS) && !l.starts_with(STACK));
    let lines = lines.filter(|l| !l.starts_with("verification time"));
    tail(lines, &format!("{program}: "), most)
}

fn tail<'a>(lines: impl Iterator<Item = &'a str>, prefix: &str, most: usize) -> Vec<String> {
    let lines: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
    let first = lines.len().saturating_sub(most);
    lines[first..].iter().map(|line| format!("{prefix}{}", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: &str = "\
libbpf: prog 'lfu_init': BPF program load failed: Invalid argument
libbpf: prog 'lfu_init': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
; int lfu_init @ policy.bpf.c:20
0: (79) r1 = *(u64 *)(r1 +0)
calling kernel function bpf_nope is not allowed
processed 1 insns (limit 1000000) max_states_per_insn 0 total_states 0
-- END PROG LOAD LOG --
libbpf: prog 'lfu_init': failed to load: -22
libbpf: failed to load object 'lfu'
";
    const ACCEPTED: &str = "\
libbpf: prog 'lfu_init': -- BEGIN PROG LOAD LOG --
verification time 91 usec
stack depth 8
processed 21 insns (limit 1000000) max_states_per_insn 0 total_states 1
-- END PROG LOAD LOG --
libbpf: prog 'lfu_evict_folios': -- BEGIN PROG LOAD LOG --
stack depth 40+0+16
-- END PROG LOAD LOG --
";

    #[test]
    fn the_last_words_before_the_totals_decide() {
        assert_eq!(
            decisive(REFUSED, 1),
            ["lfu_init: calling kernel function bpf_nope is not allowed"]
        );
        assert_eq!(decisive(REFUSED, 2)[0], "lfu_init: 0: (79) r1 = *(u64 *)(r1 +0)");
        assert_eq!(decisive(REFUSED, 99).len(), 4);
    }

    #[test]
    fn without_a_log_libbpf_decides() {
        let text = "libbpf: struct cache_ext_ops is not found in kernel BTF\n\
                    libbpf: failed to load object 'lfu'\n";
        assert_eq!(decisive(text, 1), ["struct cache_ext_ops is not found in kernel BTF"]);
        assert_eq!(decisive("", 1), Vec::<String>::new());
    }

    #[test]
    fn stacks_are_added_up_along_calls() {
        let stacks = stack_bytes(ACCEPTED);
        let expected = [("lfu_evict_folios".to_owned(), 56), ("lfu_init".to_owned(), 8)];
        assert_eq!(stacks, BTreeMap::from(expected));
        assert_eq!(stack_bytes(REFUSED), BTreeMap::new());
    }
}
