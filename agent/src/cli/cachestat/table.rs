// SPDX-License-Identifier: Apache-2.0
//! A report as text: one line per cgroup, and below them the whole curves if requested.

use crate::cli::tables::align;
use cachepilot_agent::cachestat::{CgroupReport, Point, Report};

const TITLES: [&str; 14] = [
    "cgroup",
    "acc/s",
    "hit%",
    "ahead/s",
    "refault/s",
    "fill%",
    "@1/2",
    "@1",
    "@2",
    "file",
    "wss",
    "cold",
    "cold>=",
    "curve",
];
const NOTE: &str = "note";
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const UNKNOWN: &str = "-";
/// Suffix of a prediction whose curve has low confidence.
const DOUBT: &str = "?";

/// The text of a report; `count` is the number of cgroups, shown or not.
pub fn text(report: &Report, count: usize, with_curves: bool) -> String {
    let mut head = format!(
        "{:.0} s watched, {:.1} s interval, {} of {count} cgroups, wss of {:.0} s, cold at +{} points",
        report.watched_s,
        report.interval_s,
        report.cgroups.len(),
        report.window_s.min(report.watched_s),
        report.cold_points,
    );
    if report.lost_events > 0 {
        head += &format!(", {} sampled accesses lost", report.lost_events);
    }
    let titles = TITLES.iter().chain([&NOTE]).map(|&title| title.to_owned()).collect();
    let rows: Vec<Vec<String>> =
        std::iter::once(titles).chain(report.cgroups.iter().map(row)).collect();
    let mut text = format!("{head}\n{}", align_but_last(&rows));
    if with_curves {
        text += &curves(&report.cgroups);
    }
    text
}

/// Aligns numbers flush right, but the notes in the last column flush left.
fn align_but_last(rows: &[Vec<String>]) -> String {
    let (cells, notes): (Vec<Vec<String>>, Vec<&String>) =
        rows.iter().filter_map(|row| row.split_last()).map(|(n, c)| (c.to_vec(), n)).unzip();
    let lines = align(&cells, 1);
    let width = lines.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let line = |(line, note): (&str, &String)| {
        format!("{line:<width$}  {note}").trim_end().to_owned() + "\n"
    };
    lines.lines().zip(notes).map(line).collect()
}

fn row(one: &CgroupReport) -> Vec<String> {
    let known = |text: Option<String>| text.unwrap_or(UNKNOWN.into());
    let counted = one.counted.as_ref();
    let rate = |count: Option<f64>| known(count.map(|count| format!("{count:.0}")));
    let doubt = if one.trusted { "" } else { DOUBT };
    let predicted = one.predicted.as_ref();
    let at = predicted.map_or([None; 3], |predicted| predicted.at);
    let [half, present, double] = at.map(|point| known(point.map(|point| ratio(&point, doubt))));
    let cold = predicted.and_then(|predicted| predicted.cold);
    let size = |size: Option<u64>| known(size.map(bytes));
    let cold_size = |size: Option<u64>| known(size.map(|size| bytes(size) + doubt));
    let around = predicted.map(|predicted| sparkline(&predicted.around));
    vec![
        one.cgroup.clone(),
        rate(counted.map(|c| c.per_s(c.accesses))),
        known(counted.and_then(|c| c.hit_ratio()).map(percent)),
        rate(counted.map(|c| c.per_s(c.readahead_pages))),
        rate(counted.map(|c| c.per_s(c.refaults))),
        known(counted.and_then(|c| c.fill_ratio()).map(percent)),
        half,
        present,
        double,
        size(one.cached.map(|cached| cached.file)),
        size(one.working_set_bytes),
        cold_size(cold.map(|cold| cold.bytes)),
        cold_size(cold.map(|cold| cold.min_bytes)),
        known(around),
        one.distrust.clone(),
    ]
}

fn curves(cgroups: &[CgroupReport]) -> String {
    let mut rows = vec![["cgroup", "size", "miss%", "+-"].map(String::from).to_vec()];
    for one in cgroups {
        for point in one.predicted.iter().flat_map(|predicted| &predicted.curve) {
            rows.push(vec![
                one.cgroup.clone(),
                bytes(point.size_bytes),
                percent(point.miss_ratio),
                percent(point.error),
            ]);
        }
    }
    if rows.len() == 1 { String::new() } else { format!("\n{}", align(&rows, 1)) }
}

fn percent(ratio: f64) -> String {
    format!("{:.1}", ratio * 100.0)
}

fn ratio(point: &Point, doubt: &str) -> String {
    format!("{}±{}{doubt}", percent(point.miss_ratio), percent(point.error))
}

/// Miss ratios from 0 to 1 as bars, lowest to highest; a blank if unknown.
fn sparkline(ratios: &[Option<f64>]) -> String {
    let bar = |ratio: &Option<f64>| match ratio {
        Some(ratio) => BARS[((ratio * BARS.len() as f64) as usize).min(BARS.len() - 1)],
        None => ' ',
    };
    ratios.iter().map(bar).collect()
}

/// A size in the largest unit in which it is at least 1.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // Sizes from 1023.95 on would be shown as 1024.0.
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{size:.0}K"),
        _ => format!("{size:.1}{}", UNITS[unit]),
    }
}
