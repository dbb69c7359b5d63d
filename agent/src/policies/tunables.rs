// SPDX-License-Identifier: Apache-2.0
//! The tunables of a running policy. They are a map with one value, `struct policy_tunables`, which
//! the policy reads as memory and user space maps.

use libbpf_rs::{MapCore, MapHandle};
use memmap2::{MmapOptions, MmapRaw};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

const WORD_BYTES: usize = size_of::<AtomicU32>();

/// The words of `struct policy_tunables` of a loaded policy. They are only accessed as atomics,
/// since programs and other processes write them at any time.
#[derive(Debug)]
pub struct TunableWords {
    memory: MmapRaw,
    words: usize,
}

impl TunableWords {
    /// Maps the BPF map pinned at `path` into memory.
    ///
    /// # Errors
    /// Returns the error of the operating system, or an error if the size of the map is not that of
    /// `words`.
    pub fn open(path: &Path, words: usize) -> io::Result<Self> {
        let map = MapHandle::from_pinned_path(path).map_err(io::Error::other)?;
        let bytes = map.value_size() as usize;
        // A policy without tunables has a struct of one unused word.
        if bytes != words.max(1) * WORD_BYTES {
            let message = format!("{bytes} bytes of tunables, but the manifest has {words} words");
            return Err(io::Error::other(message));
        }
        Self::map(map.as_fd().as_raw_fd(), words)
    }

    /// Maps `words` from the start of the open `file`.
    fn map(file: RawFd, words: usize) -> io::Result<Self> {
        let bytes = words.max(1) * WORD_BYTES;
        Ok(Self { memory: MmapOptions::new().len(bytes).map_raw(file)?, words })
    }

    /// Sets words, each atomically. A policy that runs at the same time reads the old or the new
    /// value.
    pub fn set(&mut self, range: Range<usize>, value: u32) {
        self.atomics()[range].iter().for_each(|word| word.store(value, Ordering::Relaxed));
    }

    /// The present words, each read atomically.
    #[must_use]
    pub fn get(&self) -> Vec<u32> {
        self.atomics().iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    fn atomics(&self) -> &[AtomicU32] {
        let start = self.memory.as_mut_ptr().cast::<AtomicU32>();
        // SAFETY: the mapping has room for `words` and lives as long as `self`; it starts at a page
        // boundary and is therefore aligned; others may write an atomic while there is a reference
        // to it.
        unsafe { slice::from_raw_parts(start, self.words) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::FileExt;
    use std::thread;

    /// A file of this many words.
    fn file(words: &[u32]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        words.iter().for_each(|word| file.write_all(&word.to_ne_bytes()).unwrap());
        file
    }

    fn words(file: &File, count: usize) -> Vec<u32> {
        let mut bytes = vec![0; count * WORD_BYTES];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
    }

    #[test]
    fn writes_of_either_side_are_read_by_the_other() {
        let file = file(&[1, 2, 3]);
        let mut tunables = TunableWords::map(file.as_raw_fd(), 3).unwrap();
        assert_eq!(tunables.get(), [1, 2, 3]);
        tunables.set(1..3, 9);
        assert_eq!(words(&file, 3), [1, 9, 9]);
        file.write_all_at(&7u32.to_ne_bytes(), 0).unwrap();
        assert_eq!(tunables.get(), [7, 9, 9]);
    }

    #[test]
    fn a_policy_without_tunables_has_no_words() {
        let file = file(&[5]);
        assert!(TunableWords::map(file.as_raw_fd(), 0).unwrap().get().is_empty());
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn words_beyond_the_last_are_not_set() {
        let file = file(&[1, 2]);
        TunableWords::map(file.as_raw_fd(), 2).unwrap().set(1..3, 0);
    }

    #[test]
    fn a_word_that_is_written_meanwhile_is_read_whole() {
        let file = file(&[0; 64]);
        let reader = TunableWords::map(file.as_raw_fd(), 64).unwrap();
        let mut writer = TunableWords::map(file.as_raw_fd(), 64).unwrap();
        thread::scope(|scope| {
            let writing = scope.spawn(move || {
                (0..20_000).for_each(|i| writer.set(0..64, if i % 2 == 0 { 0 } else { u32::MAX }));
            });
            while !writing.is_finished() {
                assert!(reader.get().iter().all(|&word| word == 0 || word == u32::MAX));
            }
        });
    }
}
