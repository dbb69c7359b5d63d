// SPDX-License-Identifier: Apache-2.0

use super::*;

#[test]
fn a_readahead_policy_is_reported_and_its_counts_survive_a_change() {
    let bench = Bench::new(&["/a"]);
    let (mut node, id) = (bench.start(), bench.fake.fs().id("/a").unwrap());
    assert_eq!(node.observe().unwrap().tenants[0].readahead, None);
    for (used_total, shown) in [(5, 5), (2, 7)] {
        let pages = wire::readahead::Pages { used_total, ..<_>::default() };
        let policy = wire::Readahead { policy: "leap".into(), pages: Some(pages) };
        bench.kernel.reads_ahead(id, Some(policy));
        let told = node.observe().unwrap().tenants[0].readahead.clone().unwrap();
        assert_eq!((told.policy.as_str(), told.pages.unwrap().used_total), ("leap", shown));
        // The first change reads the tenant's state again.
        assert_eq!(node.apply(&bench.action("/a", None, Some(0))).outcome(), Outcome::Unchanged);
    }
}
