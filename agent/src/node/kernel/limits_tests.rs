// SPDX-License-Identifier: Apache-2.0

use super::super::fake::{Fake, MIB};
use super::*;
use proptest::prelude::*;
use std::fs;
use std::time::Duration;

const STEP: u64 = 16 * MIB;

struct Bench {
    fake: Fake,
    fs: CgroupFs,
    writer: Writer,
    limit: Limit,
}

impl Bench {
    fn new() -> Self {
        let fake = Fake::new(&["/a"]);
        let fs = fake.fs();
        let limit = Limit::read(&fs, "/a", 7).unwrap();
        Self { fake, fs, writer: Writer::new(Duration::from_secs(10)), limit }
    }

    fn usage(&self) -> Usage {
        Usage::read(&self.fs, "/a", MIB, 0).unwrap()
    }

    fn set(&mut self, wanted: Option<u64>) -> Verdict {
        let usage = self.usage();
        let (fs, writer) = (&self.fs, &mut self.writer);
        self.limit.set(&mut Steering { fs, writer, step_bytes: STEP }, wanted, &usage)
    }

    /// A step, after which the kernel has reclaimed what was asked.
    fn step(&mut self) {
        let usage = self.usage();
        let (fs, writer) = (&self.fs, &mut self.writer);
        self.limit.step(&mut Steering { fs, writer, step_bytes: STEP }, &usage);
        self.obey();
    }

    fn check(&mut self, ours: bool) {
        let usage = self.usage();
        let (fs, writer) = (&self.fs, &mut self.writer);
        self.limit.check(&mut Steering { fs, writer, step_bytes: STEP }, &usage, ours).unwrap();
    }

    fn obey(&self) {
        if let Some(high) = self.fs.limit("/a", HIGH).unwrap() {
            self.fake.uses("/a", high.min(self.usage().current));
        }
    }

    fn high(&self) -> String {
        self.fake.read("/a", HIGH)
    }
}

#[test]
fn a_limit_is_raised_at_once() {
    let mut bench = Bench::new();
    bench.fake.write("/a", HIGH, &format!("{}\n", 70 * MIB));
    assert_eq!(bench.set(Some(100 * MIB)), (Outcome::Applied, String::new()));
    assert_eq!(bench.high(), (100 * MIB).to_string());
    assert_eq!(bench.set(Some(100 * MIB)).0, Outcome::Unchanged);
    assert_eq!(bench.set(None).0, Outcome::Applied);
    assert_eq!(bench.high(), "max");
}

#[test]
fn what_is_not_used_is_taken_at_once() {
    let mut bench = Bench::new();
    assert_eq!(bench.set(Some(64 * MIB)).0, Outcome::Applied);
    assert_eq!(bench.fake.read("/a", RECLAIM), "");
}

#[test]
fn a_limit_is_lowered_in_steps_after_reclaim() {
    let mut bench = Bench::new();
    assert_eq!(bench.set(Some(24 * MIB)).0, Outcome::Started);
    assert_eq!(bench.fake.read("/a", RECLAIM), STEP.to_string());
    let mut seen = vec![bench.high()];
    bench.obey();
    while bench.limit.target().is_some() {
        assert_eq!(bench.limit.target(), Some(24 * MIB));
        bench.step();
        seen.push(bench.high());
    }
    assert_eq!(seen, [48, 32, 24].map(|mib: u64| (mib * MIB).to_string()));
    assert_eq!(bench.limit.remark(), "");
    assert_eq!(bench.fake.read("/a", "memory.max"), "max");
}

#[test]
fn limits_that_cannot_be_are_refused() {
    let mut bench = Bench::new();
    bench.fake.write("/a", "memory.max", &format!("{}\n", 80 * MIB));
    for (wanted, words) in [
        (MIB + 1, "not whole pages"),
        (4096, "below the floor of 1048576"),
        (81 * MIB, "above memory.max, which is 83886080"),
    ] {
        let (outcome, reason) = bench.set(Some(wanted));
        assert!(outcome == Outcome::Refused && reason.contains(words), "{reason}");
    }
    assert_eq!(bench.high(), "max");
}

#[test]
fn a_floor_that_rises_ends_the_lowering() {
    let mut bench = Bench::new();
    bench.set(Some(24 * MIB));
    bench.obey();
    bench.fake.write("/a", "memory.low", &format!("{}\n", 40 * MIB));
    bench.step();
    assert_eq!((bench.limit.target(), bench.high()), (None, (48 * MIB).to_string()));
    assert!(bench.limit.remark().contains("the floor rose to 41943040"));
}

