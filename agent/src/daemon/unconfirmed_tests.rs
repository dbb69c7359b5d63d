// SPDX-License-Identifier: Apache-2.0
//! Tests of changes on trial, without a node.

use super::*;

const NOW: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

fn nothing() -> Unconfirmed {
    Unconfirmed::default().in_boot("b1")
}

fn of(cgroup: &str, cgroup_id: u64) -> wire::Action {
    wire::Action { cgroup: cgroup.into(), cgroup_id, ..wire::Action::default() }
}

/// A change from `s3fifo` to `lfu`.
fn policy(change: u64, ttl_ms: u32) -> wire::Action {
    let back = wire::Setting { policy: Some("s3fifo".into()), limit_bytes: None };
    let (policy, revert_to) = (Some("lfu".into()), Some(back));
    wire::Action { policy, revert_to, ttl_ms, change_epoch: change, ..of("/a", 1) }
}

fn limit(whose: wire::Action, mib: u64, back_mib: u64) -> wire::Action {
    let back = wire::Setting { policy: None, limit_bytes: Some(back_mib * MIB) };
    let (limit_bytes, revert_to) = (Some(mib * MIB), Some(back));
    wire::Action { limit_bytes, revert_to, ttl_ms: 1_000, change_epoch: 8, ..whose }
}

fn about(change: u64, ttl_ms: u32) -> wire::Action {
    wire::Action { change_epoch: change, ttl_ms, ..of("/a", 1) }
}

fn came_to(action: &wire::Action, outcome: Outcome, policy: &str) -> wire::Result {
    wire::Result {
        cgroup: action.cgroup.clone(),
        outcome: outcome.into(),
        policy: policy.into(),
        ..wire::Result::default()
    }
}

/// Admits an action and records its outcome.
fn did(unconfirmed: &mut Unconfirmed, action: &wire::Action, outcome: Outcome) {
    assert_eq!(unconfirmed.admit(std::slice::from_ref(action), NOW), [None]);
    let now = action.policy.clone().unwrap_or_default();
    unconfirmed.settle(action, &came_to(action, outcome, &now));
}

fn tenant(cgroup: &str, cgroup_id: u64, policy: &str, mib: u64) -> wire::Tenant {
    wire::Tenant {
        cgroup: cgroup.into(),
        cgroup_id,
        policy: policy.into(),
        limit_bytes: mib * MIB,
        target_limit_bytes: mib * MIB,
        ..wire::Tenant::default()
    }
}

fn seen() -> Vec<wire::Tenant> {
    vec![tenant("/a", 1, "lfu", 64)]
}

fn answer(unconfirmed: &mut Unconfirmed, action: wire::Action, now_ms: u64) -> (Outcome, String) {
    let answers = unconfirmed.admit(&[action], now_ms);
    let result = answers[0].clone().expect("an answer without the node");
    (result.outcome(), result.reason)
}

#[test]
fn a_change_is_undone_when_its_time_is_over_and_not_before() {
    let mut unconfirmed = nothing();
    did(&mut unconfirmed, &policy(7, 1_000), Outcome::Applied);
    assert_eq!(unconfirmed.overdue(&seen(), NOW + 999), []);
    let back = wire::Action { policy: Some("s3fifo".into()), ..of("/a", 1) };
    assert_eq!(unconfirmed.overdue(&seen(), NOW + 1_000), std::slice::from_ref(&back));
    unconfirmed.tried(&back, &came_to(&back, Outcome::Applied, "s3fifo"), NOW + 1_000);
    assert_eq!(unconfirmed.overdue(&seen(), NOW + 9_000), [], "once is enough");
    let told = unconfirmed.told(&seen()[0], NOW + 9_000).unwrap();
    assert_eq!((told.epoch, told.left_ms, told.undone), (7, 0, true));
    // The controller acknowledges that the change was undone.
    assert_eq!(answer(&mut unconfirmed, about(7, 0), NOW).0, Outcome::Unchanged);
    assert!(unconfirmed.is_empty());
}

#[test]
fn a_renewed_change_waits_and_needs_its_name() {
    let mut unconfirmed = nothing();
    did(&mut unconfirmed, &policy(7, 1_000), Outcome::Applied);
    assert_eq!(answer(&mut unconfirmed, about(7, 1_000), NOW + 900).0, Outcome::Unchanged);
    assert_eq!(unconfirmed.told(&seen()[0], NOW + 1_000).unwrap().left_ms, 900);
    for (name, word) in [(6, "change 6 does not wait"), (8, "change 8 does not wait")] {
        let told = answer(&mut unconfirmed, about(name, 60_000), NOW + 1_800);
        assert_eq!(told, (Outcome::Refused, word.into()));
    }
    assert_eq!(unconfirmed.overdue(&seen(), NOW + 1_899), []);
    assert_eq!(unconfirmed.overdue(&seen(), NOW + 1_900).len(), 1);
}

