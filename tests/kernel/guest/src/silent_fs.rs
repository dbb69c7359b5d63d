// SPDX-License-Identifier: Apache-2.0
//! A file system of one file, whose server answers the first open of it and no other: what a tenant
//! with FUSE can do to whoever opens its files. Messages are those of `linux/fuse.h`.

use crate::error::{Context, Result, checked};
use crate::files::{PAGE, page_content};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

const ROOT: u64 = 1;
const THE_FILE: u64 = 2;
/// Of a message, before what belongs to its operation.
const HEADER: usize = 40;
const MESSAGE: usize = 1 << 18;
/// Names and attributes hold for so long, which is always.
const VALID_S: u64 = 3600;

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    opened: AtomicU64,
}

/// One that is mounted, until it is dropped.
#[derive(Debug)]
pub struct SilentFs {
    folder: PathBuf,
    shared: Arc<Shared>,
    server: Option<JoinHandle<()>>,
}

impl SilentFs {
    /// Mounts it. Its server ends `patience` after the first open that it leaves unanswered, and
    /// all who wait for it go on.
    ///
    /// # Errors
    /// What the system says.
    pub fn mount(name: &str, pages: u64, patience: Duration) -> Result<Self> {
        let folder = PathBuf::from(format!("/tmp/{name}"));
        fs::create_dir_all(&folder).context(|| name.into())?;
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let device = device.context(|| "/dev/fuse".into())?;
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let words = ["fuse", &folder.to_string_lossy(), &options];
        let [kind, place, options] = words.map(|word| CString::new(word).unwrap_or_default());
        // SAFETY: strings that end.
        let done = unsafe {
            libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast())
        };
        checked(done, "mount")?;
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let server = thread::spawn(move || serve(&device, pages, patience, &seen));
        Ok(Self { folder, shared, server: Some(server) })
    }

    /// Its file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder.join("file")
    }

    /// How often the file was to be opened so far.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.shared.opened.load(Ordering::Acquire)
    }

    /// Ends the server, whose unanswered messages fail, and unmounts it once nobody uses it.
    ///
    /// # Errors
    /// When somebody still does after some seconds.
    pub fn unmount(mut self) -> Result<()> {
        self.end();
        let start = Instant::now();
        while let Err(error) = self.unmounted(0) {
            if start.elapsed() > Duration::from_secs(10) {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn unmounted(&self, flags: i32) -> Result<()> {
        let place = CString::new(&*self.folder.to_string_lossy()).unwrap_or_default();
        // SAFETY: a string that ends.
        checked(unsafe { libc::umount2(place.as_ptr(), flags) }, "umount").map(|_: i32| ())
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

impl Drop for SilentFs {
    fn drop(&mut self) {
        self.end();
        let _ = self.unmounted(libc::MNT_DETACH);
    }
}

/// Until it is told to stop, its patience is over, or nobody needs it any more.
fn serve(mut device: &File, pages: u64, patience: Duration, shared: &Shared) {
    let mut message = vec![0; MESSAGE];
    let mut silent_since: Option<Instant> = None;
    while !shared.stop.load(Ordering::Acquire)
        && silent_since.is_none_or(|since| since.elapsed() < patience)
    {
        let mut ready = libc::pollfd { fd: device.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor of this process.
        if unsafe { libc::poll(&raw mut ready, 1, 50) } == 0 {
            continue;
        }
        let Ok(bytes) = device.read(&mut message) else { return };
        let operation = word(&message, 4);
        if operation == OPEN && shared.opened.fetch_add(1, Ordering::AcqRel) > 0 {
            silent_since.get_or_insert_with(Instant::now);
        } else if ![FORGET, BATCH_FORGET, INTERRUPT].contains(&operation) {
            let said = answer(operation, &message[..bytes], pages);
            if device.write_all(&framed(&message, said)).is_err() {
                return;
            }
        }
    }
}

fn word(message: &[u8], at: usize) -> u32 {
    message
        .get(at..at + 4)
        .map_or(0, |bytes| u32::from_ne_bytes(bytes.try_into().unwrap_or([0; 4])))
}

fn long(message: &[u8], at: usize) -> u64 {
    message
        .get(at..at + 8)
        .map_or(0, |bytes| u64::from_ne_bytes(bytes.try_into().unwrap_or([0; 8])))
}

/// `struct fuse_out_header` and what follows it.
fn framed(message: &[u8], said: std::result::Result<Vec<u8>, i32>) -> Vec<u8> {
    let (body, error) = said.map_or_else(|error| (Vec::new(), -error), |body| (body, 0));
    let length = u32::try_from(16 + body.len()).unwrap_or(0);
    let mut found = length.to_ne_bytes().to_vec();
    found.extend(error.to_ne_bytes());
    found.extend(long(message, 8).to_ne_bytes());
    found.extend(body);
    found
}

fn answer(operation: u32, message: &[u8], pages: u64) -> std::result::Result<Vec<u8>, i32> {
    let node = long(message, 16);
    match operation {
        INIT => Ok(init(message)),
        LOOKUP if message[HEADER..].starts_with(b"file\0") => {
            let head = [THE_FILE, 0, VALID_S, VALID_S, 0];
            Ok([head.map(u64::to_ne_bytes).concat(), attributes(THE_FILE, pages)].concat())
        }
        LOOKUP => Err(libc::ENOENT),
        GETATTR => {
            Ok([[VALID_S, 0].map(u64::to_ne_bytes).concat(), attributes(node, pages)].concat())
        }
        OPEN => Ok(vec![0; 16]),
        READ => Ok(content(long(message, HEADER + 8), word(message, HEADER + 16), pages)),
        RELEASE | FLUSH => Ok(Vec::new()),
        _ => Err(libc::ENOSYS),
    }
}

/// `struct fuse_init_out`: version 7.31, reads of as much as readahead wants.
fn init(message: &[u8]) -> Vec<u8> {
    let readahead = word(message, HEADER + 8);
    let mut found = [7, 31, readahead, 0].map(u32::to_ne_bytes).concat();
    found.extend(16_u16.to_ne_bytes());
    found.extend(12_u16.to_ne_bytes());
    found.extend([4096_u32, 1].map(u32::to_ne_bytes).concat());
    found.resize(64, 0);
    found
}

/// `struct fuse_attr` of the root or of the file.
fn attributes(node: u64, pages: u64) -> Vec<u8> {
    let is_root = node == ROOT;
    let bytes = if is_root { 0 } else { pages * PAGE as u64 };
    let mode = if is_root { libc::S_IFDIR | 0o755 } else { libc::S_IFREG | 0o644 };
    let mut found = [node, bytes, bytes / 512, 0, 0, 0].map(u64::to_ne_bytes).concat();
    found.extend([0, 0, 0, mode, 1, 0, 0, 0, 4096, 0].map(u32::to_ne_bytes).concat());
    found
}

/// Pages that a read is about, up to the end of the file.
fn content(offset: u64, bytes: u32, pages: u64) -> Vec<u8> {
    let first = offset / PAGE as u64;
    let end = (first + u64::from(bytes) / PAGE as u64).min(pages);
    (first..end).flat_map(page_content).collect()
}
