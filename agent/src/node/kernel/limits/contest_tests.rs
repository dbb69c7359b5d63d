// SPDX-License-Identifier: Apache-2.0

use super::super::lower::RECLAIM;
use super::super::tests::Bench;
use super::*;
use crate::node::kernel::fake::{MIB, replace};
use crate::node::kernel::limits::writer::Writer;
use std::io;
use std::time::Duration;

/// Another program sets the limit.
fn rewrite(bench: &Bench, bytes: u64) {
    bench.fake.write("/a", HIGH, &format!("{bytes}\n"));
}

#[test]
fn a_limit_of_another_program_is_undone_once_and_then_left_alone() {
    let mut bench = Bench::new();
    bench.set(Some(100 * MIB));
    rewrite(&bench, 99_000_320);
    bench.check(true);
    assert_eq!(bench.high(), (100 * MIB).to_string());
    assert_eq!(bench.limit.contest(), Contest::Asserted);
    let told = "memory.high was set to 99000320 by someone else (it was 104857600); \
                set to 104857600 once more";
    assert_eq!((bench.limit.remark(), bench.limit.contest_told()), (told, (told, 0)));
    rewrite(&bench, 98 * MIB);
    for _ in 0..3 {
        bench.check(true);
        bench.step();
        assert_eq!(bench.high(), (98 * MIB).to_string());
        assert_eq!(bench.limit.contest(), Contest::Yielded);
    }
    assert!(bench.limit.remark().contains("who had been corrected once; left alone"));
    rewrite(&bench, 97 * MIB);
    bench.check(true);
    assert_eq!((bench.high(), bench.limit.bytes()), ((97 * MIB).to_string(), Some(97 * MIB)));
    assert_eq!(bench.limit.contest_told().1, 1, "it is the same that was yielded");
}

#[test]
fn a_reclaim_that_fell_short_late_is_no_failed_write_of_the_limit() {
    let mut bench = Bench::new();
    bench.writer = Writer::with(Duration::from_millis(1), |_, path, text| {
        if path.ends_with(RECLAIM) {
            std::thread::sleep(Duration::from_millis(20));
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        replace(path, text)
    });
    assert_eq!(bench.set(Some(24 * MIB)).0, Outcome::Started);
    std::thread::sleep(Duration::from_millis(100));
    bench.is_quick();
    assert_eq!(bench.set(Some(100 * MIB)).0, Outcome::Applied);
    bench.check(true);
    rewrite(&bench, 99_000_320);
    bench.check(true);
    assert_eq!(bench.high(), (100 * MIB).to_string());
    assert_eq!(bench.limit.contest(), Contest::Asserted);
}

#[test]
fn a_limit_that_is_being_lowered_goes_on_once() {
    let mut bench = Bench::new();
    bench.set(Some(24 * MIB));
    bench.obey();
    rewrite(&bench, 99_000_320);
    bench.step();
    assert_eq!(bench.limit.target(), Some(24 * MIB));
    for _ in 0..3 {
        bench.step();
    }
    assert_eq!((bench.high(), bench.limit.target()), ((24 * MIB).to_string(), None));
    rewrite(&bench, 99_000_320);
    bench.check(true);
    assert_eq!((bench.high().as_str(), bench.limit.target()), ("99000320", None));
    assert_eq!(bench.limit.contest(), Contest::Yielded);
}

#[test]
fn actions_do_not_keep_a_fight_going() {
    let mut bench = Bench::new();
    let mut writes = 0;
    for round in 0..20 {
        // Like a controller that moves limits, but not yielded ones.
        if bench.limit.contest() != Contest::Yielded {
            bench.set(Some((100 + round) * MIB));
        }
        rewrite(&bench, 90 * MIB);
        bench.check(true);
        writes += u32::from(bench.high() != (90 * MIB).to_string());
    }
    assert_eq!((writes, bench.limit.contest()), (1, Contest::Yielded));
}

#[test]
fn an_action_for_a_yielded_limit_starts_again() {
    let mut bench = Bench::new();
    bench.set(Some(100 * MIB));
    for yields in 1..=3 {
        for _ in 0..2 {
            rewrite(&bench, 90 * MIB);
            bench.check(true);
        }
        assert_eq!(bench.limit.contest_told().1, yields);
        // An action for the present value ends the yield, too.
        assert_eq!(bench.set(Some(90 * MIB)).0, Outcome::Unchanged);
        assert_eq!((bench.limit.contest(), bench.limit.remark()), (Contest::None, ""));
        bench.set(Some(100 * MIB));
    }
}

#[test]
fn a_refused_action_leaves_a_yielded_limit() {
    let mut bench = Bench::new();
    bench.set(Some(100 * MIB));
    for _ in 0..2 {
        rewrite(&bench, 90 * MIB);
        bench.check(true);
    }
    assert_eq!(bench.set(Some(4096)).0, Outcome::Refused);
    assert_eq!(bench.limit.contest(), Contest::Yielded);
}

#[test]
fn a_limit_of_an_agent_before_this_one_is_defended_once() {
    let mut bench = Bench::new();
    rewrite(&bench, 100 * MIB);
    bench.check(true);
    rewrite(&bench, 90 * MIB);
    bench.check(true);
    assert_eq!((bench.high(), bench.limit.contest()), ((100 * MIB).to_string(), Contest::Asserted));
}

#[test]
fn a_limit_yielded_by_an_earlier_agent_stays_yielded() {
    let mut bench = Bench::new();
    rewrite(&bench, 90 * MIB);
    bench.limit.was_yielded();
    bench.check(true);
    rewrite(&bench, 80 * MIB);
    bench.fake.write("/a", "memory.low", &format!("{}\n", 85 * MIB));
    bench.check(true);
    assert_eq!((bench.high(), bench.limit.contest()), ((80 * MIB).to_string(), Contest::Yielded));
}

#[test]
fn the_operators_own_limit_is_theirs_to_change() {
    let mut bench = Bench::new();
    bench.check(false);
    rewrite(&bench, 90 * MIB);
    bench.check(false);
    assert_eq!(bench.limit.contest(), Contest::Foreign);
    assert!(bench.limit.remark().contains("set to 94371840 by someone else (it was max)"));
    // The limit differs from the first one, but is still not this agent's.
    rewrite(&bench, 80 * MIB);
    bench.fake.write("/a", "memory.low", &format!("{}\n", 85 * MIB));
    bench.check(true);
    assert_eq!(bench.high(), (80 * MIB).to_string());
}

#[test]
fn a_limit_below_a_floor_that_rose_is_set_to_the_floor() {
    let mut bench = Bench::new();
    bench.set(Some(70 * MIB));
    rewrite(&bench, 90 * MIB);
    bench.fake.write("/a", "memory.low", &format!("{}\n", 75 * MIB));
    bench.check(true);
    assert_eq!(bench.high(), (75 * MIB).to_string());
}

#[test]
fn a_limit_that_cannot_be_set_once_more_says_why() {
    let mut bench = Bench::new();
    bench.set(Some(100 * MIB));
    rewrite(&bench, 90 * MIB);
    bench.refuses();
    bench.check(true);
    assert!(bench.limit.remark().contains("not set to 104857600 once more: "));
    bench.check(true);
    assert_eq!((bench.high(), bench.limit.contest()), ((90 * MIB).to_string(), Contest::Asserted));
}