#[test]
fn a_confirmed_change_stays_and_needs_its_name() {
    let mut unconfirmed = nothing();
    did(&mut unconfirmed, &policy(7, 1_000), Outcome::Applied);
    assert_eq!(answer(&mut unconfirmed, about(8, 0), NOW).0, Outcome::Refused);
    assert_eq!(answer(&mut unconfirmed, about(7, 0), NOW).0, Outcome::Unchanged);
    assert_eq!(unconfirmed.overdue(&seen(), NOW + 9_000), []);
    assert_eq!(answer(&mut unconfirmed, about(7, 0), NOW).0, Outcome::Refused);
}

#[test]
fn the_same_change_twice_is_one() {
    let mut unconfirmed = nothing();
    did(&mut unconfirmed, &policy(7, 1_000), Outcome::Applied);
    did(&mut unconfirmed, &policy(7, 1_000), Outcome::Unchanged);
    assert_eq!(unconfirmed.waiting(), 1);
}

#[test]
fn a_restart_forgets_nothing_but_a_boot_does() {
    let mut unconfirmed = nothing();
    did(&mut unconfirmed, &policy(7, 1_000), Outcome::Applied);
    let text = serde_json::to_string(&unconfirmed).unwrap();
    let read = || serde_json::from_str::<Unconfirmed>(&text).unwrap();
    assert_eq!(read().in_boot("b1"), unconfirmed);
    assert_eq!(read().in_boot("b1").overdue(&seen(), NOW + 1_000).len(), 1);
    for other in ["b2", ""] {
        assert!(read().in_boot(other).is_empty());
    }
}

#[test]
fn a_newer_wish_that_is_there_to_stay_ends_the_trial_of_what_it_replaces() {
    let mut unconfirmed = nothing();
    did(&mut unconfirmed, &policy(7, 1_000), Outcome::Applied);
    did(&mut unconfirmed, &limit(of("/a", 1), 64, 32), Outcome::Applied);
    let pin = wire::Action { policy: Some("mru".into()), ..of("/a", 1) };
    for outcome in [Outcome::Failed, Outcome::Refused] {
        did(&mut unconfirmed, &pin, outcome);
        assert_eq!(unconfirmed.waiting(), 2, "it is not in force");
    }
    did(&mut unconfirmed, &pin, Outcome::Applied);
    let left = unconfirmed.overdue(&seen(), NOW + 1_000);
    assert_eq!(left, [wire::Action { limit_bytes: Some(32 * MIB), ..of("/a", 1) }]);
    did(&mut unconfirmed, &wire::Action { limit_bytes: Some(0), ..of("/a", 1) }, Outcome::Applied);
    assert!(unconfirmed.is_empty());
}

#[test]
fn a_newer_trial_takes_the_place_of_the_last() {
    let mut unconfirmed = nothing();
    did(&mut unconfirmed, &policy(7, 1_000), Outcome::Applied);
    did(&mut unconfirmed, &policy(9, 5_000), Outcome::Applied);
    assert_eq!(answer(&mut unconfirmed, about(7, 0), NOW).0, Outcome::Refused);
    assert_eq!(unconfirmed.overdue(&seen(), NOW + 4_999), []);
    assert_eq!(unconfirmed.overdue(&seen(), NOW + 5_000).len(), 1);
}

#[test]
fn a_rollback_that_fails_is_tried_again() {
    let mut unconfirmed = nothing();
    did(&mut unconfirmed, &policy(7, 60_000), Outcome::Applied);
    let mut now = NOW + 60_000;
    for _ in 0..3 {
        let back = unconfirmed.overdue(&seen(), now).remove(0);
        unconfirmed.tried(&back, &came_to(&back, Outcome::Failed, "lfu"), now);
        assert_eq!(unconfirmed.overdue(&seen(), now + FAILED_AGAIN_MS - 1), []);
        now += FAILED_AGAIN_MS;
    }
    let back = unconfirmed.overdue(&seen(), now).remove(0);
    assert_eq!(back.policy.as_deref(), Some("s3fifo"));
    // The node no longer has the policy.
    unconfirmed.tried(&back, &came_to(&back, Outcome::Refused, "lfu"), now);
    let back = unconfirmed.overdue(&seen(), now + REFUSED_AGAIN_MS).remove(0);
    assert_eq!(back.policy.as_deref(), Some(wire::DEFAULT_POLICY));
    unconfirmed.tried(&back, &came_to(&back, Outcome::Gone, ""), now);
    assert!(unconfirmed.is_empty());
}

