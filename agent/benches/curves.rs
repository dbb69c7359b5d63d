// SPDX-License-Identifier: Apache-2.0
//! What learning curves costs and how good they are: ten tenants with 100,000 accesses per second
//! each, every policy, a grid of 16 sizes.
//!
//! `--json` prints JSON; `--cell-events N`, `--events N`, `--stride N` and `--min-samples N` set
//! what `CurvesSettings` has under these names; `--per-second N` sets the accesses per second of a
//! tenant; `--choices N` asks for so many choices of pages, one after the other, and means over them;
//! `--only cost|error|phase|little` measures one thing.
#![allow(clippy::unwrap_used)]

#[path = "support/cpu_time.rs"]
mod cpu_time;
mod support;

use cachepilot_agent::curves::{CurvesConfig, CurvesSettings, Measured, TenantCurves, predict};
use cachepilot_agent::wire;
use cachepilot_models::hash::page_hash;
use cachepilot_models::policy::{Candidate, Requests};
use cpu_time::seconds;
use std::path::Path;
use std::time::Duration;
use support::{Workload, full_simulation, print_row, resident_bytes};

const SECOND: Duration = Duration::from_secs(1);
const PAGE: u64 = 4096;
/// Memory of the node: 512 MiB.
const BUDGET_PAGES: u64 = 1 << 17;

fn value(name: &str) -> Option<String> {
    let words: Vec<String> = std::env::args().collect();
    let at = words.iter().position(|word| word == name)?;
    words.get(at + 1).cloned()
}

/// Accesses per second of each tenant.
fn per_second() -> u64 {
    value("--per-second").map_or(100_000, |text| text.parse().unwrap())
}

fn config(budget_pages: u64) -> CurvesConfig {
    let mut settings = CurvesSettings::default();
    let number = |name| value(name).map(|text| text.parse::<f64>().unwrap());
    settings.cell_events_per_s = number("--cell-events").unwrap_or(settings.cell_events_per_s);
    settings.events_per_s = number("--events").unwrap_or(settings.events_per_s);
    settings.stride = number("--stride").map_or(settings.stride, |n| n as usize);
    settings.min_samples = number("--min-samples").map_or(settings.min_samples, |n| n as u64);
    settings.check().unwrap();
    settings.config(budget_pages * PAGE)
}

fn workloads() -> Vec<(&'static str, Workload, u64)> {
    let trace = |name: &str| {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/recorded_traces");
        Workload::trace(&Path::new(dir).join(format!("{name}.cptrace.zst")))
    };
    let scan = Workload::ScanAnd(Box::new(Workload::zipf(100_000, 0.9)));
    vec![
        ("zipf06", Workload::zipf(100_000, 0.6), BUDGET_PAGES),
        ("zipf09", Workload::zipf(100_000, 0.9), BUDGET_PAGES),
        ("zipf12", Workload::zipf(100_000, 1.2), BUDGET_PAGES),
        ("loop", Workload::Loop(50_000), BUDGET_PAGES),
        ("uniform", Workload::Uniform(80_000), BUDGET_PAGES),
        ("scan_zipf09", scan, BUDGET_PAGES),
        ("points_and_scans", trace("points_and_scans"), 1 << 14),
        ("searches", trace("searches"), 1 << 14),
    ]
}

/// Feeds second `second` of a workload, as a sampler in the kernel would: time that this takes.
fn feed(tenant: &mut TenantCurves, keys: &[u64]) -> f64 {
    let threshold = tenant.threshold();
    let sampled: Vec<u64> = keys.iter().copied().filter(|&k| page_hash(k) < threshold).collect();
    let work = || {
        tenant.set_kernel_threshold(threshold).unwrap();
        tenant.feed_sampled(Requests::of_keys(&sampled), keys.len() as u64).unwrap();
        tenant.advance(SECOND).unwrap();
        std::hint::black_box(tenant.curves());
    };
    seconds(work).0
}

fn second(workload: &Workload, second: u64, seed: u64) -> Vec<u64> {
    workload.keys(second * per_second()..(second + 1) * per_second(), seed)
}

