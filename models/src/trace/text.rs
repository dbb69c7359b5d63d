// SPDX-License-Identifier: Apache-2.0
//! Parsing and display of values in the text of a trace.

use crate::hash::page_hash;

/// Largest number of characters of a value in a message.
const SHOWN_CHARS: usize = 40;

/// Returns a text from the file in a form that is safe to print within one line.
pub(super) fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name.trim_ascii());
    let mut out: String = text.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARS).is_some() {
        out.push('…');
    }
    out
}

/// Parses `text`, without surrounding spaces, as a decimal number. Returns `None` if it is anything
/// else or does not fit.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    digits(text.trim_ascii(), 10)
}

/// Returns the page key of a CSV value. Unsigned decimal and `0x` hexadecimal values that fit 64
/// bits are the key themselves (so `7`, `007` and `0x7` are one page). Anything else gives
/// [`text_key`].
pub(super) fn key_of(value: &[u8]) -> u64 {
    let number = match value {
        [b'0', b'x' | b'X', hex @ ..] => digits(hex, 16),
        decimal => digits(decimal, 10),
    };
    number.unwrap_or_else(|| text_key(value))
}

fn digits(text: &[u8], radix: u32) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, &byte| {
        let digit = char::from(byte).to_digit(radix)?;
        number.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))
    })
}

/// Returns a 64-bit hash of a text: [`page_hash`] chained over its length and its zero-padded
/// 8-byte words. Two of n distinct texts share a key with a probability of about n^2 / 2^65.
pub(super) fn text_key(text: &[u8]) -> u64 {
    text.chunks(8).fold(page_hash(text.len() as u64), |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        page_hash(hash ^ u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_are_their_own_key() {
        for (text, key) in [
            ("0", 0),
            ("7", 7),
            ("007", 7),
            ("0x7", 7),
            ("0XfF", 255),
            ("18446744073709551615", u64::MAX),
            ("0xffffffffffffffff", u64::MAX),
        ] {
            assert_eq!(key_of(text.as_bytes()), key, "{text}");
        }
    }

    #[test]
    fn anything_else_is_hashed() {
        let texts =
            ["18446744073709551616", "-1", "+1", "1.5", "0x", "0xg", "/a/b", "ab", "ab\0", "é"];
        let keys: HashSet<u64> = texts.iter().map(|text| key_of(text.as_bytes())).collect();
        assert_eq!(keys.len(), texts.len());
        for text in texts {
            assert_eq!(key_of(text.as_bytes()), text_key(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn decimal_takes_digits_alone() {
        assert_eq!(decimal(b" 42\t"), Some(42));
        for text in ["", " ", "-1", "+1", "0x7", "1.0", "1e3", "18446744073709551616", "1 2"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn text_keys_do_not_collide_on_paths() {
        let keys: HashSet<u64> =
            (0..200_000).map(|i| text_key(format!("/srv/data/{i}.sst").as_bytes())).collect();
        assert_eq!(keys.len(), 200_000);
    }

    #[test]
    fn names_are_shown_in_one_bounded_line() {
        assert_eq!(shown(b"a\nb"), "a\\nb");
        assert_eq!(shown(&[b'x'; 100]).chars().count(), SHOWN_CHARS + 1);
    }
}
