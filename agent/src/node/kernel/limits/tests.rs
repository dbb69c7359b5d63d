// SPDX-License-Identifier: Apache-2.0

use super::lower::RECLAIM;
use super::*;
use crate::node::kernel::fake::{Fake, MIB, replace};
use proptest::prelude::*;
use std::fs;
use std::time::Duration;

const STEP: u64 = 16 * MIB;

pub(super) struct Bench {
    pub(super) fake: Fake,
    fs: CgroupFs,
    pub(super) writer: Writer,
    pub(super) limit: Limit,
}

impl Bench {
    pub(super) fn new() -> Self {
        let fake = Fake::new(&["/a"]);
        let fs = fake.fs();
        let limit = Limit::read(&fs, "/a", fs.id("/a").unwrap()).unwrap();
        Self { fake, fs, writer: Writer::new(Duration::from_secs(10)), limit }
    }

    fn usage(&self) -> Usage {
        Usage::read(&self.fs, "/a", MIB, 0).unwrap()
    }

    pub(super) fn set(&mut self, wanted: Option<u64>) -> Verdict {
        let usage = self.usage();
        let (fs, writer) = (&self.fs, &mut self.writer);
        self.limit.set(&mut Steering { fs, writer, step_bytes: STEP }, wanted, &usage)
    }

    /// Makes a step, after which the kernel has reclaimed the requested memory.
    pub(super) fn step(&mut self) {
        let usage = self.usage();
        let (fs, writer) = (&self.fs, &mut self.writer);
        self.limit.step(&mut Steering { fs, writer, step_bytes: STEP }, &usage);
        self.obey();
    }

    pub(super) fn check(&mut self, ours: bool) {
        let usage = self.usage();
        let (fs, writer) = (&self.fs, &mut self.writer);
        self.limit.check(&mut Steering { fs, writer, step_bytes: STEP }, &usage, 0, ours).unwrap();
    }

    /// Makes the operating system refuse every write from now on.
    pub(super) fn refuses(&mut self) {
        self.writer.write_by(Duration::from_secs(10), refuse::<{ libc::EPERM }>);
    }

    /// Makes every write complete at once from now on.
    pub(super) fn is_quick(&mut self) {
        self.writer.write_by(Duration::from_secs(10), |_, path, text| replace(path, text));
    }

