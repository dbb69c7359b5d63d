// SPDX-License-Identifier: Apache-2.0
//! The program with a state that cannot be read: what it holds is released all the same.

use super::command_line::{agent, held, text};
use cachepilot_agent::daemon::state::{State, Store};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A running agent, which is killed at the end of the test.
struct Running(Child);

impl Running {
    fn start(config: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cachepilot-agent"));
        command.args(["run", "--config", config.to_str().unwrap()]).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// Waits until `done`, while the agent runs.
    fn until(&mut self, done: impl Fn() -> bool) {
        let began = Instant::now();
        while !done() {
            assert_eq!(self.0.try_wait().unwrap(), None, "the agent has ended");
            assert!(began.elapsed() < Duration::from_secs(30), "it takes too long");
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Puts a directory in the place of a file of the state: no read of it works, not even root's.
fn make_unreadable(dir: &Path, name: &str) {
    let path = dir.join("state").join(name);
    let _ = fs::remove_file(&path);
    fs::create_dir_all(path.join("below")).unwrap();
}

fn high(dir: &Path) -> String {
    fs::read_to_string(dir.join("cgroup/a/memory.high")).unwrap()
}

/// The state is a file again, and what was in its place is beside it.
fn is_mended(dir: &Path, name: &str) -> bool {
    let path = dir.join("state").join(name);
    path.is_file() && path.with_extension("json.damaged").join("below").is_dir()
}

#[test]
fn an_agent_releases_at_its_start_if_it_cannot_read_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let config = held(dir.path());
    make_unreadable(dir.path(), "agent.json");
    let mut agent = Running::start(&config);
    agent.until(|| high(dir.path()) == "max" && is_mended(dir.path(), "agent.json"));
}

#[test]
fn an_agent_runs_if_it_cannot_read_its_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let config = held(dir.path());
    make_unreadable(dir.path(), "ledger.json");
    let mut agent = Running::start(&config);
    agent.until(|| {
        dir.path().join("state/agent.json").is_file() && is_mended(dir.path(), "ledger.json")
    });
    assert_eq!(high(dir.path()), "8388608", "whose limit it is is not known");
}

#[test]
fn release_does_what_it_can_if_the_state_cannot_be_read() {
    for more in [&[][..], &["--if-lease-ended"]] {
        let dir = tempfile::tempdir().unwrap();
        let config = held(dir.path());
        make_unreadable(dir.path(), "agent.json");
        let output = agent(&[&["release", "--config", config.to_str().unwrap()], more].concat());
        assert!(output.status.success(), "{output:?}");
        assert_eq!(high(dir.path()), "max");
        let told = text(&output.stderr);
        assert_eq!(told.matches("cannot be read").count(), 1, "{told}");
        assert!(is_mended(dir.path(), "agent.json"));
        assert_eq!(Store::open(&dir.path().join("state")).unwrap().1.lease, None);
    }
}

#[test]
fn release_names_limits_whose_first_value_is_in_no_ledger() {
    let damages: [fn(&Path); 2] = [
        |dir| make_unreadable(dir, "ledger.json"),
        |dir| fs::write(dir.join("state/ledger.json"), "{").unwrap(),
    ];
    for damage in damages {
        for more in [&[][..], &["--if-lease-ended"]] {
            let dir = tempfile::tempdir().unwrap();
            let config = held(dir.path());
            damage(dir.path());
            let arguments = ["release", "--json", "--config", config.to_str().unwrap()];
            let output = agent(&[&arguments[..], more].concat());
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let shown = (&shown[0]["cgroup"], &shown[0]["reason"]);
            assert_eq!(shown, (&"/a".into(), &"what limit it had is not known".into()));
            let told = text(&output.stderr);
            assert_eq!(told.matches("ledger.json: ").count(), 1 + told.matches("is now").count());
            assert!(dir.path().join("state/ledger.json").is_file());
        }
    }
}

#[test]
fn a_state_of_which_nothing_has_ended_keeps_release_from_doing_anything() {
    let dir = tempfile::tempdir().unwrap();
    let config = held(dir.path());
    let (store, _) = Store::open(&dir.path().join("state")).unwrap();
    store.write(&State::default()).unwrap();
    drop(store);
    let output = agent(&["release", "--if-lease-ended", "--config", config.to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert_eq!(high(dir.path()), "8388608");
}
