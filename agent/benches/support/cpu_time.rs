// SPDX-License-Identifier: Apache-2.0
//! What a piece of work costs.
#![allow(clippy::unwrap_used)]

/// Time on a processor of this, the only thread: the first number of `schedstat`, nanoseconds.
fn on_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Seconds of processor time that `work` takes.
pub fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = on_cpu_ns();
    let result = work();
    ((on_cpu_ns() - start) as f64 / 1e9, result)
}
