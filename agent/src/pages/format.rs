// SPDX-License-Identifier: Apache-2.0
//! The text format of a list: a line `FIRST_PAGE PAGES PATH` for each range, with pages of 4 KiB in
//! decimal.

use super::{PAGE_BYTES, Range};
use crate::error::{Error, Result};
use std::ffi::OsStr;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The most ranges in a list.
pub const MOST_RANGES: u64 = 1 << 24;
/// The most bytes in a path, the kernel's limit.
pub const MOST_PATH_BYTES: usize = 4095;
/// The most bytes in a line, with its end: a path and two numbers of 20 digits.
pub const MOST_LINE_BYTES: usize = MOST_PATH_BYTES + 2 * (20 + 1) + 1;
/// Files have no page at or after this one.
const END_PAGE: u64 = i64::MAX as u64 / PAGE_BYTES;

/// Whether a list can name the file.
#[must_use]
pub fn can_name(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    path.is_absolute() && bytes.len() <= MOST_PATH_BYTES && !bytes.contains(&b'\n')
}

/// A range and its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The pages.
    pub range: Range,
    /// The file; absolute.
    pub path: &'a Path,
}

impl<'a> Line<'a> {
    /// Parses a line without its end.
    ///
    /// # Errors
    /// Returns the mistake in it.
    pub fn parse(line: &'a [u8]) -> std::result::Result<Self, &'static str> {
        const FORM: &str = "expected FIRST_PAGE PAGES PATH, with one blank between";
        let (Range { first, pages }, path) = parts(line).ok_or(FORM)?;
        if pages == 0 {
            return Err("a range has at least one page");
        }
        if first.checked_add(pages).is_none_or(|end| end > END_PAGE) {
            return Err("no file is as large as this");
        }
        let path = Path::new(OsStr::from_bytes(path));
        if !can_name(path) {
            return Err("expected an absolute path of at most 4095 bytes");
        }
        Ok(Self { range: Range { first, pages }, path })
    }
}

/// The two numbers of a line, unchecked, and the rest of it.
#[must_use]
pub fn parts(line: &[u8]) -> Option<(Range, &[u8])> {
    let mut words = line.splitn(3, |&byte| byte == b' ');
    let (first, pages) = (number(words.next()?)?, number(words.next()?)?);
    Some((Range { first, pages }, words.next()?))
}

/// A decimal number without a sign.
#[must_use]
pub fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

/// Writes a list.
#[derive(Debug)]
pub struct ListWriter<W> {
    out: W,
    room: u64,
}

impl<W: Write> ListWriter<W> {
    /// Writes a list of at most [`MOST_RANGES`].
    pub fn new(out: W) -> Self {
        Self { out, room: MOST_RANGES }
    }

    /// Adds a range of a file that a list can name. Returns `false` if the list is full.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn write(&mut self, line: Line<'_>) -> io::Result<bool> {
        if self.room == 0 {
            return Ok(false);
        }
        self.room -= 1;
        write!(self.out, "{} {} ", line.range.first, line.range.pages)?;
        self.out.write_all(line.path.as_os_str().as_bytes())?;
        self.out.write_all(b"\n")?;
        Ok(true)
    }

