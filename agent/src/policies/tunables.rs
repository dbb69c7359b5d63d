// SPDX-License-Identifier: Apache-2.0
//! The tunables of a running policy: a map of one value, `struct policy_tunables`, that the policy
//! reads as memory and user space maps.

use libbpf_rs::{MapCore, MapHandle};
use memmap2::{MmapMut, MmapOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

const WORD_BYTES: usize = 4;

/// The words of `struct policy_tunables` of a loaded policy.
#[derive(Debug)]
pub struct TunableWords {
    memory: MmapMut,
    words: usize,
}

impl TunableWords {
    /// Maps the map pinned at `path`.
    ///
    /// # Errors
    /// What the system says, or when the map has not room for exactly `words`.
    pub fn open(path: &Path, words: usize) -> io::Result<Self> {
        let map = MapHandle::from_pinned_path(path).map_err(io::Error::other)?;
        let bytes = map.value_size() as usize;
        // A policy without tunables has a struct of one word that nobody reads.
        if bytes != words.max(1) * WORD_BYTES {
            let message = format!("{bytes} bytes of tunables, but the manifest has {words} words");
            return Err(io::Error::other(message));
        }
        // SAFETY: the kernel keeps the pages of the map until they are unmapped, and words are
        // only accessed as atomics.
        let memory = unsafe { MmapOptions::new().len(bytes).map_mut(map.as_fd().as_raw_fd()) }?;
        Ok(Self { memory, words })
    }

    /// Sets words, each at once; a policy that runs meanwhile sees the old or the new value.
    pub fn set(&mut self, range: Range<usize>, value: u32) {
        for word in range {
            assert!(word < self.words);
            let at = self.memory[word * WORD_BYTES..][..WORD_BYTES].as_mut_ptr().cast();
            // SAFETY: within the mapping, which starts on a page, and so aligned.
            unsafe { AtomicU32::from_ptr(at) }.store(value, Ordering::Relaxed);
        }
    }

    /// The words as they are now.
    #[must_use]
    pub fn get(&self) -> Vec<u32> {
        let words = self.memory.chunks_exact(WORD_BYTES).take(self.words);
        words.map(|w| u32::from_ne_bytes([w[0], w[1], w[2], w[3]])).collect()
    }
}
