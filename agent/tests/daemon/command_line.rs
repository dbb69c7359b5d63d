// SPDX-License-Identifier: Apache-2.0
//! The program itself.

use cachepilot_agent::daemon::state::{Lease, State, Store};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

pub fn agent(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cachepilot-agent")).args(arguments).output().unwrap()
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn check_config_prints_what_holds() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/agent.toml");
    let output = agent(&["check-config", "--config", example, "--json"]);
    assert!(output.status.success(), "{output:?}");
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&shown["tick_ms"], &shown["kind"]), (&50.into(), &"auto".into()));
    let output = agent(&["check-config", "--config", example]);
    assert!(text(&output.stdout).contains("controller           http://127.0.0.1:7070\n"));
}

#[test]
fn bad_input_is_one_line_and_status_2() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    let path = file.to_str().unwrap();
    for (bad, expected) in [
        ("tick_ms = 5", "tick_ms = 5: 10 to 1000 is allowed"),
        ("nope = 5", "unknown field `nope`"),
        ("[simulated]", "[simulated]: only kind"),
        ("[kernel]\nmuont = \"/a\"", "unknown field `muont`"),
        ("[curves]\nsede = 1", "unknown field `sede`"),
        ("kind = \"simulated\"\n[simulated]\nbugdet = 1", "unknown field `bugdet`"),
    ] {
        fs::write(&file, bad).unwrap();
        for command in ["run", "check-config"] {
            let output = agent(&[command, "--config", path]);
            let message = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{message}");
            assert!(message.contains(path) && message.contains(expected), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }
    let output = agent(&["run", "--config", path, "--log-level", "loud"]);
    assert_eq!((output.status.code(), text(&output.stderr).lines().count()), (Some(2), 1));
}

/// A hierarchy of one cgroup, whose limit an agent has set that runs no more; its configuration.
pub fn held(dir: &Path) -> PathBuf {
    let (cgroup, state) = (dir.join("cgroup/a"), dir.join("state"));
    fs::create_dir_all(&cgroup).unwrap();
    fs::create_dir_all(&state).unwrap();
    for (name, content) in [
        ("memory.current", "4096"),
        ("memory.high", "8388608"),
        ("memory.max", "max"),
        ("memory.min", "0"),
        ("memory.low", "0"),
        ("memory.stat", "file 0"),
        ("memory.reclaim", ""),
    ] {
        fs::write(cgroup.join(name), content).unwrap();
    }
    let id = fs::metadata(&cgroup).unwrap().ino();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let entry = r#"{"cgroup": "/a", "high_bytes": null, "policy": "default"}"#;
    let boot = boot.trim();
    let ledger =
        format!(r#"{{"version": 1, "boot_id": "{boot}", "entries": {{"{id}": {entry}}}}}"#);
    fs::write(state.join("ledger.json"), ledger).unwrap();
    let config = dir.join("agent.toml");
    let mount = dir.join("cgroup");
    fs::write(mount.join("cgroup.controllers"), "memory\n").unwrap();
    let kernel = format!("[kernel]\nmount = {mount:?}\n");
    // Certificates are missing that only a session needs.
    let tls = "[tls]\nca = \"/nowhere/ca\"\ncertificate = \"/nowhere/c\"\nkey = \"/nowhere/k\"\n";
    let kernel = format!("controller = \"https://localhost:1\"\n{kernel}{tls}");
    let text = format!("kind = \"stock\"\nmetrics = \"\"\nstate_dir = {state:?}\n{kernel}");
    fs::write(&config, text).unwrap();
    config
}

#[test]
fn a_certificate_that_is_missing_is_a_warning_as_the_agent_has_more_to_do_than_talk() {
    let dir = tempfile::tempdir().unwrap();
    let config = held(dir.path());
    let output = agent(&["check-config", "--config", config.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let warning = text(&output.stderr);
    assert!(warning.starts_with("warning: tls.ca = \"/nowhere/ca\": No such file"), "{warning}");
}

#[test]
fn a_mount_that_is_no_hierarchy_is_a_warning_as_the_configuration_may_be_for_another_machine() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("agent.toml");
    fs::write(&config, format!("kind = \"stock\"\n[kernel]\nmount = {:?}\n", dir.path())).unwrap();
    let output = agent(&["check-config", "--config", config.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let warning = text(&output.stderr);
    assert!(warning.contains("not a cgroup v2 hierarchy"), "{warning}");
}

#[test]
fn release_gives_back_what_is_held_without_an_agent() {
    let dir = tempfile::tempdir().unwrap();
    let config = held(dir.path());
    // Nothing but where something is held matters here.
    let mistaken = format!("noed = 1\n{}", fs::read_to_string(&config).unwrap());
    fs::write(&config, mistaken).unwrap();
    let high = || fs::read_to_string(dir.path().join("cgroup/a/memory.high")).unwrap();
    let release =
        |more: &[&str]| agent(&[&["release", "--config", config.to_str().unwrap()], more].concat());
    let output = release(&["--if-lease-ended"]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert_eq!(high(), "8388608");

    let lock = Store::open(&dir.path().join("state")).unwrap();
    let output = release(&[]);
    assert_eq!((output.status.code(), high().as_str()), (Some(1), "8388608"));
    assert!(text(&output.stderr).contains("another agent runs"), "{output:?}");
    let lease = Some(Lease { deadline_ms: 1, length_ms: 1 });
    lock.0.write(&State { lease, ..State::default() }).unwrap();
    drop(lock);

    let output = release(&["--if-lease-ended", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&shown[0]["cgroup"], &shown[0]["outcome"]), (&"/a".into(), &"APPLIED".into()));
    assert_eq!(high(), "max");
    assert_eq!(Store::open(&dir.path().join("state")).unwrap().1.lease, None);
    assert_eq!(text(&release(&[]).stdout), "no tenant was changed\n");
}

#[test]
fn release_forgets_nothing_if_the_hierarchy_is_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let config = held(dir.path());
    let release = || agent(&["release", "--config", config.to_str().unwrap()]);
    let right = fs::read_to_string(&config).unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    fs::write(&config, right.replace("/cgroup\"", "/empty\"")).unwrap();
    let output = release();
    let message = text(&output.stderr);
    assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{message}");
    assert!(message.contains("agent.toml: [kernel]: mount = "), "{message}");
    assert!(message.contains("empty\": not a cgroup v2 hierarchy"), "{message}");
    fs::write(&config, right).unwrap();
    assert!(release().status.success());
    assert_eq!(fs::read_to_string(dir.path().join("cgroup/a/memory.high")).unwrap(), "max");
}

#[test]
fn a_simulated_node_has_nothing_to_release() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("agent.toml");
    let state = dir.path().join("state");
    let content = format!("kind = \"simulated\"\nstate_dir = {state:?}\n[simulated]\n");
    fs::write(&config, content).unwrap();
    let release = || agent(&["release", "--config", config.to_str().unwrap()]);
    assert!(text(&release().stderr).contains("no such directory"));
    fs::create_dir(&state).unwrap();
    let output = release();
    let message = text(&output.stderr);
    assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1));
    assert!(message.contains("holds nothing"), "{message}");
}

#[test]
fn a_service_manager_is_notified_of_the_start_and_of_life() {
    let dir = tempfile::tempdir().unwrap();
    let config = held(dir.path());
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_cachepilot-agent"))
        .args(["run", "--config", config.to_str().unwrap()])
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "400000")
        .spawn()
        .unwrap();
    let told = || {
        let mut bytes = [0; 64];
        // A signal to this process, of which other tests' children send some, is no answer.
        let count = loop {
            match socket.recv(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                found => break found.unwrap(),
            }
        };
        text(&bytes[..count]).trim_end().to_owned()
    };
    assert_eq!([told(), told(), told()], ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
    child.kill().unwrap();
    child.wait().unwrap();
}
