// SPDX-License-Identifier: Apache-2.0
//! Results for people: aligned columns of text.

use cachepilot_agent::policies::overview::Row;
use cachepilot_agent::policies::verify::Verdict;
use serde_json::Value;

/// Aligns columns by their widest cell. The first `left` columns are flush left, the others flush
/// right.
pub fn align(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
    let widths: Vec<usize> = (0..columns)
        .map(|c| cells(c).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let line: Vec<String> = cells
            .map(|(column, (cell, &width))| match column < left {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            })
            .collect();
        text += line.join("  ").trim_end();
        text.push('\n');
    }
    text
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Everything about one cgroup, one line per fact.
pub fn one_row(row: &Row) -> String {
    let mut lines = Vec::new();
    for (key, value) in row.to_json().as_object().into_iter().flatten() {
        match value {
            Value::Object(inner) => {
                lines.extend(inner.iter().map(|(k, v)| vec![format!("{key}.{k}"), shown(v)]));
            }
            _ => lines.push(vec![key.clone(), shown(value)]),
        }
    }
    align(&lines, 2)
}

/// Numbers of the kernel's file in a table of several cgroups, and the titles of their columns.
const COLUMNS: [(&str, &str); 8] = [
    ("resident_pages", "resident"),
    ("added", "added"),
    ("evicted", "evicted"),
    ("refaults", "refaults"),
    ("fallback_pages", "fallback"),
    ("swaps", "swaps"),
    ("ejections", "ejections"),
    ("registry_bytes", "bytes"),
];

/// Additional columns of a table if a cgroup has a readahead policy.
const READAHEAD: [&str; 4] = ["readahead", "ahead", "used", "wasted"];

/// The cells of a readahead policy. Its counts are known if it is attached to the cgroup itself.
fn readahead_cells(row: &Row) -> [String; 4] {
    let policy = row.stats.as_ref().and_then(|stats| stats.readahead(row.id));
    let pages = policy.as_ref().and_then(|policy| policy.pages);
    let counts =
        pages.map(|p| [p.ahead_total, p.used_total, p.wasted_total].map(|n| n.to_string()));
    let [ahead, used, wasted] = counts.unwrap_or_else(|| ["-"; 3].map(String::from));
    [policy.map_or("-".into(), |policy| policy.policy), ahead, used, wasted]
}

/// Several cgroups, one line each; counts are pages.
pub fn overview(rows: &[Row]) -> String {
    let ahead: Vec<[String; 4]> = rows.iter().map(readahead_cells).collect();
    let reads_ahead = ahead.iter().any(|cells| cells[0] != "-");
    let mut lines = vec![vec!["cgroup".into(), "policy".into(), "state".into()]];
    lines[0].extend(COLUMNS.map(|(_, title)| title.to_owned()));
    if reads_ahead {
        lines[0].extend(READAHEAD.map(String::from));
    }
    for (row, ahead) in rows.iter().zip(ahead) {
        let stat = |key| row.stats.as_ref().and_then(|s| s.text(key)).unwrap_or("-").to_owned();
        let removed = || format!("(removed, {})", row.id);
        let cgroup = row.cgroup.as_ref().map_or_else(removed, |path| path.display().to_string());
        let policy = row.stats.as_ref().and_then(|s| s.policy()).map(ToOwned::to_owned);
        let policy = policy.or_else(|| row.pinned.clone()).unwrap_or("-".into());
        let mut line = vec![cgroup, policy, stat("state")];
        line.extend(COLUMNS.map(|(key, _)| stat(key)));
        if reads_ahead {
            line.extend(ahead);
        }
        lines.push(line);
    }
    let mut text = align(&lines, 3);
    for row in rows {
        let reason = row.stats.as_ref().and_then(|s| s.text("reason")).filter(|&r| r != "-");
        if let (Some(path), Some(reason)) = (&row.cgroup, reason) {
            text += &format!("{}: {reason}\n", path.display());
        }
    }
    text
}

/// The cost of each hook of each policy. Refused policies are listed, too.
pub fn costs(verdicts: &[Verdict]) -> String {
    let titles = ["policy", "hook", "verified", "instructions", "jited bytes", "stack bytes"];
    let mut lines = vec![titles.map(String::from).to_vec()];
    for verdict in verdicts {
        let policy = &verdict.policy;
        if !verdict.refused.is_empty() {
            lines.push(vec![policy.clone(), "REFUSED".into()]);
        }
        for cost in &verdict.hooks {
            lines.push(vec![
                policy.clone(),
                cost.hook.clone(),
                cost.verified_instructions.to_string(),
                cost.instructions.to_string(),
                cost.jited_bytes.to_string(),
                cost.stack_bytes.map_or("-".into(), |bytes| bytes.to_string()),
            ]);
        }
    }
    align(&lines, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cachepilot_agent::policies::stats::CgroupStats;
    use cachepilot_agent::policies::verify::HookCost;

    fn row(path: &str, stats: &str) -> Row {
        let stats = Some(CgroupStats::parse(stats).unwrap());
        Row { cgroup: Some(path.into()), id: 42, pinned: Some("lfu".into()), stats, tunables: None }
    }

    #[test]
    fn numbers_are_flush_right_and_a_reason_is_shown() {
        let ejected =
            row("/c/b", "policy lfu\nstate ejected\nowner 42\nreason too slow\nadded 5\n");
        let running = row("/c/long", "policy lfu\nstate running\nowner 42\nreason -\nadded 1234\n");
        let removed =
            Row { cgroup: None, id: 7, pinned: Some("lru".into()), stats: None, tunables: None };
        let text = overview(&[ejected, running, removed]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1].find(" 5 ").unwrap() + 2, lines[2].find(" 1234 ").unwrap() + 5);
        assert!(lines[3].starts_with("(removed, 7)  lru     -"), "{text}");
        assert_eq!(lines[4..], ["/c/b: too slow"]);
    }

    #[test]
    fn readahead_policies_have_columns_where_there_are_any() {
        let evicts = "policy lfu\nstate running\nowner 42\nreason -\n";
        let alone = overview(&[row("/c/a", evicts)]);
        assert!(!alone.contains("readahead"), "{alone}");
        let reads = "policy none\nstate none\nowner 0\nreason -\nprefetch_policy leap\n";
        let counts = "prefetch_ahead_pages 9\nprefetch_used_pages 5\nprefetch_wasted_pages 3\n";
        let own = format!("{reads}prefetch_owner 42\n{counts}");
        let inherited = format!("{reads}prefetch_owner 1\n{counts}");
        let rows = [row("/c/a", evicts), row("/c/b", &own), row("/c/c", &inherited)];
        let text = overview(&rows);
        let ends: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().rev().take(4).collect()).collect();
        assert_eq!(ends[0], ["wasted", "used", "ahead", "readahead"]);
        assert_eq!(ends[1..3], [["-"; 4].to_vec(), vec!["3", "5", "9", "leap"]]);
        assert_eq!(ends[3], ["-", "-", "-", "leap"], "counts are of the cgroup above");
    }

    #[test]
    fn a_cgroup_is_shown_with_unknown_keys() {
        let text = one_row(&row("/c", "policy lfu\nstate running\nowner 42\nnew_key 9\n"));
        assert!(text.contains("\ncgroup_id  42\n") && text.ends_with("new_key    9\n"), "{text}");
    }

    #[test]
    fn a_refused_policy_is_named_among_the_others() {
        let hooks = vec![HookCost {
            hook: "init".into(),
            verified_instructions: 10,
            instructions: 11,
            jited_bytes: 55,
            stack_bytes: None,
        }];
        let good = Verdict { policy: "good".into(), memory_bytes: 0, hooks, refused: vec![] };
        let bad = Verdict {
            policy: "bad".into(),
            memory_bytes: 0,
            hooks: vec![],
            refused: vec!["no".into()],
        };
        let text = costs(&[good, bad]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>(),
            ["good", "init", "10", "11", "55", "-"]
        );
        assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>(), ["bad", "REFUSED"]);
    }
}
