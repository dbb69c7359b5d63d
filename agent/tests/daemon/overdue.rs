// SPDX-License-Identifier: Apache-2.0
//! `release --if-lease-ended` and the changes on trial of an agent that has ended.

use super::command_line::{agent, held, text};
use cachepilot_agent::daemon::state::{State, Store};
use cachepilot_agent::daemon::unconfirmed::Unconfirmed;
use cachepilot_agent::wire::{Action, Setting};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const MIB: u64 = 1 << 20;

/// Puts the limit of `/a` on trial since `ago_ms`, for 10 s, instead of one of 20 MiB.
fn put_on_trial(dir: &Path, ago_ms: u64) {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let mut unconfirmed = Unconfirmed::default().in_boot(boot.trim());
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let action = Action {
        cgroup: "/a".into(),
        cgroup_id: fs::metadata(dir.join("cgroup/a")).unwrap().ino(),
        limit_bytes: Some(8 * MIB),
        revert_to: Some(Setting { policy: None, limit_bytes: Some(20 * MIB) }),
        ttl_ms: 10_000,
        change_epoch: 7,
        ..Action::default()
    };
    unconfirmed.admit(&[action], now_ms - ago_ms);
    let (store, _) = Store::open(&dir.join("state")).unwrap();
    store.write(&State { last_epoch: 7, unconfirmed, ..State::default() }).unwrap();
}

fn after_release(ago_ms: u64) -> (String, String, State) {
    let dir = tempfile::tempdir().unwrap();
    let config = held(dir.path());
    put_on_trial(dir.path(), ago_ms);
    let config = config.to_str().unwrap();
    let output = agent(&["release", "--if-lease-ended", "--json", "--config", config]);
    assert!(output.status.success(), "{output:?}");
    let high = fs::read_to_string(dir.path().join("cgroup/a/memory.high")).unwrap();
    let state = Store::open(&dir.path().join("state")).unwrap().1;
    (high, text(&output.stdout).into(), state)
}

#[test]
fn a_change_whose_time_is_over_is_undone_and_nothing_else() {
    let (high, shown, state) = after_release(11_000);
    assert_eq!(high, (20 * MIB).to_string());
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown[0]["cgroup"], &shown[0]["outcome"]), (&"/a".into(), &"APPLIED".into()));
    assert_eq!((state.unconfirmed.waiting(), state.last_epoch), (0, 7));
    assert!(!state.unconfirmed.is_empty(), "the controller has yet to hear of it");
}

#[test]
fn a_change_that_may_still_be_confirmed_stays() {
    let (high, shown, state) = after_release(1_000);
    assert_eq!((high, shown.as_str()), ((8 * MIB).to_string(), ""));
    assert_eq!(state.unconfirmed.waiting(), 1);
}
