// SPDX-License-Identifier: Apache-2.0
//! Whether the log is coloured.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};

/// Whether lines on stderr may have colours: on a terminal, unless `NO_COLOR` is set
/// (<https://no-color.org>).
pub fn of_stderr() -> bool {
    may_colour(io::stderr().is_terminal(), env::var_os("NO_COLOR").as_deref())
}

fn may_colour(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_without_no_color_has_colours() {
        assert!(may_colour(true, None));
        assert!(may_colour(true, Some(OsStr::new(""))));
        assert!(!may_colour(true, Some(OsStr::new("1"))));
        assert!(!may_colour(false, None));
    }
}
