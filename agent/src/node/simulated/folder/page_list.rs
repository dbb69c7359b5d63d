// SPDX-License-Identifier: Apache-2.0
//! A list of pages as text: one range per line, `FIRST_PAGE PAGES PATH`, the least recently used
//! first. Pages have 4 KiB; the path is the rest of the line and may contain blanks. The pages of a
//! simulation belong to no file, so the path is written but not read.

use super::files::Told;
use crate::pages::Range;
use crate::pages::format::parts;

/// The greatest size of a list: two million pages that are not adjacent (8 GiB), and more if they
/// are.
pub(super) const MAX_LIST_BYTES: u64 = 64 << 20;

/// The content of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageList {
    /// Pages in the order of the list; empty if there are too many.
    pub(super) keys: Vec<u64>,
    /// Number of pages; the largest number represents all greater ones.
    pub(super) pages: u64,
}

/// The text for these pages. If it would be too long, it has the last ones, which were used most
/// recently.
pub(super) fn text(keys: &[u64], path: &str) -> String {
    let mut ranges: Vec<Range> = Vec::new();
    for &key in keys {
        match ranges.last_mut() {
            Some(last) if last.first.checked_add(last.pages) == Some(key) => last.pages += 1,
            _ => ranges.push(Range { first: key, pages: 1 }),
        }
    }
    let mut left = MAX_LIST_BYTES as usize;
    let fits = |range: &&Range| {
        let length = digits(range.first) + digits(range.pages) + path.len() + "  \n".len();
        let enough = length <= left;
        left = left.saturating_sub(length);
        enough
    };
    let taken = ranges.iter().rev().take_while(fits).count();
    let mut text = String::new();
    for Range { first, pages } in &ranges[ranges.len() - taken..] {
        text.push_str(&format!("{first} {pages} {path}\n"));
    }
    text
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Parses a list. From the line at which there are more than `most_pages`, pages are only counted,
/// as a short line may represent any number of them.
///
/// # Errors
/// Returns the number of the first line that is not of the format.
pub(super) fn parse(text: &[u8], most_pages: u64) -> Told<PageList> {
    let mut list = PageList { keys: Vec::new(), pages: 0 };
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    if text.is_empty() {
        return Ok(list);
    }
    for (i, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let Some(Range { first, pages }) = range(line) else {
            return Err(format!("line {}: not of the form FIRST_PAGE PAGES PATH", i + 1));
        };
        list.pages = list.pages.saturating_add(pages);
        if list.pages <= most_pages {
            list.keys.extend(first..=first + (pages - 1));
        } else {
            list.keys = Vec::new();
        }
    }
    Ok(list)
}

fn range(line: &[u8]) -> Option<Range> {
    let (range, path) = parts(line)?;
    let is_range = range.first.checked_add(range.pages.checked_sub(1)?).is_some();
    (!path.is_empty() && is_range).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(text: &str) -> Vec<u64> {
        parse(text.as_bytes(), u64::MAX).unwrap().keys
    }

    #[test]
    fn neighbours_share_a_line_where_the_order_stays() {
        let order = [7, 8, 9, 3, 2, 1, u64::MAX];
        let written = text(&order, "/a b");
        assert_eq!(
            written,
            "7 3 /a b\n3 1 /a b\n2 1 /a b\n1 1 /a b\n18446744073709551615 1 /a b\n"
        );
        assert_eq!(keys(&written), order);
        assert_eq!((text(&[], "/a"), keys("")), (String::new(), vec![]));
        assert_eq!(
            keys("1 2 /a\n9 1  \u{e9} x"),
            [1, 2, 9],
            "any path, and an end without a break"
        );
    }

    #[test]
    fn an_invalid_list_is_refused_with_the_number_of_the_line() {
        for line in [
            "x 1 /a",
            "1 x /a",
            "1 /a",
            "1 1",
            "1 1 ",
            "1  1 /a",
            " 1 1 /a",
            "+1 1 /a",
            "1 -1 /a",
            "1 0 /a",
            "",
            "18446744073709551615 2 /a",
            "18446744073709551616 1 /a",
        ] {
            let text = format!("1 1 /a\n{line}\n2 1 /a\n");
            let message = parse(text.as_bytes(), 10).unwrap_err();
            assert!(message.starts_with("line 2: "), "{line:?}: {message}");
        }
    }

    #[test]
    fn too_many_pages_are_counted_and_not_kept() {
        let list = parse(b"1 3 /a\n5 2 /a\n", 4).unwrap();
        assert_eq!(list, PageList { keys: vec![], pages: 5 });
        let list = parse(b"0 18446744073709551615 /a\n0 18446744073709551615 /a\n", 4).unwrap();
        assert_eq!(list, PageList { keys: vec![], pages: u64::MAX });
    }

    #[test]
    fn a_long_list_loses_its_beginning() {
        let path = "x".repeat(1 << 20);
        let apart: Vec<u64> = (0..100).map(|i| 2 * i).collect();
        let written = text(&apart, &path);
        assert!(written.len() as u64 <= MAX_LIST_BYTES);
        assert_eq!(keys(&written), apart[100 - 63..]);
    }

    proptest! {
        #[test]
        fn a_written_list_is_read_back(order in prop::collection::vec(0u64..20, 0..100)) {
            prop_assert_eq!(keys(&text(&order, "/a")), order);
        }
    }
}
