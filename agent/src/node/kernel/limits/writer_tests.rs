// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::node::kernel::fake::replace;
use std::fs;
use std::os::unix::fs::MetadataExt;

const LONG: Duration = Duration::from_secs(5);

/// A kernel that reclaims for as many milliseconds as the text says.
fn slow(_: u64, path: &Path, text: &str) -> io::Result<()> {
    thread::sleep(Duration::from_millis(text.parse().unwrap()));
    replace(path, text)
}

#[test]
fn a_write_is_made_or_its_refusal_reported() {
    let dir = tempfile::tempdir().unwrap();
    let id = fs::metadata(dir.path()).unwrap().ino();
    let file = dir.path().join("memory.high");
    let mut writer = Writer::new(LONG);
    let error = writer.write(id, Purpose::Raise, &file, "5").unwrap_err();
    assert!(error.is_gone() && !error.is_short(), "{error}");
    assert!(error.to_string().contains("memory.high: No such file"), "{error}");
    fs::write(&file, "a longer text").unwrap();
    writer.write(id, Purpose::Raise, &file, "5").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "5");
    fs::create_dir(dir.path().join("memory.low")).unwrap();
    let error = writer.write(id, Purpose::Raise, &dir.path().join("memory.low"), "5").unwrap_err();
    assert!(!error.is_gone(), "{error}");
    let full = dir.path().join("memory.reclaim");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let error = writer.write(id, Purpose::Lower, &full, "5").unwrap_err();
    assert!(error.to_string().contains("memory.reclaim: No space left"), "{error}");
}

#[test]
fn another_cgroup_that_has_its_name_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let cgroup = dir.path().join("a");
    fs::create_dir(&cgroup).unwrap();
    let (file, id) = (cgroup.join("memory.high"), fs::metadata(&cgroup).unwrap().ino());
    fs::write(&file, "max").unwrap();
    fs::rename(&cgroup, dir.path().join("b")).unwrap();
    fs::create_dir(&cgroup).unwrap();
    fs::write(&file, "max").unwrap();
    let error = Writer::new(LONG).write(id, Purpose::Raise, &file, "5").unwrap_err();
    assert!(error.is_gone(), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "max");
}

/// A kernel that does not finish the write of `held` before a file `go` exists beside its own.
fn held(_: u64, path: &Path, text: &str) -> io::Result<()> {
    while text == "held" && !path.with_file_name("go").exists() {
        thread::sleep(Duration::from_millis(1));
    }
    replace(path, text)
}

#[test]
fn a_write_that_does_not_end_holds_back_its_own_kind_only() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let mut writer = Writer::with(Duration::from_secs(1), held);
    let begun = writer.write(7, Purpose::Lower, &file, "held");
    assert!(matches!(begun, Err(WriteError::Pending(_))));
    writer.renew();
    assert!(matches!(writer.write(7, Purpose::Lower, &file, "1"), Err(WriteError::Busy(_))));
    writer.write(7, Purpose::Raise, &file, "2").unwrap();
    writer.write(8, Purpose::Lower, &file, "3").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "3");
    let deadline = Instant::now() + LONG;
    assert!(writer.is_writing(7, &file) && !writer.is_writing(7, dir.path()));
    fs::write(dir.path().join("go"), "").unwrap();
    while writer.is_busy(7, Purpose::Lower) {
        assert!(Instant::now() < deadline);
    }
    writer.renew();
    writer.write(7, Purpose::Lower, &file, "4").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "4");
}

#[test]
fn many_slow_writes_take_no_longer_than_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::with(Duration::from_millis(50), slow);
    let began = Instant::now();
    let mut begun = Vec::new();
    for id in 0..40 {
        let file = dir.path().join(id.to_string());
        begun.push(writer.write(id, Purpose::Lower, &file, "300"));
    }
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let is_begun = |one: &Result<(), WriteError>| matches!(one, Err(WriteError::Pending(_)));
    assert_eq!(begun.iter().filter(|one| is_begun(one)).count(), MOST_PENDING);
    let is_refused = |one: &Result<(), WriteError>| matches!(one, Err(WriteError::Busy(_)));
    assert!(begun[MOST_PENDING..].iter().all(is_refused));
    while (0..40).any(|id| writer.is_busy(id, Purpose::Lower)) {
        assert!(began.elapsed() < LONG);
    }
}