#[test]
fn a_policy_that_another_program_attached_is_left_alone() {
    for (now, left_alone) in [("mru", true), ("lfu", false), ("s3fifo", false)] {
        let mut unconfirmed = nothing();
        did(&mut unconfirmed, &policy(7, 1_000), Outcome::Applied);
        let tenants = [tenant("/a", 1, now, 64)];
        assert_eq!(unconfirmed.overdue(&tenants, NOW + 1_000).is_empty(), left_alone, "{now}");
    }
    // Attaching failed halfway. The default that is in force now was not set by another program.
    let mut unconfirmed = nothing();
    let action = policy(7, 1_000);
    assert_eq!(unconfirmed.admit(std::slice::from_ref(&action), NOW), [None]);
    unconfirmed.settle(&action, &came_to(&action, Outcome::Failed, "default"));
    let tenants = [tenant("/a", 1, "default", 64)];
    assert_eq!(unconfirmed.overdue(&tenants, NOW + 1_000).len(), 1);
}

#[test]
fn memory_is_taken_back_before_it_is_given_back() {
    let mut unconfirmed = nothing();
    did(&mut unconfirmed, &limit(of("/donor", 1), 32, 64), Outcome::Applied);
    did(&mut unconfirmed, &limit(of("/taker", 2), 96, 64), Outcome::Applied);
    let mut tenants = vec![tenant("/donor", 1, "lfu", 32), tenant("/taker", 2, "lfu", 96)];
    let now = NOW + 1_000;
    let first = unconfirmed.overdue(&tenants, now);
    assert_eq!(first, [wire::Action { limit_bytes: Some(64 * MIB), ..of("/taker", 2) }]);
    unconfirmed.tried(&first[0], &came_to(&first[0], Outcome::Started, "lfu"), now);
    tenants[1].target_limit_bytes = 64 * MIB;
    assert_eq!(unconfirmed.overdue(&tenants, now + 1_000), [], "it is on its way down");
    tenants[1].limit_bytes = 64 * MIB;
    let then = unconfirmed.overdue(&tenants, now + 2_000);
    assert_eq!(then, [wire::Action { limit_bytes: Some(64 * MIB), ..of("/donor", 1) }]);
}

#[test]
fn a_clock_set_back_makes_no_change_live_longer() {
    let mut unconfirmed = nothing();
    did(&mut unconfirmed, &policy(7, 1_000), Outcome::Applied);
    assert_eq!(unconfirmed.overdue(&seen(), NOW - 500_000), []);
    assert_eq!(unconfirmed.overdue(&seen(), NOW - 500_000 + 1_000).len(), 1);
}

#[test]
fn an_action_without_a_rollback_is_not_on_trial() {
    let mut unconfirmed = nothing();
    let plain = wire::Action { policy: Some("lfu".into()), ..of("/a", 1) };
    assert_eq!(unconfirmed.admit(&[plain, of("/a", 1)], NOW), [None, None]);
    assert!(unconfirmed.is_empty());
}

#[test]
fn invalid_values_are_refused_and_named() {
    let mut unconfirmed = nothing();
    let back = wire::Setting { policy: None, limit_bytes: Some(0) };
    let cases = [
        (policy(7, 0), "ttl_ms: 0 (allowed: 1 to 86400000)"),
        (policy(7, TTL_MAX_MS + 1), "ttl_ms: 86400001 (allowed: 1 to 86400000)"),
        (policy(0, 1), "change_epoch: 0 (allowed: a name, with revert_to)"),
        (
            wire::Action { revert_to: Some(back), ..policy(7, 1) },
            "revert_to: limit_bytes is not among what is set",
        ),
    ];
    for (action, expected) in cases {
        assert_eq!(answer(&mut unconfirmed, action, NOW), (Outcome::Refused, expected.into()));
    }
    assert!(unconfirmed.is_empty());
}

#[test]
fn undone_changes_of_removed_tenants_are_forgotten() {
    let mut unconfirmed = nothing();
    did(&mut unconfirmed, &policy(7, 1_000), Outcome::Applied);
    let back = unconfirmed.overdue(&seen(), NOW + 1_000).remove(0);
    unconfirmed.tried(&back, &came_to(&back, Outcome::Applied, "s3fifo"), NOW + 1_000);
    assert_eq!((unconfirmed.waiting(), unconfirmed.is_empty()), (0, false));
    unconfirmed.overdue(&[tenant("/a", 2, "lfu", 64)], NOW + 2_000);
    assert!(unconfirmed.is_empty());
}