/// Ten tenants for half a minute, after as long to warm up.
fn cost(json: bool) {
    let kinds = workloads();
    let input = second(&kinds[0].1, 0, 0);
    let resident_before = resident_bytes();
    drop(input);
    let mut tenants: Vec<TenantCurves> =
        (0..10).map(|_| TenantCurves::new(&config(BUDGET_PAGES)).unwrap()).collect();
    let (mut took, mut most_bytes, mut most_resident, mut generations) = (Vec::new(), 0, 0, 0);
    for at in 0..60 {
        let mut sum = 0.0;
        for (i, tenant) in tenants.iter_mut().enumerate() {
            let (_, workload, _) = &kinds[i % kinds.len()];
            sum += feed(tenant, &second(workload, at, i as u64));
        }
        most_resident = most_resident.max(resident_bytes().saturating_sub(resident_before));
        if at >= 30 {
            took.push(sum);
            generations += tenants.iter_mut().filter(|t| t.generation() > 0).count();
        }
        most_bytes = most_bytes.max(tenants.iter().map(TenantCurves::bytes).sum::<u64>());
    }
    assert_eq!(generations, 300);
    took.sort_by(f64::total_cmp);
    print_row(json, "curves.cpu_pct_10_tenants", "%", took[took.len() / 2] * 100.0);
    print_row(json, "curves.cpu_pct_10_tenants_max", "%", took[took.len() - 1] * 100.0);
    print_row(json, "curves.mib_10_tenants", "MiB", most_bytes as f64 / f64::from(1 << 20));
    let most_resident = most_resident as f64 / f64::from(1 << 20);
    print_row(json, "curves.resident_mib_10_tenants", "MiB", most_resident);
    let idle = seconds(|| tenants.iter_mut().for_each(|t| drop(t.curves()))).0;
    print_row(json, "curves.unchanged_us", "us", idle * 1e5);
}

fn name(one: &Candidate, config: &CurvesConfig) -> String {
    config.name_of(&one.name)
}

/// Sums over points of curves beside the truth.
#[derive(Default)]
struct Errors {
    absolute: f64,
    bars: f64,
    inside: u32,
    points: u32,
}

impl Errors {
    fn add(&mut self, ratio: f64, bar: f64, truth: f64) {
        let error = (ratio - truth).abs();
        self.absolute += error;
        self.bars += bar;
        self.inside += u32::from(error <= bar);
        self.points += 1;
    }

    fn print(&self, json: bool, label: &str) {
        let mean = |sum: f64| sum / f64::from(self.points);
        print_row(json, &format!("curves.error.{label}"), "", mean(self.absolute));
        print_row(json, &format!("curves.within_bar.{label}"), "", mean(self.inside.into()));
        print_row(json, &format!("curves.bar_width.{label}"), "", mean(self.bars));
    }
}

/// Mean absolute error over policies and every fourth size against full simulation, the share of
/// points within the error bar, and the mean half-width of the bars.
fn error(json: bool) {
    let choices = value("--choices").map_or(1, |text| text.parse().unwrap());
    for (label, workload, budget) in workloads() {
        let config = config(budget);
        let mut errors = Errors::default();
        for choice in 0..choices {
            add_errors(&config, &workload, 7 + choice, &mut errors);
        }
        errors.print(json, label);
    }
}

fn add_errors(config: &CurvesConfig, workload: &Workload, seed: u64, errors: &mut Errors) {
    let mut tenant = TenantCurves::new(config).unwrap();
    let count = (2_000_000 / per_second()).clamp(20, 120);
    let keys: Vec<Vec<u64>> = (0..count).map(|at| second(workload, at, seed)).collect();
    for keys in &keys {
        feed(&mut tenant, keys);
    }
    let curves = tenant.curves().unwrap();
    let (half, last) = (keys.len() / 2, keys.len() * 3 / 4);
    let (before, measured) = (keys[half..last].concat(), keys[last..].concat());
    for policy in config.simulated() {
        for &size in config.sizes_pages.iter().skip(3).step_by(4) {
            let truth = full_simulation(&policy, size, &before, &measured);
            let (ratio, bar) = predict(&curves, &name(&policy, config), size * PAGE).unwrap();
            errors.add(ratio, bar, truth);
        }
    }
}

