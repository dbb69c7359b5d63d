// SPDX-License-Identifier: Apache-2.0
//! Tests of policies for which no memory is left.

use super::*;

#[test]
fn a_policy_for_which_no_memory_is_left_is_refused_as_one_that_is_unknown() {
    let bench = Bench::new(&["/a"]);
    bench.kernel.4.lock().unwrap().push("mru");
    let mut node = bench.start();
    node.apply(&bench.action("/a", Some("lfu"), Some(100 * MIB)));
    let refused = node.apply(&bench.action("/a", Some("mru"), Some(200 * MIB)));
    assert_eq!(refused.outcome(), Outcome::Refused);
    assert_eq!((refused.policy.as_str(), refused.limit_bytes), ("lfu", 100 * MIB));
    assert!(refused.reason.starts_with("policy mru needs 1048576 bytes"), "{}", refused.reason);
    assert!(refused.reason.contains("policy_memory_mib = 1 of [kernel]"), "{}", refused.reason);
}

#[test]
fn a_first_policy_for_which_no_memory_is_left_gives_way_to_the_default() {
    let bench = Bench::new(&["/a"]);
    let id = bench.fake.fs().id("/a").unwrap();
    bench.kernel.set(id, "mru", None);
    let mut node = bench.start();
    node.apply(&bench.action("/a", Some("lfu"), None));
    bench.kernel.4.lock().unwrap().push("mru");
    let released = node.release();
    assert_eq!(released[0].outcome(), Outcome::Applied, "{}", released[0].reason);
    assert!(released[0].reason.contains("the default instead"), "{}", released[0].reason);
    assert_eq!(bench.kernel.of(id), "default");
}