    /// Writes what is still buffered.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Reads a list line by line.
#[derive(Debug)]
pub struct ListReader<R> {
    input: R,
    name: PathBuf,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> ListReader<R> {
    /// Reads a list for which errors use `name`.
    pub fn new(input: R, name: &Path) -> Self {
        Self { input, name: name.into(), line: Vec::new(), number: 0 }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// Returns an error with the number of a line that is not of the format, or the error of the
    /// operating system.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>> {
        self.line.clear();
        let mut bounded = (&mut self.input).take(MOST_LINE_BYTES as u64);
        bounded.read_until(b'\n', &mut self.line).map_err(Error::io(&self.name))?;
        if self.line.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let line = match self.line.strip_suffix(b"\n") {
            _ if self.number > MOST_RANGES => Err("a list has at most 16777216 ranges"),
            Some(line) => Line::parse(line),
            None if self.line.len() == MOST_LINE_BYTES => Err("the line is too long"),
            None => Err("the line has no end: the list is cut off"),
        };
        match line {
            Ok(line) => Ok(Some(line)),
            Err(why) => Err(Error::format(&self.name, format!("line {}: {why}", self.number))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &[u8]) -> String {
        let mut list = ListReader::new(text, Path::new("LIST"));
        loop {
            match list.next_line() {
                Ok(Some(_)) => {}
                Ok(None) => return String::new(),
                Err(error) => return error.to_string(),
            }
        }
    }

    #[test]
    fn a_line_that_is_not_of_the_format_is_named() {
        let form = "LIST: line 2: expected FIRST_PAGE PAGES PATH, with one blank between";
        for line in ["", "1", "1 2", "x 2 /f", "1 +2 /f", "1 -2 /f", "1  2 /f", " 1 2 /f"] {
            assert_eq!(refused(format!("0 1 /a b\n{line}\n").as_bytes()), form, "{line:?}");
        }
        for (line, why) in [
            ("7 0 /f\n", "a range has at least one page"),
            ("7 1 f\n", "expected an absolute path of at most 4095 bytes"),
            ("7 1 \n", "expected an absolute path of at most 4095 bytes"),
            ("7 18446744073709551615 /f\n", "no file is as large as this"),
            ("7 2251799813685248 /f\n", "no file is as large as this"),
            ("7 1 /f", "the line has no end: the list is cut off"),
        ] {
            assert_eq!(refused(line.as_bytes()), format!("LIST: line 1: {why}"));
        }
    }

    #[test]
    fn lines_have_a_bound() {
        let line = |bytes| format!("0 1 /{}\n", "x".repeat(bytes - 1));
        assert_eq!(refused(line(MOST_PATH_BYTES).as_bytes()), "");
        let why = refused(line(MOST_PATH_BYTES + 1).as_bytes());
        assert_eq!(why, "LIST: line 1: expected an absolute path of at most 4095 bytes");
        let why = refused(line(10 * MOST_LINE_BYTES).as_bytes());
        assert_eq!(why, "LIST: line 1: the line is too long");
    }

    #[test]
    fn a_list_has_a_bound() {
        let text = b"0 1 /f\n";
        let mut list = ListReader::new(&text[..], Path::new("LIST"));
        list.number = MOST_RANGES;
        let error = list.next_line().unwrap_err().to_string();
        assert_eq!(error, "LIST: line 16777217: a list has at most 16777216 ranges");
        let mut written = Vec::new();
        let mut list = ListWriter { out: &mut written, room: 1 };
        let line = Line::parse(b"0 1 /f").unwrap();
        assert_eq!([list.write(line).unwrap(), list.write(line).unwrap()], [true, false]);
        assert_eq!(written, text);
    }

    proptest! {
        #[test]
        fn a_written_line_is_read_back(
            first in 0..END_PAGE / 2, pages in 1..END_PAGE / 2, name in "[^\n\0]{0,40}"
        ) {
            let path = PathBuf::from(format!("/{name}"));
            let line = Line { range: Range { first, pages }, path: &path };
            let mut text = Vec::new();
            let mut list = ListWriter::new(&mut text);
            prop_assert!(list.write(line).unwrap());
            list.finish().unwrap();
            let mut list = ListReader::new(&text[..], Path::new("LIST"));
            prop_assert_eq!(list.next_line().unwrap(), Some(line));
            prop_assert_eq!(list.next_line().unwrap(), None);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut list = ListReader::new(&bytes[..], Path::new("LIST"));
            while let Ok(Some(line)) = list.next_line() {
                prop_assert!(line.range.end() <= END_PAGE && can_name(line.path));
            }
        }
    }
}
