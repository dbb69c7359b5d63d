// SPDX-License-Identifier: Apache-2.0
//! Bounds readahead windows, as the kernel does in `mm/cache_ext/readahead.c`.

use super::native::WindowContext;

/// Largest number of pages in a window, unless the device's readahead is set to more.
const MAX_WINDOW: u64 = 512;
/// Largest number of blocks in a window.
const MAX_TIMES: u64 = 32;
/// A window takes at most one part in this many of the cache.
const LIMIT_SHARE: u64 = 4;

/// Blocks of pages to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub start: u64,
    pub size: u64,
    pub async_size: u64,
    pub stride: i64,
    pub times: u64,
}

/// Returns the largest number of pages of one window in a cache of `capacity` pages. A larger
/// window would evict its own pages.
pub(super) fn most_pages(context: &WindowContext, capacity: u64) -> u64 {
    u64::from(context.max_pages).max(MAX_WINDOW).min(capacity / LIMIT_SHARE).max(1)
}

impl Window {
    /// Returns the window in `context`, as the policy left it, reduced to the bounds of a cache of
    /// `capacity` pages.
    pub(super) fn bounded(context: &WindowContext, capacity: u64) -> Self {
        let mut window = Self { start: context.index, size: 0, async_size: 0, stride: 0, times: 0 };
        let end = context.file_pages;
        if context.start >= end || context.size == 0 {
            return window;
        }
        let most = most_pages(context, capacity);
        window.start = context.start;
        window.size = u64::from(context.size).min(most).min(end - context.start);
        window.times = 1;
        let distance = context.stride.unsigned_abs();
        if context.times > 1 && distance < end && distance >= window.size {
            window.stride = context.stride;
            window.times = u64::from(context.times).min(MAX_TIMES).min(most / window.size).max(1);
        }
        window.async_size = u64::from(context.async_size).min(window.size * window.times);
        window
    }

    /// Returns whether the window is a single block that includes page `index`.
    pub(super) fn covers(&self, index: u64) -> bool {
        self.times == 1 && index >= self.start && index - self.start < self.size
    }

    /// Returns the pages of the window within a file of `end` pages, block by block. The second
    /// value says whether the page has the mark.
    pub(super) fn pages(self, end: u64) -> impl Iterator<Item = (u64, bool)> {
        let mark = self.size * self.times - self.async_size;
        let starts = (0..self.times as i64)
            .map(move |block| self.start.checked_add_signed(block.saturating_mul(self.stride)));
        let blocks = starts.map_while(|start| start).enumerate();
        blocks.flat_map(move |(block, start)| {
            let first = block as u64 * self.size;
            (0..self.size)
                .map(move |offset| (start.saturating_add(offset), first + offset == mark))
                .filter(move |(page, _)| *page < end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> WindowContext {
        WindowContext { index: 50, file_pages: 1000, max_pages: 32, ..WindowContext::default() }
    }

    #[test]
    fn the_mark_is_on_the_first_of_the_last_pages_whatever_the_blocks() {
        let told =
            WindowContext { start: 100, size: 2, async_size: 6, stride: 20, times: 5, ..context() };
        let window = Window::bounded(&told, 10_000);
        let pages: Vec<u64> = window.pages(1000).map(|(page, _)| page).collect();
        assert_eq!(pages, [100, 101, 120, 121, 140, 141, 160, 161, 180, 181]);
        let marked: Vec<u64> = window.pages(1000).filter(|p| p.1).map(|(page, _)| page).collect();
        assert_eq!(marked, [140]);
    }

    #[test]
    fn nonsense_is_bounded() {
        let huge = WindowContext {
            start: 10,
            size: u32::MAX,
            async_size: u32::MAX,
            stride: 1,
            times: u32::MAX,
            ..context()
        };
        let window = Window::bounded(&huge, 10_000);
        assert_eq!((window.size, window.times, window.async_size), (512, 1, 512));
        assert_eq!(Window::bounded(&huge, 100).size, 25, "a quarter of the cache");
        let outside = WindowContext { start: u64::MAX, size: 8, ..context() };
        assert_eq!(Window::bounded(&outside, 100).size, 0);
        let far = WindowContext { start: 1, size: 1, stride: i64::MIN, times: 9, ..context() };
        assert_eq!(Window::bounded(&far, 100).times, 1);
        let back = WindowContext { start: 5, size: 1, stride: -3, times: 9, ..context() };
        let pages: Vec<u64> = Window::bounded(&back, 100).pages(1000).map(|p| p.0).collect();
        assert_eq!(pages, [5, 2]);
    }
}
