// SPDX-License-Identifier: Apache-2.0
//! Header and records of the `.cptrace` format, `docs/reference/trace_format.md`.

use super::fixed::{u32_at, u64_at};
use crate::hash::{page_hash, page_unhash, sample_hash};

/// First bytes of every `.cptrace` file.
pub const MAGIC: [u8; 8] = *b"CPTRACE\0";
/// The version that this crate reads and writes.
pub const VERSION: u32 = 1;
/// Size of the header in bytes, in every version.
pub const HEADER_BYTES: usize = 64;
/// Size of a record of version 1 in bytes.
pub const RECORD_BYTES: usize = 48;

const FLAG_OPAQUE_KEYS: u64 = 1 << 0;
const FLAG_NO_TIMES: u64 = 1 << 1;
const FLAG_NO_TASKS: u64 = 1 << 2;
const FLAG_NO_DIRECTIONS: u64 = 1 << 3;
const FLAGS_KNOWN: u64 = 0xf;

const RECORD_WRITE: u32 = 1 << 0;

/// The properties of all records of a file, as its header states them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// `index` holds the page key of another format; device, inode and generation are 0.
    pub opaque_keys: bool,
    /// `time_ns` was recorded; otherwise it is 0.
    pub has_times: bool,
    /// `task` was recorded; otherwise it is 0.
    pub has_tasks: bool,
    /// `write` was recorded; otherwise it is false.
    pub has_directions: bool,
}

impl Header {
    /// Header of a recording with every field.
    pub const FULL: Self =
        Self { opaque_keys: false, has_times: true, has_tasks: true, has_directions: true };

    /// Header of a file with page keys only.
    pub const KEYS_ALONE: Self =
        Self { opaque_keys: true, has_times: false, has_tasks: false, has_directions: false };

    /// Returns the page key that simulations use for `record`: its index if keys are opaque,
    /// otherwise [`Record::page_key`].
    #[inline(always)]
    #[must_use]
    pub fn page_key(&self, record: &Record) -> u64 {
        if self.opaque_keys { record.index } else { record.page_key() }
    }

    /// Returns what contradicts this header in `record`, if anything.
    pub(super) fn contradiction(&self, record: &Record) -> Option<&'static str> {
        let file = record.inode != 0 || record.device != 0 || record.generation != 0;
        if self.opaque_keys && file {
            Some("names a file, but the header says that keys are opaque")
        } else if !self.has_times && record.time_ns != 0 {
            Some("has a time, but the header says that there are none")
        } else if !self.has_tasks && record.task != 0 {
            Some("has a task, but the header says that there are none")
        } else if !self.has_directions && record.write {
            Some("is a write, but the header says that directions are not known")
        } else {
            None
        }
    }

    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let flags = [
            (self.opaque_keys, FLAG_OPAQUE_KEYS),
            (!self.has_times, FLAG_NO_TIMES),
            (!self.has_tasks, FLAG_NO_TASKS),
            (!self.has_directions, FLAG_NO_DIRECTIONS),
        ];
        let flags = flags.iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag);
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(RECORD_BYTES as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&u64::to_le_bytes(flags));
        bytes
    }

    /// Decodes the header in `bytes`, or returns what is wrong with it.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, String> {
        if bytes[..8] != MAGIC {
            return Err("bad magic: this is not a cptrace file".into());
        }
        let (version, record_bytes) = (u32_at(bytes, 8), u32_at(bytes, 12));
        if version != VERSION {
            return Err(format!("cptrace version {version} is not supported, expected {VERSION}"));
        }
        if record_bytes as usize != RECORD_BYTES {
            return Err(format!("header: record size is {record_bytes}, expected {RECORD_BYTES}"));
        }
        let flags = u64_at(bytes, 16);
        if flags & !FLAGS_KNOWN != 0 {
            return Err(format!("header: flags are {flags:#x}, allowed are {FLAGS_KNOWN:#x}"));
        }
        if bytes[24..].iter().any(|&byte| byte != 0) {
            return Err("header: reserved bytes 24 to 63 are not zero".into());
        }
        Ok(Self {
            opaque_keys: flags & FLAG_OPAQUE_KEYS != 0,
            has_times: flags & FLAG_NO_TIMES == 0,
            has_tasks: flags & FLAG_NO_TASKS == 0,
            has_directions: flags & FLAG_NO_DIRECTIONS == 0,
        })
    }
}

/// One access to one page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// Time of the access, nanoseconds on a clock with any origin.
    pub time_ns: u64,
    /// Id of the cgroup that made the access; 0 when not known.
    pub cgroup: u64,
    /// Inode number.
    pub inode: u64,
    /// Offset in the file, pages.
    pub index: u64,
    /// Device of the file system, as the kernel's `dev_t`.
    pub device: u32,
    /// Generation of the inode; 0 when not known.
    pub generation: u32,
    /// Id of the thread that made the access.
    pub task: u32,
    /// Whether the access was a write.
    pub write: bool,
}

/// Returns the key of a page, given [`Record::file_key`] and its index in the file.
#[inline(always)]
pub(crate) fn page_key(file_key: u64, index: u64) -> u64 {
    file_key ^ page_hash(index)
}

impl Record {
    /// Returns the 64-bit key of the page. With h = [`page_hash`], it is `h(h(device * 2^32 +
    /// generation) xor inode) xor h(index)`.
    ///
    /// Keys certainly differ within a file, and between pages with the same index in files of one
    /// device and generation. Otherwise two of n distinct pages share a key with a probability of
    /// about n^2 / 2^65: 3e-6 for 10^7 pages (38 GiB), 3e-2 for 10^9.
    #[inline(always)]
    #[must_use]
    pub fn page_key(&self) -> u64 {
        page_key(self.file_key(), self.index)
    }

