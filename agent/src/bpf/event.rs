// SPDX-License-Identifier: Apache-2.0
//! Events of the sample: `struct event` of `bpf/sampler/layout.h` in Rust.

use super::layout::u64_at;
use cachepilot_models::trace::Record;

/// The access was a write.
const WRITE: u32 = 1;
/// The access was a fault of a mapped file.
const MMAP: u32 = 2;
/// The page is charged to a cgroup that is not the tenant's.
const ELSEWHERE: u32 = 4;
/// Not an access: the page was removed by something other than reclaim.
const REMOVAL: u32 = 8;
/// Bytes of `struct event`.
pub const EVENT_BYTES: usize = 48;

/// What an event reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// An access to a page that is charged to the tenant, or to no cgroup.
    Access,
    /// An access to a page that is charged to another cgroup.
    AccessElsewhere,
    /// The page was truncated, removed, or dropped on request.
    Removal,
}

/// One event of the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The access as traces record it. For a removal, only the page is meaningful.
    pub record: Record,
    /// Whether it was a fault of a mapped file.
    pub mmap: bool,
    /// What the event reports.
    pub kind: EventKind,
}

impl Event {
    /// Parses the event in `bytes`; `None` if there are too few.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..EVENT_BYTES)?;
        // Two words consist of two halves each: device and generation, task and flags.
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        let ((device, generation), (task, flags)) =
            (halves(u64_at(bytes, 32)), halves(u64_at(bytes, 40)));
        let record = Record {
            time_ns: u64_at(bytes, 0),
            cgroup: u64_at(bytes, 8),
            inode: u64_at(bytes, 16),
            index: u64_at(bytes, 24),
            device,
            generation,
            task,
            write: flags & WRITE != 0,
        };
        let kind = match flags {
            flags if flags & REMOVAL != 0 => EventKind::Removal,
            flags if flags & ELSEWHERE != 0 => EventKind::AccessElsewhere,
            _ => EventKind::Access,
        };
        Some(Self { record, mmap: flags & MMAP != 0, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_record_with_more_flags() {
        let of = |flags: u32| {
            let words: [u64; 4] = [1, 2, 3, 4];
            let halves: [u32; 4] = [5, 6, 7, flags];
            let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
            bytes.extend(halves.into_iter().flat_map(u32::to_ne_bytes));
            bytes
        };
        let record = Record {
            time_ns: 1,
            cgroup: 2,
            inode: 3,
            index: 4,
            device: 5,
            generation: 6,
            task: 7,
            write: true,
        };
        for (flags, mmap, kind) in [
            (WRITE | MMAP, true, EventKind::Access),
            (WRITE | ELSEWHERE, false, EventKind::AccessElsewhere),
            (WRITE | REMOVAL, false, EventKind::Removal),
        ] {
            assert_eq!(Event::parse(&of(flags)), Some(Event { record, mmap, kind }));
        }
        assert_eq!(Event::parse(&of(0)[1..]), None);
    }
}
