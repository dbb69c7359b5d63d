// SPDX-License-Identifier: Apache-2.0
//! Files and memory mapped into this process.

use crate::error::{Context, Result, checked};
use crate::files::{PAGE, check_page};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

/// A mapping that is undone with this value.
#[derive(Debug)]
pub struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize, flags: i32, descriptor: i32) -> Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, descriptor, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()).context(|| "mmap".into());
        }
        Ok(Self { start: start.cast(), bytes })
    }

    /// So many pages of a file, shared.
    ///
    /// # Errors
    /// What the system says.
    pub fn of_file(file: &File, pages: u64) -> Result<Self> {
        Self::new(to_bytes(pages), libc::MAP_SHARED, file.as_raw_fd())
    }

    /// Memory of this process and the children that it forks, together.
    ///
    /// # Errors
    /// What the system says.
    pub fn shared(bytes: usize) -> Result<Self> {
        Self::new(bytes, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)
    }

    /// Memory of this process.
    ///
    /// # Errors
    /// What the system says.
    pub fn private(pages: u64) -> Result<Self> {
        Self::new(to_bytes(pages), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    /// Its first byte.
    #[must_use]
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    fn page(&self, page: u64) -> *mut u8 {
        assert!(to_bytes(page) < self.bytes, "page {page} is not mapped");
        self.start.wrapping_add(to_bytes(page))
    }

    /// Pages of a file that are read, without accessing them.
    ///
    /// # Errors
    /// What the system says.
    pub fn resident_pages(&self) -> Result<u64> {
        let mut pages = vec![0_u8; self.bytes / PAGE];
        // SAFETY: a byte for each page of the mapping.
        let result = unsafe { libc::mincore(self.start.cast(), self.bytes, pages.as_mut_ptr()) };
        checked(result, "mincore")?;
        Ok(pages.iter().map(|page| u64::from(page & 1)).sum())
    }

    /// Reads every page of a file and checks it.
    ///
    /// # Errors
    /// When data is wrong.
    pub fn check_pages(&self, pages: impl IntoIterator<Item = u64>) -> Result<()> {
        for page in pages {
            // SAFETY: the page is mapped, by the check in `page`.
            let content = unsafe { std::slice::from_raw_parts(self.page(page), PAGE) };
            check_page(page, content)?;
        }
        Ok(())
    }

    /// Writes a byte in the middle of every page.
    pub fn dirty_pages(&self, pages: impl IntoIterator<Item = u64>) {
        for page in pages {
            // SAFETY: the page is mapped, by the check in `page`.
            unsafe { self.page(page).wrapping_add(PAGE / 2).write_volatile(1) };
        }
    }

    /// Keeps it in memory.
    ///
    /// # Errors
    /// What the system says.
    pub fn lock(&self) -> Result<()> {
        // SAFETY: the range is mapped.
        checked(unsafe { libc::mlock(self.start.cast(), self.bytes) }, "mlock")?;
        Ok(())
    }

    /// Moves pages to a node; how many are there afterwards.
    ///
    /// # Errors
    /// What the system says.
    pub fn move_to_node(&self, pages: u64, node: i32) -> Result<u64> {
        let mut places: Vec<*mut u8> = (0..pages).map(|page| self.page(page)).collect();
        let nodes = vec![node; places.len()];
        let mut status = vec![-1_i32; places.len()];
        // SAFETY: the three arrays are of the length that is given.
        let result = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                places.len(),
                places.as_mut_ptr(),
                nodes.as_ptr(),
                status.as_mut_ptr(),
                2, // MPOL_MF_MOVE
            )
        };
        checked(result, "move_pages")?;
        Ok(status.iter().filter(|&&at| at == node).count() as u64)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nobody has references into it after this.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

fn to_bytes(pages: u64) -> usize {
    usize::try_from(pages).unwrap_or(usize::MAX).saturating_mul(PAGE)
}