#[test]
fn the_whole_rollback_of_a_waiting_change_is_reported() {
    let mut unconfirmed = nothing();
    assert_eq!(unconfirmed.told(&seen()[0], NOW), None);
    did(&mut unconfirmed, &policy(7, 1_000), Outcome::Applied);
    let setting = |policy: &str, mib: u64| {
        Some(wire::Setting { policy: Some(policy.into()), limit_bytes: Some(mib * MIB) })
    };
    let told = unconfirmed.told(&seen()[0], NOW + 400).unwrap();
    let expected = wire::Unconfirmed {
        epoch: 7,
        revert_to: setting("s3fifo", 64),
        left_ms: 600,
        undone: false,
    };
    assert_eq!(told, expected);
    did(&mut unconfirmed, &limit(of("/a", 1), 64, 32), Outcome::Applied);
    let told = unconfirmed.told(&seen()[0], NOW).unwrap();
    assert_eq!((told.epoch, told.revert_to), (8, setting("lfu", 32)), "the newer of two alike");
}

#[test]
fn two_waiting_changes_are_reported_in_turn() {
    let mut unconfirmed = nothing();
    did(&mut unconfirmed, &policy(7, 1_000), Outcome::Applied);
    did(&mut unconfirmed, &limit(of("/a", 1), 64, 32), Outcome::Applied);
    let mut names = Vec::new();
    for passed_ms in (100..5_000).step_by(100) {
        assert_eq!(unconfirmed.overdue(&seen(), NOW + passed_ms), []);
        let told = unconfirmed.told(&seen()[0], NOW + passed_ms).unwrap();
        answer(&mut unconfirmed, about(told.epoch, 1_000), NOW + passed_ms);
        names.push(told.epoch);
    }
    assert_eq!(names[..4], [8, 7, 8, 7]);
}

#[test]
fn a_limit_that_another_program_sets_is_not_rolled_back() {
    let mut unconfirmed = nothing();
    let mut yielded = tenant("/a", 1, "lfu", 90);
    let trial = limit(of("/a", 1), 64, 100);
    did(&mut unconfirmed, &trial, Outcome::Applied);
    let due = NOW + 2_000;
    assert_eq!(unconfirmed.overdue(std::slice::from_ref(&yielded), due).len(), 1);
    let kind = wire::condition::Kind::LimitYielded.into();
    yielded.conditions = vec![wire::Condition { kind, ..wire::Condition::default() }];
    assert_eq!(unconfirmed.overdue(&[yielded], due), []);
    assert!(unconfirmed.is_empty());
}

#[test]
fn a_long_rollback_is_finished_by_the_next_agent() {
    let mut unconfirmed = nothing();
    did(&mut unconfirmed, &limit(of("/a", 1), 96, 64), Outcome::Applied);
    let mut tenants = [tenant("/a", 1, "lfu", 96)];
    let back = unconfirmed.overdue(&tenants, NOW + 1_000).remove(0);
    unconfirmed.tried(&back, &came_to(&back, Outcome::Started, "lfu"), NOW + 1_000);
    // The controller gets one report that the change was undone. Its acknowledgement does not end
    // the rollback that is under way.
    assert!(unconfirmed.told(&tenants[0], NOW + 1_000).unwrap().undone);
    assert_eq!(answer(&mut unconfirmed, about(8, 1_000), NOW + 1_000).0, Outcome::Refused);
    assert_eq!(answer(&mut unconfirmed, about(8, 0), NOW + 1_000).0, Outcome::Unchanged);
    assert_eq!(unconfirmed.told(&tenants[0], NOW + 1_000), None);
    let text = serde_json::to_string(&unconfirmed).unwrap();
    let mut next: Unconfirmed = serde_json::from_str(&text).unwrap();
    tenants[0].limit_bytes = 80 * MIB;
    assert_eq!(next.overdue(&tenants, NOW + 9_000), std::slice::from_ref(&back));
    next.tried(&back, &came_to(&back, Outcome::Failed, "lfu"), NOW + 9_000);
    assert_eq!(next.overdue(&tenants, NOW + 99_000), std::slice::from_ref(&back));
    tenants[0].limit_bytes = 64 * MIB;
    assert_eq!(next.overdue(&tenants, NOW + 99_000), []);
    assert!(next.is_empty());
    unconfirmed.tried(&back, &came_to(&back, Outcome::Unchanged, "lfu"), NOW + 9_000);
    assert!(unconfirmed.is_empty());
}

#[test]
fn finished_rollbacks_are_stored_as_by_earlier_versions() {
    let mut unconfirmed = nothing();
    did(&mut unconfirmed, &policy(7, 1_000), Outcome::Applied);
    let text = serde_json::to_string(&unconfirmed).unwrap();
    assert!(!text.contains("under_way") && !text.contains("known"), "{text}");
}
