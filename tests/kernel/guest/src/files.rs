// SPDX-License-Identifier: Apache-2.0
//! Files on the scratch disk, whose pages say which they are, and how much of them is cached.

use crate::ensure;
use crate::error::{Context, Result, checked};
use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Where files are made.
pub const SCRATCH: &str = "/mnt/scratch";
/// Bytes of a page.
pub const PAGE: usize = 4096;

const CACHESTAT: libc::c_long = 451;
const WRITE_PAGES: u64 = 256;
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(1);

/// A file that goes away with this value. No descriptor of it is kept.
#[derive(Debug)]
pub struct TestFile {
    /// Where it is.
    pub path: PathBuf,
    /// Pages that were written.
    pub pages: u64,
}

fn stamp(page: u64) -> [u8; 8] {
    (page ^ 0x5eed_0000_0000_0000).to_ne_bytes()
}

/// What stands in a page.
#[must_use]
pub fn page_content(page: u64) -> [u8; PAGE] {
    let mut content = [0; PAGE];
    content[..8].copy_from_slice(&stamp(page));
    content[PAGE - 8..].copy_from_slice(&stamp(page));
    content
}

/// Fails unless the bytes are those of the page.
///
/// # Errors
/// When other data was read.
pub fn check_page(page: u64, content: &[u8]) -> Result<()> {
    let stamps = content.first_chunk::<8>().zip(content.last_chunk::<8>());
    ensure!(
        stamps == Some((&stamp(page), &stamp(page))),
        "page {page} was read with the wrong content"
    );
    Ok(())
}

impl TestFile {
    /// A file of so many pages, on disk and not cached.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(name: &str, pages: u64) -> Result<Self> {
        let made = Self { path: PathBuf::from(SCRATCH).join(name), pages };
        let what = || made.path.display().to_string();
        let file = File::create(&made.path).context(what)?;
        let mut at = 0;
        while at < pages {
            let until = (at + WRITE_PAGES).min(pages);
            let bytes: Vec<u8> = (at..until).flat_map(page_content).collect();
            file.write_all_at(&bytes, at * PAGE as u64).context(what)?;
            at = until;
        }
        made.uncache()?;
        Ok(made)
    }

    /// A file of so many pages that takes no room on disk: it reads as zeros, and fast.
    ///
    /// # Errors
    /// What the system says.
    pub fn sparse(name: &str, pages: u64) -> Result<Self> {
        let made = Self { path: PathBuf::from(SCRATCH).join(name), pages };
        let what = || made.path.display().to_string();
        let file = File::create(&made.path).context(what)?;
        file.set_len(pages * PAGE as u64).context(what)?;
        Ok(made)
    }

    /// Reads pages of it in order, whatever they say, without readahead.
    ///
    /// # Errors
    /// What the system says.
    pub fn skim(&self, pages: Range<u64>) -> Result<()> {
        let file = self.open_random()?;
        let mut content = [0; PAGE];
        for page in pages {
            file.read_exact_at(&mut content, page * PAGE as u64)
                .context(|| format!("page {page}"))?;
        }
        Ok(())
    }

    /// Writes it back and takes it out of the page cache.
    ///
    /// # Errors
    /// When pages stay.
    pub fn uncache(&self) -> Result<()> {
        let file = self.open()?;
        file.sync_all().context(|| "fsync".into())?;
        // Who ends a folio's writeback wakes `fsync` before it puts its own reference, and a folio
        // that is referenced stays: all of the file, where that is one large folio.
        let deadline = Instant::now() + PATIENCE;
        loop {
            advise(&file, libc::POSIX_FADV_DONTNEED)?;
            let left = self.cached_pages()?;
            if left == 0 {
                return Ok(());
            }
            let late = Instant::now() >= deadline;
            ensure!(!late, "{} pages of {} stay cached", left, self.path.display());
            thread::sleep(PAUSE);
        }
    }

    /// Opens it for reading and writing.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(&self) -> Result<File> {
        let options = OpenOptions::new().read(true).write(true).open(&self.path);
        options.context(|| self.path.display().to_string())
    }

    /// Opens it for reads without readahead.
    ///
    /// # Errors
    /// What the system says.
    pub fn open_random(&self) -> Result<File> {
        let file = self.open()?;
        advise(&file, libc::POSIX_FADV_RANDOM)?;
        Ok(file)
    }

    /// Opens it for transfers past the page cache.
    ///
    /// # Errors
    /// What the system says.
    pub fn open_direct(&self) -> Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT);
        options.open(&self.path).context(|| self.path.display().to_string())
    }

    /// Device and inode as the kernel writes them.
    ///
    /// # Errors
    /// What the system says.
    pub fn identity(&self) -> Result<(u64, u64)> {
        let data = fs::metadata(&self.path).context(|| self.path.display().to_string())?;
        let device = u64::from(libc::major(data.dev())) << 20 | u64::from(libc::minor(data.dev()));
        Ok((device, data.ino()))
    }

    /// Pages of it that are cached now.
    ///
    /// # Errors
    /// What the system says.
    pub fn cached_pages(&self) -> Result<u64> {
        cached_in(&self.open()?, [0, 0])
    }

    /// Whether a page of it, which is open, is cached now.
    ///
    /// # Errors
    /// What the system says.
    pub fn is_cached(open: &File, page: u64) -> Result<bool> {
        Ok(cached_in(open, [page * PAGE as u64, PAGE as u64])? > 0)
    }

    /// Reads every page once, from the first to the last, without readahead.
    ///
    /// # Errors
    /// When data is wrong.
    pub fn read_all(&self) -> Result<()> {
        let file = self.open_random()?;
        read_pages(&file, 0..self.pages)
    }
}

