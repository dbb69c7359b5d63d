// SPDX-License-Identifier: Apache-2.0
//! The layout of the data that the sampler and the agent exchange: `bpf/sampler/layout.h` in Rust.

use crate::latency::LATENCY_BUCKETS;

const WORD: usize = 8;
const FIRST_LATENCY: usize = 9;
/// Bytes of `struct tenant_counts`.
pub const COUNTS_BYTES: usize = (FIRST_LATENCY + LATENCY_BUCKETS) * WORD;
/// Bytes of `struct cgroup_entry`.
pub const ENTRY_BYTES: usize = 16;
/// Bytes of `struct watch_request`.
pub const REQUEST_BYTES: usize = 16;
/// Bytes of the kernel's `struct cache_ext_counts`: counts, pages not considered for sampling, and
/// calls whose duration is not known yet.
pub const KERNEL_COUNTS_BYTES: usize = COUNTS_BYTES + 2 * WORD;
/// Tenants whose counts are in one map, `COUNTS_PART`.
pub const COUNTS_PART: u32 = 16;
/// Number of cgroups whose counts are requested from the kernel at a time.
pub const READ_AT_ONCE: usize = 64;
/// Bytes of `struct counts_request`: how many, and which.
pub const COUNTS_REQUEST_BYTES: usize = (1 + READ_AT_ONCE) * WORD;
#[cfg(test)]
/// Bytes of `struct counts_answer`: the counts of all cgroups, then the kernel's status for each.
pub const COUNTS_ANSWER_BYTES: usize = READ_AT_ONCE * (KERNEL_COUNTS_BYTES + WORD);
/// Bytes of `struct losses`.
pub const LOSSES_BYTES: usize = 3 * WORD;
/// Bytes of `struct cgroup_share`.
pub const SHARE_BYTES: usize = LOSSES_BYTES + 3 * WORD;
const REST_PAGES: usize = SHARE_BYTES - WORD;

/// The sampler's counts of a tenant, summed over CPUs. All values are totals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Pages accessed, with faults and writes.
    pub accesses: u64,
    /// Pages that a read, a fault or a write requested and that were not cached.
    pub misses: u64,
    /// Pages that were read again not long after their eviction (refaults).
    pub refaults: u64,
    /// Pages that were reclaimed.
    pub evictions: u64,
    /// Pages that were read before they were requested.
    pub readahead_pages: u64,
    /// Accesses that were faults of mapped files; part of `accesses`.
    pub mmap_accesses: u64,
    /// Accesses that were buffered writes; part of `accesses`.
    pub write_accesses: u64,
    /// Buffered read calls.
    pub read_calls: u64,
    /// Time spent in buffered read calls.
    pub read_time_ns: u64,
    /// Buffered read calls by duration, see [`crate::latency::latency_bucket`].
    pub latency: [u64; LATENCY_BUCKETS],
}

impl Default for Counts {
    fn default() -> Self {
        Self::from_cpus(std::iter::empty())
    }
}

impl std::ops::AddAssign<&Self> for Counts {
    fn add_assign(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.misses += other.misses;
        self.refaults += other.refaults;
        self.evictions += other.evictions;
        self.readahead_pages += other.readahead_pages;
        self.mmap_accesses += other.mmap_accesses;
        self.write_accesses += other.write_accesses;
        self.read_calls += other.read_calls;
        self.read_time_ns += other.read_time_ns;
        for (sum, of_bucket) in self.latency.iter_mut().zip(other.latency) {
            *sum += of_bucket;
        }
    }
}

impl Counts {
    /// Parses counts that the kernel itself maintains. Also returns the number of pages that it did
    /// not consider for sampling. `None` if there are too few bytes.
    #[must_use]
    pub fn from_kernel(bytes: &[u8]) -> Option<(Self, u64)> {
        let bytes = bytes.get(..KERNEL_COUNTS_BYTES)?;
        let unsampled_pages = u64_at(bytes, COUNTS_BYTES);
        Some((Self::from_cpus(std::iter::once(bytes)), unsampled_pages))
    }