    /// Checks and steps for longer than a slow write takes.
    fn follow(&mut self) {
        for _ in 0..100 {
            self.check(true);
            self.step();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(super) fn obey(&self) {
        if let Some(high) = self.fs.limit("/a", HIGH).unwrap() {
            self.fake.uses("/a", high.min(self.usage().current));
        }
    }

    pub(super) fn high(&self) -> String {
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
fn unused_memory_is_taken_at_once() {
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
fn a_limit_that_is_requested_again_continues() {
    let mut bench = Bench::new();
    assert_eq!(bench.set(Some(24 * MIB)).0, Outcome::Started);
    bench.fake.write("/a", RECLAIM, "");
    assert_eq!(bench.set(Some(24 * MIB)).0, Outcome::Started);
    assert_eq!((bench.fake.read("/a", RECLAIM), bench.high()), ("".into(), (48 * MIB).to_string()));
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

/// A kernel that takes a fifth of a second for each write, also before it lowers a limit.
fn slow(_: u64, path: &Path, text: &str) -> io::Result<()> {
    std::thread::sleep(Duration::from_millis(200));
    replace(path, text)
}

#[test]
fn a_raise_while_the_kernel_reclaims_holds_at_once_and_at_the_end() {
    let mut bench = Bench::new();
    fs::remove_file(bench.fake.path("/a", RECLAIM)).unwrap();
    bench.writer = Writer::with(Duration::from_millis(1), slow);
    assert_eq!(bench.set(Some(32 * MIB)).0, Outcome::Started);
    bench.is_quick();
    assert_eq!(bench.set(Some(100 * MIB)).0, Outcome::Applied);
    assert_eq!(bench.high(), (100 * MIB).to_string());
    bench.follow();
    // The lowering was written last, and no other program wrote the limit.
    assert_eq!(bench.high(), (100 * MIB).to_string());
    assert_eq!((bench.limit.remark(), bench.limit.is_moving()), ("", false));
}

#[test]
fn a_limit_between_what_is_set_and_what_is_used_is_raised() {
    let mut bench = Bench::new();
    // Reclaim has not reached the limit yet.
    bench.fake.write("/a", HIGH, &format!("{}\n", 32 * MIB));
    assert_eq!(bench.set(Some(48 * MIB)).0, Outcome::Applied);
    assert_eq!(bench.high(), (48 * MIB).to_string());
}

#[test]
fn a_limit_is_lowered_though_every_reclaim_takes_longer_than_is_waited_for() {
    let mut bench = Bench::new();
    bench.writer = Writer::with(Duration::from_millis(1), |_, path, text| {
        std::thread::sleep(Duration::from_millis(20));
        replace(path, text)
    });
    assert_eq!(bench.set(Some(32 * MIB)).0, Outcome::Started);
    for _ in 0..200 {
        // The requested memory is reclaimed, and half of it is read again before the next step.
        let current = bench.usage().current;
        bench.fake.uses("/a", current.saturating_sub(4 * MIB).max(30 * MIB));
        bench.writer.renew();
        bench.step();
        std::thread::sleep(Duration::from_millis(5));
        if !bench.limit.is_moving() {
            break;
        }
        bench.fake.uses("/a", current.min(bench.usage().current + 2 * MIB));
    }
    assert_eq!(bench.high(), (32 * MIB).to_string());
}

#[test]
fn a_raise_does_not_wait_for_the_raise_before_it() {
    let mut bench = Bench::new();
    bench.fake.write("/a", HIGH, &format!("{}\n", 32 * MIB));
    // The kernel has to reclaim for the first limit, as the cgroup uses more.
    bench.writer = Writer::with(Duration::from_millis(1), slow);
    assert_eq!(bench.set(Some(48 * MIB)).0, Outcome::Started);
    bench.is_quick();
    assert_eq!(bench.set(Some(100 * MIB)).0, Outcome::Applied);
    bench.follow();
    assert_eq!(bench.high(), (100 * MIB).to_string());
    assert_eq!((bench.limit.remark(), bench.limit.is_moving()), ("", false));
}

#[test]
fn a_refused_action_leaves_a_raise_under_way() {
    let mut bench = Bench::new();
    fs::remove_file(bench.fake.path("/a", RECLAIM)).unwrap();
    bench.writer = Writer::with(Duration::from_millis(1), slow);
    bench.set(Some(32 * MIB));
    bench.is_quick();
    bench.set(Some(100 * MIB));
    assert_eq!(bench.set(Some(4096)).0, Outcome::Refused);
    bench.follow();
    assert_eq!(bench.high(), (100 * MIB).to_string());
}

#[test]
fn a_raise_that_fails_late_is_not_blamed_on_another_program() {
    let mut bench = Bench::new();
    bench.fake.write("/a", HIGH, &format!("{}\n", 70 * MIB));
    bench.writer = Writer::with(Duration::from_millis(1), |_, _, _| {
        std::thread::sleep(Duration::from_millis(50));
        Err(io::Error::from_raw_os_error(libc::EPERM))
    });
    assert_eq!(bench.set(Some(100 * MIB)).0, Outcome::Started);
    std::thread::sleep(Duration::from_millis(100));
    bench.step();
    let remark = bench.limit.remark();
    assert!(remark.contains("Operation not permitted"), "{remark}");
}

#[test]
fn a_limit_restored_during_reclaim_must_be_requested_again() {
    let mut bench = Bench::new();
    fs::remove_file(bench.fake.path("/a", RECLAIM)).unwrap();
    bench.writer = Writer::with(Duration::from_millis(1), slow);
    bench.set(Some(32 * MIB));
    bench.is_quick();
    let mut outcomes = Vec::new();
    while outcomes.last() != Some(&Outcome::Unchanged) {
        // A release knows only the limit in the file.
        bench.limit = Limit::read(&bench.fs, "/a", bench.fs.id("/a").unwrap()).unwrap();
        let (fs, writer) = (&bench.fs, &mut bench.writer);
        let mut with = Steering { fs, writer, step_bytes: STEP };
        outcomes.push(bench.limit.give_back(&mut with, None).0);
        std::thread::sleep(Duration::from_millis(50));
        assert!(outcomes.len() < 100, "{outcomes:?}");
    }
    assert_eq!(outcomes[0], Outcome::Started);
    assert_eq!(bench.high(), "max");
}

#[test]
fn a_floor_that_goes_on_rising_lifts_the_limit_each_time() {
    let mut bench = Bench::new();
    bench.set(Some(64 * MIB));
    for mib in [65, 70, 90] {
        bench.fake.write("/a", "memory.low", &format!("{}\n", mib * MIB));
        bench.check(true);
        assert_eq!(bench.high(), (mib * MIB).to_string());
    }
}

#[test]
fn refused_writes_and_removed_cgroups_are_reported() {
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
fn refuse<const ERRNO: i32>(_: u64, _: &Path, _: &str) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(ERRNO))
}

#[test]
fn each_error_of_a_write_is_reported_with_its_file() {
    type Refuse = fn(u64, &Path, &str) -> io::Result<()>;
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
