// SPDX-License-Identifier: Apache-2.0
//! What libbpf and the verifier say while a policy is loaded, kept instead of printed.

use libbpf_rs::{PrintLevel, set_print};
use std::sync::{Mutex, MutexGuard, PoisonError};

static MESSAGES: Mutex<String> = Mutex::new(String::new());

/// Line with which the verifier ends what it has to say of a program.
const TOTALS: &str = "processed ";

fn messages() -> MutexGuard<'static, String> {
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets what was said, and keeps what will be.
pub fn record() {
    messages().clear();
    set_print(Some((PrintLevel::Info, |_, text| messages().push_str(&text))));
}

/// States that it shows behind what it has to say.
const STATES: [&str; 2] = ["cur state:", "old state:"];

/// The verifier's last word, or else libbpf's.
#[must_use]
pub fn decisive() -> String {
    let text = messages().clone();
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.iter().position(|line| line.starts_with(TOTALS)).unwrap_or(lines.len());
    let is_word = |line: &&&str| !STATES.iter().any(|state| line.starts_with(state));
    lines[..end].iter().rfind(is_word).unwrap_or(&"").trim().to_owned()
}