    /// Whether these counts were read before `other`, or restarted since: totals only grow.
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        let totals = |of: &Self| [of.accesses, of.misses, of.evictions, of.refaults, of.read_calls];
        totals(self).iter().zip(totals(other)).any(|(&this, that)| this < that)
    }

    /// Adds up the values of all CPUs, each [`COUNTS_BYTES`] long.
    pub fn from_cpus<'a>(cpus: impl Iterator<Item = &'a [u8]>) -> Self {
        let words = sum_words::<{ FIRST_LATENCY + LATENCY_BUCKETS }>(cpus);
        let mut latency = [0; LATENCY_BUCKETS];
        latency.copy_from_slice(&words[FIRST_LATENCY..]);
        Self {
            accesses: words[0],
            misses: words[1],
            refaults: words[2],
            evictions: words[3],
            readahead_pages: words[4],
            mmap_accesses: words[5],
            write_accesses: words[6],
            read_calls: words[7],
            read_time_ns: words[8],
            latency,
        }
    }
}

/// What the sampler could not observe, of one cgroup or of all. All values are totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Events for which the ring had no room.
    pub dropped_events: u64,
    /// Pages of very long calls that were counted but not considered for sampling.
    pub unsampled_pages: u64,
    /// Calls that were not followed because there was no memory. The value for all cgroups together
    /// also includes calls that were skipped because a program was already running; the kernel does
    /// not report to which cgroup those belong.
    pub untracked_calls: u64,
}

impl std::ops::AddAssign for Losses {
    fn add_assign(&mut self, other: Self) {
        self.dropped_events += other.dropped_events;
        self.unsampled_pages += other.unsampled_pages;
        self.untracked_calls += other.untracked_calls;
    }
}

impl Losses {
    /// Adds up the values of all CPUs.
    pub fn from_cpus<'a>(cpus: impl Iterator<Item = &'a [u8]>) -> Self {
        let [dropped_events, unsampled_pages, untracked_calls] = sum_words(cpus);
        Self { dropped_events, unsampled_pages, untracked_calls }
    }

    /// The losses since these were `before`; all of them if the counts restarted since.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let grown = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
        Self {
            dropped_events: grown(self.dropped_events, before.dropped_events),
            unsampled_pages: grown(self.unsampled_pages, before.unsampled_pages),
            untracked_calls: grown(self.untracked_calls, before.untracked_calls),
        }
    }
}

/// The losses of a cgroup, and the number of pages left out by the kernel's sampling that the
/// agent's program looked at; `None` if there are too few bytes.
#[must_use]
pub fn decode_share(bytes: &[u8]) -> Option<(Losses, u64)> {
    let bytes = bytes.get(..SHARE_BYTES)?;
    Some((Losses::from_cpus(std::iter::once(bytes)), u64_at(bytes, REST_PAGES)))
}

fn sum_words<'a, const N: usize>(cpus: impl Iterator<Item = &'a [u8]>) -> [u64; N] {
    let mut sums = [0_u64; N];
    for bytes in cpus {
        for (sum, word) in sums.iter_mut().zip(bytes.chunks_exact(WORD)) {
            *sum += u64_at(word, 0);
        }
    }
    sums
}

/// Encodes `struct watch_request`, a request to a kernel that counts by itself.
#[must_use]
pub fn encode_request(cgroup_id: u64, threshold: u64) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    bytes[..8].copy_from_slice(&cgroup_id.to_ne_bytes());
    bytes[8..].copy_from_slice(&threshold.to_ne_bytes());
    bytes
}

/// Encodes `struct counts_request` for up to [`READ_AT_ONCE`] cgroups.
#[must_use]
pub fn encode_counts_request(cgroup_ids: &[u64]) -> Vec<u8> {
    let count = cgroup_ids.len() as u64;
    let words = std::iter::once(&count).chain(cgroup_ids);
    let mut bytes: Vec<u8> = words.flat_map(|word| word.to_ne_bytes()).collect();
    bytes.resize(COUNTS_REQUEST_BYTES, 0);
    bytes
}