    /// Returns the key of a page that a sampler in the kernel let through. [`page_hash`] of this
    /// key has the upper half of [`sample_hash`], so filtering by it selects the same pages as the
    /// sampler. Its lower half is that of the hash of [`Record::page_key`], which distinguishes
    /// pages with the same upper half.
    #[inline(always)]
    #[must_use]
    pub fn sample_key(&self) -> u64 {
        const LOWER: u64 = u32::MAX as u64;
        let upper = sample_hash(self.inode, self.generation, self.index) & !LOWER;
        page_unhash(upper | page_hash(self.page_key()) & LOWER)
    }

    /// Returns the part of [`Record::page_key`] that depends on the file.
    #[inline(always)]
    #[must_use]
    pub fn file_key(&self) -> u64 {
        let file_system = u64::from(self.device) << 32 | u64::from(self.generation);
        page_hash(page_hash(file_system) ^ self.inode)
    }

    pub(crate) fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let words = [self.time_ns, self.cgroup, self.inode, self.index];
        for (to, word) in bytes[..32].chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let flags = if self.write { RECORD_WRITE } else { 0 };
        let halves = [self.device, self.generation, self.task, flags];
        for (to, half) in bytes[32..].chunks_exact_mut(4).zip(halves) {
            to.copy_from_slice(&half.to_le_bytes());
        }
        bytes
    }

    /// Decodes the record in `bytes`, or returns what is wrong with it.
    #[inline]
    pub(crate) fn decode(bytes: &[u8; RECORD_BYTES]) -> Result<Self, String> {
        let flags = u32_at(bytes, 44);
        if flags & !RECORD_WRITE != 0 {
            return Err(format!("has flags {flags:#x}, allowed are {RECORD_WRITE:#x}"));
        }
        Ok(Self {
            time_ns: u64_at(bytes, 0),
            cgroup: u64_at(bytes, 8),
            inode: u64_at(bytes, 16),
            index: u64_at(bytes, 24),
            device: u32_at(bytes, 32),
            generation: u32_at(bytes, 36),
            task: u32_at(bytes, 40),
            write: flags & RECORD_WRITE != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Spells out the byte table of `docs/reference/trace_format.md`.
    #[test]
    fn layout_is_the_documented_one() {
        let record = Record {
            time_ns: 0x0102_0304_0506_0708,
            cgroup: 0x1112_1314_1516_1718,
            inode: 0x2122_2324_2526_2728,
            index: 0x3132_3334_3536_3738,
            device: 0x4142_4344,
            generation: 0x5152_5354,
            task: 0x6162_6364,
            write: true,
        };
        let mut expected = Vec::new();
        for (high, bytes) in [(0, 8), (1, 8), (2, 8), (3, 8), (4, 4), (5, 4), (6, 4)] {
            expected.extend((1..=bytes).rev().map(|low| high << 4 | low));
        }
        expected.extend([1, 0, 0, 0]);
        assert_eq!(record.encode().to_vec(), expected);
        assert_eq!(Record::decode(&record.encode()), Ok(record));

        let header = Header { has_times: false, ..Header::FULL }.encode();
        assert_eq!(&header[..24], b"CPTRACE\0\x01\0\0\0\x30\0\0\0\x02\0\0\0\0\0\0\0");
        assert_eq!(header[24..], [0; 40]);
    }

    #[test]
    fn headers_round_trip() {
        for bits in 0..16u8 {
            let header = Header {
                opaque_keys: bits & 1 != 0,
                has_times: bits & 2 != 0,
                has_tasks: bits & 4 != 0,
                has_directions: bits & 8 != 0,
            };
            assert_eq!(Header::decode(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn broken_headers_are_refused() {
        for (at, value, word) in [
            (0, b'X', "magic"),
            (8, 2, "version 2"),
            (12, 40, "record size is 40"),
            (16, 0x10, "flags are 0x10"),
            (24, 1, "reserved"),
            (63, 1, "reserved"),
        ] {
            let mut bytes = Header::FULL.encode();
            bytes[at] = value;
            let message = Header::decode(&bytes).unwrap_err();
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn undefined_record_flags_are_refused() {
        let mut bytes = Record::default().encode();
        bytes[44] = 2;
        assert!(Record::decode(&bytes).unwrap_err().contains("0x2"));
    }

    #[test]
    fn a_sampled_page_is_below_the_samplers_threshold_by_its_key() {
        for index in 0..5000 {
            let record = Record { inode: 12, generation: 7, index, ..<_>::default() };
            let (sampler, own) = (sample_hash(12, 7, index), page_hash(record.sample_key()));
            assert_eq!(sampler >> 32, own >> 32);
            assert_eq!(own as u32, page_hash(record.page_key()) as u32);
        }
    }

    #[test]
    fn page_keys_differ_in_every_field() {
        let (mut keys, mut sample_keys) = (HashSet::new(), HashSet::new());
        for device in 0..10u32 {
            for generation in 0..10u32 {
                for inode in 0..50u64 {
                    for index in 0..50u64 {
                        let record = Record { device, generation, inode, index, ..<_>::default() };
                        assert!(keys.insert(record.page_key()));
                        assert!(sample_keys.insert(record.sample_key()));
                    }
                }
            }
        }
        let page = Record { inode: 3, index: 4, ..<_>::default() };
        let again = Record { time_ns: 9, cgroup: 9, task: 9, write: true, ..page };
        assert_eq!(page.page_key(), again.page_key());
    }
}