/// Cached pages of a range, of all for a length of 0.
fn cached_in(file: &File, range: [u64; 2]) -> Result<u64> {
    let mut found = [0_u64; 5];
    // SAFETY: struct cachestat_range is two and struct cachestat five 64-bit numbers.
    let result = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), found.as_mut_ptr(), 0)
    };
    checked(result, "cachestat")?;
    Ok(found[0])
}

impl Drop for TestFile {
    fn drop(&mut self) {
        // A test may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Says something of a range of bytes; the error's number, or 0.
#[must_use]
pub fn fadvise(file: &File, offset: u64, length: u64, advice: i32) -> i32 {
    let (offset, length) = (offset.cast_signed(), length.cast_signed());
    // SAFETY: takes numbers only.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, length, advice) }
}

/// Tells the kernel how the file will be read.
///
/// # Errors
/// What the system says.
pub fn advise(file: &File, advice: i32) -> Result<()> {
    let error = fadvise(file, 0, 0, advice);
    ensure!(error == 0, "posix_fadvise: error {error}");
    Ok(())
}

/// Reads one page and checks it.
///
/// # Errors
/// When data is wrong.
pub fn read_page(file: &File, page: u64) -> Result<()> {
    let mut content = [0; PAGE];
    file.read_exact_at(&mut content, page * PAGE as u64).context(|| format!("page {page}"))?;
    check_page(page, &content)
}

/// Reads pages one by one and checks them.
///
/// # Errors
/// When data is wrong.
pub fn read_pages(file: &File, pages: impl IntoIterator<Item = u64>) -> Result<()> {
    pages.into_iter().try_for_each(|page| read_page(file, page))
}

/// Writes pages one by one.
///
/// # Errors
/// What the system says.
pub fn write_pages(file: &File, pages: impl IntoIterator<Item = u64>) -> Result<()> {
    pages.into_iter().try_for_each(|page| {
        let at = page * PAGE as u64;
        file.write_all_at(&page_content(page), at).context(|| format!("writing page {page}"))
    })
}