/// Decodes the part of `struct counts_answer` for the cgroup at index `place` of the request: the
/// result of [`Counts::from_kernel`], or the kernel's negative error number. `None` if there are
/// too few bytes.
#[must_use]
pub fn decode_counts_answer(bytes: &[u8], place: usize) -> Option<Result<(Counts, u64), i32>> {
    let status = bytes.get(READ_AT_ONCE * KERNEL_COUNTS_BYTES + place * WORD..)?.get(..WORD)?;
    // The kernel's status is an `int`.
    match u64_at(status, 0) as i32 {
        0 => Counts::from_kernel(bytes.get(place * KERNEL_COUNTS_BYTES..)?).map(Ok),
        error => Some(Err(error)),
    }
}

/// Encodes the value of a cgroup in the map of tracked ones.
#[must_use]
pub fn encode_entry(slot: u32, threshold: u64) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..8].copy_from_slice(&threshold.to_ne_bytes());
    bytes[8..12].copy_from_slice(&slot.to_ne_bytes());
    bytes
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_cpus_add_up_word_by_word() {
        let cpu = |factor: u64| {
            let words = (1..=FIRST_LATENCY + LATENCY_BUCKETS).map(|w| w as u64 * factor);
            words.flat_map(u64::to_ne_bytes).collect::<Vec<u8>>()
        };
        let cpus = [cpu(1), cpu(100)];
        assert_eq!(cpus[0].len(), COUNTS_BYTES);
        let counts = Counts::from_cpus(cpus.iter().map(Vec::as_slice));
        assert_eq!((counts.accesses, counts.misses, counts.read_time_ns), (101, 202, 909));
        assert_eq!((counts.latency[0], counts.latency[103]), (1010, 11_413));
        let losses = Losses::from_cpus(cpus.iter().map(Vec::as_slice));
        assert_eq!((losses.dropped_events, losses.untracked_calls), (101, 303));
    }

    #[test]
    fn many_cgroups_are_asked_for_at_once_and_each_has_an_answer_of_its_own() {
        let request = encode_counts_request(&[7, 9]);
        assert_eq!((u64_at(&request, 0), u64_at(&request, 8), u64_at(&request, 16)), (2, 7, 9));
        let mut answer = vec![0; COUNTS_ANSWER_BYTES];
        answer[KERNEL_COUNTS_BYTES..][..8].copy_from_slice(&5_u64.to_ne_bytes());
        let status = READ_AT_ONCE * KERNEL_COUNTS_BYTES;
        answer[status..][..8].copy_from_slice(&(-2_i64).to_ne_bytes());
        assert_eq!(decode_counts_answer(&answer, 0), Some(Err(-2)));
        let (counts, _) = decode_counts_answer(&answer, 1).unwrap().unwrap();
        assert_eq!(counts.accesses, 5);
        assert_eq!(decode_counts_answer(&answer[..status], 1), None);
    }

    #[test]
    fn losses_of_a_cgroup_are_differences_between_two_reads() {
        let bytes: Vec<u8> = (1..=6_u64).flat_map(u64::to_ne_bytes).collect();
        let (now, rest_pages) = decode_share(&bytes).unwrap();
        let of = |dropped_events, unsampled_pages, untracked_calls| Losses {
            dropped_events,
            unsampled_pages,
            untracked_calls,
        };
        assert_eq!((now, rest_pages), (of(1, 2, 3), 6));
        assert_eq!(decode_share(&bytes[1..]), None);
        assert_eq!(of(5, 2, 9).since(now), of(4, 0, 6));
        assert_eq!(now.since(of(2, 2, 2)), of(1, 0, 1), "the first started again");
    }

    #[test]
    fn counts_of_the_kernel_have_unsampled_pages_and_show_a_restart() {
        let words = (1..=KERNEL_COUNTS_BYTES / WORD).map(|word| word as u64);
        let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        let (counts, unsampled_pages) = Counts::from_kernel(&bytes).unwrap();
        assert_eq!((counts.accesses, counts.latency[103], unsampled_pages), (1, 113, 114));
        assert_eq!(Counts::from_kernel(&bytes[1..]), None);
        let mut more = counts.clone();
        more += &counts;
        assert_eq!((more.accesses, more.latency[103]), (2, 226));
        assert!(counts.is_before(&more) && !more.is_before(&counts) && !counts.is_before(&counts));
    }
}
