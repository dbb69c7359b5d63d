// SPDX-License-Identifier: Apache-2.0
//! The program itself.

use std::fs;
use std::process::{Command, Output};

fn agent(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cachepilot-agent")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
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