#[test]
fn a_limit_of_ours_below_a_risen_floor_is_lifted() {
    let mut bench = Bench::new();
    bench.set(Some(64 * MIB));
    bench.fake.write("/a", "memory.low", &format!("{}\n", 65 * MIB));
    bench.check(false);
    assert_eq!(bench.high(), (64 * MIB).to_string());
    bench.check(true);
    assert_eq!(bench.high(), (65 * MIB).to_string());
    assert!(bench.limit.remark().contains("the limit went with it"));
}

#[test]
fn a_change_by_someone_else_is_left_alone_until_the_next_action() {
    let mut bench = Bench::new();
    bench.set(Some(24 * MIB));
    bench.fake.write("/a", HIGH, "99000320\n");
    bench.step();
    assert_eq!((bench.limit.target(), bench.high().as_str()), (None, "99000320"));
    assert!(bench.limit.remark().contains("set to 99000320 by someone else"));
    bench.check(true);
    bench.step();
    assert_eq!(bench.high(), "99000320");
    assert_eq!(bench.set(Some(100 * MIB)).0, Outcome::Applied);
    assert_eq!(bench.limit.remark(), "");
    bench.fake.write("/a", HIGH, "max\n");
    bench.check(true);
    assert!(bench.limit.remark().contains("set to max by someone else (it was 104857600)"));
}

#[test]
fn refused_writes_and_removed_cgroups_are_told() {
    let mut bench = Bench::new();
    bench.fake.refuse("/a", RECLAIM);
    let (outcome, reason) = bench.set(Some(24 * MIB));
    assert!(outcome == Outcome::Failed && reason.contains("memory.reclaim"), "{reason}");
    fs::remove_dir_all(bench.fs.dir("/a")).unwrap();
    let (fs, writer) = (&bench.fs, &mut bench.writer);
    let usage = Usage { current: 64 * MIB, ..Usage::default() };
    let mut with = Steering { fs, writer, step_bytes: STEP };
    assert_eq!(bench.limit.set(&mut with, Some(80 * MIB), &usage).0, Outcome::Gone);
}

/// A kernel that answers every write with the same error.
fn refuse<const ERRNO: i32>(_: &Path, _: &str) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(ERRNO))
}

#[test]
fn each_error_of_a_write_is_told_with_its_file() {
    type Refuse = fn(&Path, &str) -> io::Result<()>;
    let refusals: [(Refuse, &str); 3] = [
        (refuse::<{ libc::ENOSPC }>, "No space left on device"),
        (refuse::<{ libc::EBUSY }>, "busy"),
        (refuse::<{ libc::EPERM }>, "Operation not permitted"),
    ];
    for (write, said) in refusals {
        let mut bench = Bench::new();
        bench.writer = Writer::with(Duration::from_secs(10), write);
        for (wanted, file) in [(24 * MIB, RECLAIM), (100 * MIB, HIGH)] {
            let (outcome, reason) = bench.set(Some(wanted));
            assert_eq!(outcome, Outcome::Failed);
            let path = bench.fake.path("/a", file).display().to_string();
            assert!(reason.starts_with(&path) && reason.contains(said), "{reason}");
            assert_eq!((bench.high().as_str(), bench.limit.target()), ("max", None));
        }
    }
}

#[test]
fn without_memory_reclaim_the_limit_does_it() {
    let mut bench = Bench::new();
    fs::remove_file(bench.fake.path("/a", RECLAIM)).unwrap();
    assert_eq!(bench.set(Some(24 * MIB)).0, Outcome::Started);
    assert_eq!(bench.high(), (48 * MIB).to_string());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn lowering_ends_at_the_target_and_never_passes_the_floor(
        pages in 1_u64..16_384, floor_pages in 1_u64..16_384,
    ) {
        let mut bench = Bench::new();
        let (wanted, low) = (pages * PAGE_BYTES, floor_pages * PAGE_BYTES);
        bench.fake.write("/a", "memory.low", &format!("{low}\n"));
        let floor = bench.usage().floor;
        let (outcome, _) = bench.set(Some(wanted));
        prop_assert_eq!(outcome == Outcome::Refused, wanted < floor);
        for _ in 0..8 {
            bench.obey();
            bench.step();
            let high = bench.fs.limit("/a", HIGH).unwrap();
            prop_assert!(high.is_none_or(|high| high >= floor));
        }
        prop_assert_eq!(bench.limit.target(), None);
        if outcome != Outcome::Refused {
            prop_assert_eq!(bench.fs.limit("/a", HIGH).unwrap(), Some(wanted));
        }
    }
}
