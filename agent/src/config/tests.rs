// SPDX-License-Identifier: Apache-2.0
//! Accepted and refused configurations.

use super::*;
use proptest::prelude::*;

fn parse(text: &str) -> Result<Config> {
    Config::parse(Path::new("agent.toml"), text)
}

fn refused(text: &str) -> String {
    let error = parse(text).unwrap_err();
    assert!(matches!(error, Error::Config { .. }) && error.exit_status() == 2);
    let message = error.to_string();
    assert!(message.starts_with("agent.toml: ") && !message.contains('\n'), "{message}");
    message["agent.toml: ".len()..].to_owned()
}

#[test]
fn an_empty_file_is_a_configuration() {
    let config = parse("").unwrap();
    assert_eq!(config.controller, "http://127.0.0.1:7070");
    assert_eq!(config.metrics, Some("127.0.0.1:9435".parse().unwrap()));
    assert_eq!((config.kind, config.times.tick.as_millis()), (Kind::Auto, 50));
    assert_eq!(config.node, fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim());
}

#[test]
fn the_example_says_what_holds_without_it() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/agent.toml");
    let config = Config::load(Path::new(example)).unwrap();
    let plain = parse("").unwrap().shown();
    let shown = config.shown();
    let text = fs::read_to_string(example).unwrap();
    for (key, value) in shown.as_object().unwrap() {
        assert!(text.contains(key), "{key} is missing in the example");
        if key != "kernel" && key != "curves" && key != "simulated" {
            assert_eq!(value, &plain[key], "{key}");
        }
    }
}

#[test]
fn sections_of_others_are_kept_as_they_are() {
    let config = parse("kind = \"simulated\"\n[simulated]\nseed = 3\n[simulated.device]\na = 1");
    let section = config.unwrap().simulated.unwrap();
    assert_eq!(section["seed"].as_integer(), Some(3));
    assert_eq!(section["device"]["a"].as_integer(), Some(1));
}

#[test]
fn every_time_out_of_its_range_is_refused() {
    let keys = ["tick", "connect_timeout", "send_timeout", "plan_timeout", "apply_timeout"];
    for key in keys.into_iter().chain(["stuck_timeout", "reconnect_max"]) {
        for value in ["0", "9", "3600001"] {
            let message = refused(&format!("{key}_ms = {value}"));
            let expected = format!("{key}_ms = {value}: 10 to ");
            assert!(
                message.starts_with(&expected) && message.ends_with(" is allowed"),
                "{message}"
            );
        }
    }
    assert_eq!(
        refused("stuck_timeout_ms = 500"),
        "stuck_timeout_ms = 500: at least apply_timeout_ms (2000)"
    );
}

#[test]
fn unknown_keys_and_wrong_types_are_refused_with_their_line() {
    let message = refused("node = \"a\"\nnoed = \"b\"");
    assert!(message.starts_with(r#"line 2: "noed = \"b\"": unknown field `noed`"#), "{message}");
    let message = refused("tick_ms = \"50\"");
    assert!(message.starts_with(r#"line 1: "tick_ms = \"50\"": invalid type"#), "{message}");
    let message = refused("[tls]\nca = \"a\"\ncert = \"b\"");
    assert!(message.contains("unknown field `cert`"), "{message}");
    let message = refused("kind = \"windows\"");
    assert!(message.contains("windows") && message.contains("`cache_ext`"), "{message}");
    assert!(refused("tick_ms = -1").contains("line 1"));
    assert!(refused("tick_ms = ").contains("line 1"));
}

#[test]
fn names_and_addresses_are_checked() {
    for name in ["\"\"", "\"a b\"", "\"a/b\""] {
        assert!(refused(&format!("node = {name}")).contains("letters, digits"));
    }
    for url in ["", "127.0.0.1:7070", "ftp://a:1", "http://a", "http://a:1/x", "http://:1"] {
        let message = refused(&format!("controller = {url:?}"));
        assert!(message.ends_with("is expected"), "{url}: {message}");
    }
    assert!(refused("state_dir = \"state\"").contains("absolute"));
    assert!(refused("metrics = \"9435\"").contains("ADDRESS:PORT"));
    assert_eq!(parse("metrics = \"\"").unwrap().metrics, None);
}

#[test]
fn beyond_this_host_must_be_meant() {
    assert!(refused("controller = \"http://10.0.0.1:1\"").contains("insecure = true"));
    assert!(refused("controller = \"http://fleet.example:1\"").contains("insecure = true"));
    parse("controller = \"http://10.0.0.1:1\"\ninsecure = true").unwrap();
    parse("controller = \"http://localhost:1\"").unwrap();
    parse("controller = \"http://[::1]:1\"").unwrap();
    assert!(refused("metrics = \"0.0.0.0:1\"").contains("metrics_public"));
    parse("metrics = \"0.0.0.0:1\"\nmetrics_public = true").unwrap();
}

#[test]
fn tls_goes_with_https() {
    let files = "[tls]\nca = \"/nowhere/ca\"\ncertificate = \"/dev/null\"\nkey = \"/dev/null\"";
    assert!(refused("controller = \"https://a:1\"").contains("[tls] is needed"));
    assert!(refused(files).contains("is not https"));
    // Without this file the agent cannot connect to its controller, but it still observes its
    // tenants.
    let config = parse(&format!("controller = \"https://a:1\"\n{files}")).unwrap();
    let missing = config.unread_tls().unwrap();
    assert!(missing.starts_with("tls.ca = \"/nowhere/ca\": "), "{missing}");
    let there = files.replace("/nowhere/ca", "/dev/null");
    let config = parse(&format!("controller = \"https://a:1\"\n{there}")).unwrap();
    assert!(config.tls.is_some() && config.unread_tls().is_none());
    assert_eq!(parse("").unwrap().unread_tls(), None);
}

#[test]
fn keys_for_a_release_are_read_from_a_file_with_mistakes_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    let load = |text: &str| {
        fs::write(&file, text).unwrap();
        Held::load(&file)
    };
    let text = "controller = 7\nnoed = 1\nkind = \"stock\"\nstate_dir = \"/s\"\n[kernel]\na = 1\n[tls]\nca = 5";
    let held = load(text).unwrap();
    assert_eq!((held.kind, held.state_dir.as_path()), (Kind::Stock, Path::new("/s")));
    assert_eq!(held.kernel.unwrap()["a"].as_integer(), Some(1));
    let (held, config) = (load("").unwrap(), parse("").unwrap());
    assert_eq!((held.kind, held.state_dir), (config.kind, config.state_dir));
    for (bad, expected) in [("state_dir = \"s\"", "absolute"), ("kind = \"windows\"", "windows")] {
        let error = load(bad).unwrap_err();
        assert!(error.exit_status() == 2 && error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let message = Config::load(Path::new("/nowhere/agent.toml")).unwrap_err().to_string();
    assert!(message.starts_with("/nowhere/agent.toml: No such file"), "{message}");
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused_in_one_line(text in "[a-z_=\\[\\]\"\n0-9.{} -]{0,80}") {
        if let Err(error) = parse(&text) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}
