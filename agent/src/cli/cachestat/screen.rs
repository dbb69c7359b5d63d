// SPDX-License-Identifier: Apache-2.0
//! Shows a report: on a terminal in place of the previous one, otherwise below it.

use std::io::{self, IsTerminal, Write};

/// Moves the cursor to the upper left corner. The other two erase the rest of a line, and
/// everything below it.
const HOME: &str = "\x1b[H";
const ERASE_LINE: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";
/// Size that is assumed for a terminal that does not report its own.
const ROWS: usize = 24;
const COLUMNS: usize = 80;

/// Whether reports replace one another.
pub fn is_live() -> bool {
    io::stdout().is_terminal()
}

/// Shows a report of any number of lines.
pub fn show(text: &str, out: &mut impl Write) -> io::Result<()> {
    match size() {
        Some((rows, columns)) => out.write_all(frame(text, rows, columns).as_bytes()),
        None => writeln!(out, "{text}"),
    }
}

/// The part of the text that fits on a screen, with one row left for the cursor.
fn frame(text: &str, rows: usize, columns: usize) -> String {
    let mut frame = HOME.to_owned();
    for line in text.lines().take(rows.saturating_sub(1).max(1)) {
        frame.extend(line.chars().take(columns));
        frame += ERASE_LINE;
        frame.push('\n');
    }
    frame + ERASE_BELOW
}

/// Rows and columns of the terminal at stdout; `None` if stdout is not a terminal.
fn size() -> Option<(usize, usize)> {
    if !is_live() {
        return None;
    }
    // SAFETY: an all-zero `winsize` is valid.
    let mut found: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the request writes one `winsize`.
    let told = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut found) };
    match (told, usize::from(found.ws_row), usize::from(found.ws_col)) {
        (0, rows, columns) if rows > 0 && columns > 0 => Some((rows, columns)),
        _ => Some((ROWS, COLUMNS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_the_screen_and_erases_what_was_there() {
        let text = "first line\nsecond ▁▂▃▄\nthird\nfourth\n";
        let shown = frame(text, 3, 9);
        assert_eq!(shown, "\x1b[Hfirst lin\x1b[K\nsecond ▁▂\x1b[K\n\x1b[J");
        assert_eq!(frame("one\n", 24, 80), "\x1b[Hone\x1b[K\n\x1b[J");
    }
}