/// Seconds from a change of phase until the policy that the curves rank first is within 0.05 of
/// the best, less those in which the working set is seen once.
fn phase(json: bool) {
    let config = config(BUDGET_PAGES);
    let zipf = Workload::zipf(50_000, 0.9);
    let cyclic = Workload::Loop(30_000);
    let size = config.sizes_pages[10];
    let steady = |workload: &Workload| -> Vec<f64> {
        let keys = workload.keys(0..800_000, 1);
        let (before, measured) = keys.split_at(keys.len() / 2);
        let truth = |one: &Candidate| full_simulation(one, size, before, measured);
        config.simulated().iter().map(truth).collect()
    };
    let truths = [steady(&zipf), steady(&cyclic)];
    let mut tenant = TenantCurves::new(&config).unwrap();
    let phases = [(&zipf, 0), (&cyclic, 1), (&zipf, 0), (&cyclic, 1)];
    let seen_once = [50_000, 30_000].map(|pages| f64::from(pages) / per_second() as f64);
    for (number, (workload, truth)) in phases.into_iter().enumerate() {
        let (seed, seen_once) = (1 + truth as u64, seen_once[truth]);
        let truth: &Vec<f64> = &truths[truth];
        let best = truth.iter().copied().fold(f64::INFINITY, f64::min);
        let mut right = Vec::new();
        for at in 0..30 {
            feed(&mut tenant, &second(workload, number as u64 * 30 + at, seed));
            let Some(curves) = tenant.curves() else { continue };
            let ratio = |p: &Candidate| predict(&curves, &name(p, &config), size * PAGE).unwrap().0;
            let ratios: Vec<f64> = config.simulated().iter().map(ratio).collect();
            let first = (0..ratios.len()).min_by(|&a, &b| ratios[a].total_cmp(&ratios[b])).unwrap();
            right.push(truth[first] <= best + 0.05);
            if value("--verbose").is_some() {
                let chosen = &config.simulated()[first].name;
                println!("{at} {chosen} {:.3} {:.3} {best:.3}", ratios[first], truth[first]);
            }
        }
        let wrong = right.iter().rposition(|&r| !r).map_or(0, |at| at + 1);
        print_row(json, &format!("curves.phase_{number}_s"), "s", (wrong as f64 + 1.0) - seen_once);
    }
}

/// Distinct pages of a popularity of rank^-0.9, and those that are cached.
const LITTLE: [(usize, u64); 3] = [(1000, 400), (4000, 1000), (20_000, 4000)];
const LITTLE_PER_SECOND: u64 = 150;

/// Seconds until the curves of a tenant with few accesses may be acted on: trusted, and at the
/// present size of a warm cache, for all policies, within 0.05 of full simulation from then on.
fn little(json: bool) {
    for (pages, cached) in LITTLE {
        let workload = Workload::zipf(pages, 0.9);
        let config = config(8 * cached);
        let truth = |one: &Candidate| {
            let keys = workload.keys(0..400_000, 1);
            full_simulation(one, cached, &keys[..200_000], &keys[200_000..])
        };
        let truths: Vec<f64> = config.simulated().iter().map(truth).collect();
        let default = config.simulated().iter().position(|one| one.name == config.default_model);
        let measured = truths[default.unwrap()];
        let mut tenant = TenantCurves::new(&config).unwrap();
        let mut wrong = 0;
        for at in 0..60 {
            let accesses = at * LITTLE_PER_SECOND..(at + 1) * LITTLE_PER_SECOND;
            feed(&mut tenant, &workload.keys(accesses, 1));
            let (trusted, _) = tenant.judge(&Measured {
                policy: wire::DEFAULT_POLICY,
                size_bytes: cached * PAGE,
                accesses: LITTLE_PER_SECOND,
                misses: (measured * LITTLE_PER_SECOND as f64).round() as u64,
                dropped: 0,
            });
            let curves = tenant.curves().unwrap();
            let off = |(one, truth): (&Candidate, &f64)| {
                (predict(&curves, &name(one, &config), cached * PAGE).unwrap().0 - truth).abs()
            };
            let errors = config.simulated().iter().zip(&truths).map(off).sum::<f64>();
            if !trusted || errors / truths.len() as f64 > 0.05 {
                wrong = at + 1;
            }
        }
        let metric = format!("autopilot.curves.seconds_at_150.{pages}_{cached}");
        print_row(json, &metric, "s", (wrong + 1) as f64);
    }
}

/// One part of the bench, told whether to print JSON.
type Part = fn(bool);

fn main() {
    let json = std::env::args().any(|word| word == "--json");
    let only = value("--only");
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let parts: [(&str, Part); 4] =
        [("cost", cost), ("error", error), ("phase", phase), ("little", little)];
    parts.iter().filter(|(name, _)| wanted(name)).for_each(|(_, part)| part(json));
}
