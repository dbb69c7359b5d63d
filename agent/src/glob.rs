// SPDX-License-Identifier: Apache-2.0
//! Globs of cgroups and of commands.

use std::ffi::CString;

/// Whether wildcards match a slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slash {
    /// Neither `*` nor `?` nor brackets match a slash, as in paths.
    Apart,
    /// A slash is a character like any other.
    Ordinary,
}

/// Whether `text` matches `pattern` by fnmatch(3), which compares bytes. Nothing matches if one of
/// them has a NUL byte.
///
/// This is the C library's function and not the crate globset, which has another syntax. There `**`
/// matches slashes and `{a,b}` is a choice, so that patterns of existing configurations would mean
/// other cgroups, and a bracket without its end is an error and no character.
#[must_use]
pub fn matches(pattern: &str, text: &str, slash: Slash) -> bool {
    let (Ok(pattern), Ok(text)) = (CString::new(pattern), CString::new(text)) else {
        return false;
    };
    let flags = match slash {
        Slash::Apart => libc::FNM_PATHNAME,
        Slash::Ordinary => 0,
    };
    // SAFETY: both arguments are C strings.
    unsafe { libc::fnmatch(pattern.as_ptr(), text.as_ptr(), flags) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pattern, text, whether it matches with slashes apart, and with ordinary ones.
    const CASES: &[(&str, &str, bool, bool)] = &[
        ("*", "", true, true),
        ("*", ".a", true, true),
        ("*", "a/b", false, true),
        ("*/*", "a/b", true, true),
        ("**", "a/b", false, true),
        ("a/**", "a/b/c", false, true),
        ("**/b", "b", false, false),
        ("**/b", "a/c/b", false, true),
        ("a?b", "a/b", false, true),
        ("a[/]b", "a/b", false, true),
        ("a[!x]b", "a/b", false, true),
        ("[!a]", "b", true, true),
        ("[^a]", "a", false, false),
        ("[]a]", "]", true, true),
        ("[a-c]-1", "b-1", true, true),
        ("[c-a]", "b", false, false),
        ("[[:digit:]]", "5", true, true),
        ("[[:digit:]]", ":]", false, false),
        ("[\\]]", "]", true, true),
        ("a[", "a[", true, true),
        ("a]", "a]", true, true),
        ("\\*", "*", true, true),
        ("\\*", "a", false, false),
        ("a\\", "a\\", false, false),
        ("{a,b}", "a", false, false),
        ("{a,b}", "{a,b}", true, true),
        ("?", "é", false, false),
        ("??", "é", true, true),
        ("A", "a", false, false),
        ("a*", "a\0b", false, false),
        ("a\0", "a", false, false),
    ];

    #[test]
    fn patterns_mean_what_fnmatch_makes_of_them() {
        for &(pattern, text, apart, ordinary) in CASES {
            let found = [Slash::Apart, Slash::Ordinary].map(|slash| matches(pattern, text, slash));
            assert_eq!(found, [apart, ordinary], "{pattern:?} {text:?}");
        }
    }
}
