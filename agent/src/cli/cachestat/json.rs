// SPDX-License-Identifier: Apache-2.0
//! A report as one JSON object; docs/operating/traces_and_curves.md has its keys.

use cachepilot_agent::cachestat::{CgroupReport, Counted, Point, Report};
use serde_json::{Map, Value, json};

/// The report as one object, with the whole curves if requested. `missing` is what the sampler
/// cannot see here.
pub fn object(report: &Report, missing: &[String], with_curves: bool) -> Value {
    let cgroups = report.cgroups.iter().map(|one| cgroup(one, report, with_curves));
    json!({
        "time_us": report.time_us,
        "interval_s": report.interval_s,
        "watched_s": report.watched_s,
        "cold_points": report.cold_points,
        "lost_events": report.lost_events,
        "not_seen": missing,
        "cgroups": cgroups.collect::<Vec<_>>(),
    })
}

fn cgroup(one: &CgroupReport, report: &Report, with_curve: bool) -> Value {
    let mut keys = Map::new();
    let mut put = |key: &str, value: Value| drop(keys.insert(key.into(), value));
    put("cgroup", one.cgroup.as_str().into());
    put("cgroup_id", one.id.into());
    put("policy", one.policy.as_str().into());
    put("watched_s", one.watched_s.into());
    put("interval_s", one.counted.map(|counted| counted.seconds).into());
    for (key, value) in COUNTS {
        put(key, one.counted.as_ref().map(value).into());
    }
    let rate = |of: fn(&Counted) -> u64| one.counted.map(|counted| counted.per_s(of(&counted)));
    put("accesses_per_s", rate(|counted| counted.accesses).into());
    put("refaults_per_s", rate(|counted| counted.refaults).into());
    put("hit_ratio", one.counted.and_then(|counted| counted.hit_ratio()).into());
    put("fill_ratio", one.counted.and_then(|counted| counted.fill_ratio()).into());
    put("file_bytes", one.cached.map(|cached| cached.file).into());
    put("mapped_bytes", one.cached.map(|cached| cached.mapped).into());
    put("working_set_bytes", one.working_set_bytes.into());
    put("working_set_s", report.window_s.min(one.watched_s).into());
    let predicted = one.predicted.as_ref();
    let [half, present, double] = predicted.map_or([None; 3], |predicted| predicted.at);
    put("predicted_half", half.map(point).into());
    put("predicted_present", present.map(point).into());
    put("predicted_double", double.map(point).into());
    let cold = predicted.and_then(|predicted| predicted.cold);
    put("cold_bytes", cold.map(|cold| cold.bytes).into());
    put("cold_min_bytes", cold.map(|cold| cold.min_bytes).into());
    put("trusted", one.trusted.into());
    put("distrust", one.distrust.as_str().into());
    if with_curve {
        let points = predicted.map_or(&[][..], |predicted| &predicted.curve);
        put("curve", points.iter().copied().map(point).collect());
    }
    Value::Object(keys)
}

type Count = (&'static str, fn(&Counted) -> u64);

/// Counts of the interval.
const COUNTS: [Count; 8] = [
    ("accesses", |counted| counted.accesses),
    ("misses", |counted| counted.misses),
    ("readahead_pages", |counted| counted.readahead_pages),
    ("refaults", |counted| counted.refaults),
    ("evictions", |counted| counted.evictions),
    ("mmap_accesses", |counted| counted.mmap_accesses),
    ("read_calls", |counted| counted.read_calls),
    ("read_time_us", |counted| counted.read_time_us),
];

fn point(point: Point) -> Value {
    json!({
        "size_bytes": point.size_bytes,
        "miss_ratio": point.miss_ratio,
        "error": point.error,
    })
}
