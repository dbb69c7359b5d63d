// SPDX-License-Identifier: Apache-2.0
//! Tests of the pages as a scraper sees them.

use super::*;
use crate::latency::latency_bucket;
use crate::wire::readahead::Pages;
use crate::wire::{Counters, Curves, Device, Loss, Readahead, Tenant, result::Outcome};
use std::collections::HashMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn tenant(cgroup: &str) -> Tenant {
    let mut latency = vec![0; crate::latency::LATENCY_BUCKETS];
    for (us, calls) in [(0, 1), (1, 2), (3, 4), (1_000, 8), (60_000_000, 16)] {
        latency[latency_bucket(us * 1000)] += calls;
    }
    Tenant {
        cgroup: cgroup.into(),
        policy: "s3fifo".into(),
        file_bytes: 1 << 30,
        counters: Some(Counters {
            accesses_total: 1_000,
            misses_total: 10,
            read_time_us_total: 2_500_000,
            read_latency_total: latency,
            memory_stall_us_total: 500_000,
            ..Default::default()
        }),
        curves: Some(Curves::default()),
        policy_cpu_us_per_access: Some(0.25),
        ..Default::default()
    }
}

fn shared() -> Arc<Shared> {
    let shared = Arc::new(Shared::of("alpha"));
    shared.metrics.plan(true);
    shared.metrics.action(Outcome::Failed);
    shared.metrics.undone(Outcome::Applied);
    let observation = Observation {
        budget_bytes: 1 << 34,
        device: Device { reads_total: 77, idle_read_us: 80.0, ..Default::default() },
        tenants: vec![tenant("/a"), tenant("/b\"\\")],
        loss: Loss { dropped_events_total: 3, ..Default::default() },
        ..Default::default()
    };
    shared.saw(Arc::new(observation), Duration::from_secs(1));
    shared
}

fn values(text: &str) -> HashMap<&str, &str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap()).collect()
}

#[test]
fn observed_values_are_shown() {
    let text = shared().text().unwrap();
    let values = values(&text);
    for (series, value) in [
        ("cachepilot_tenant_accesses_total{cgroup=\"/a\"}", "1000"),
        ("cachepilot_tenant_misses_total{cgroup=\"/b\\\"\\\\\"}", "10"),
        ("cachepilot_tenant_file_bytes{cgroup=\"/a\"}", "1073741824.0"),
        ("cachepilot_tenant_memory_stall_seconds_total{cgroup=\"/a\"}", "0.5"),
        ("cachepilot_tenant_policy_cpu_per_access_seconds{cgroup=\"/a\"}", "2.5e-7"),
        ("cachepilot_tenant_policy_info{cgroup=\"/a\",policy=\"s3fifo\"}", "1"),
        (
            concat!(
                "cachepilot_agent_info{node=\"alpha\",version=\"",
                env!("CARGO_PKG_VERSION"),
                "\"}"
            ),
            "1",
        ),
        ("cachepilot_device_reads_total", "77"),
        ("cachepilot_loss_dropped_events_total", "3"),
        ("cachepilot_agent_plans_total{outcome=\"applied\"}", "1"),
        ("cachepilot_agent_actions_total{outcome=\"failed\"}", "1"),
        ("cachepilot_agent_session_connected", "0"),
    ] {
        assert_eq!(values.get(series), Some(&value), "{series}\n{text}");
    }
    assert!(values["process_cpu_seconds_total"].parse::<f64>().unwrap() > 0.0);
    assert!(values["process_resident_memory_bytes"].parse::<f64>().unwrap() > 1e6);
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn read_latency_is_a_histogram_in_seconds() {
    let text = shared().text().unwrap();
    let values = values(&text);
    let series = |name: String| format!("cachepilot_tenant_read_latency_seconds_{name}");
    let buckets: HashMap<String, &str> = values
        .iter()
        .filter(|(key, _)| key.starts_with(&series("bucket".into())) && key.contains("\"/a\""))
        .map(|(key, value)| {
            let (_, rest) = key.split_once("le=\"").unwrap();
            let bound: f64 = rest.split('"').next().unwrap().parse().unwrap();
            (format!("{:.0}", bound * 1e6), *value)
        })
        .collect();
    // The cumulative buckets: 7 up to 4 us, 15 up to 1,024 us, and a call of a minute above the
    // last bound.
    let found = ["4", "256", "1024", "16777216", "inf"].map(|bound| buckets[bound]);
    assert_eq!((found, buckets.len()), (["7", "7", "15", "15", "31"], 13));
    assert!(text.contains("le=\"+Inf\",cgroup=\"/a\""), "{text}");
    assert_eq!(values[series("count{cgroup=\"/a\"}".into()).as_str()], "31");
    assert_eq!(values[series("sum{cgroup=\"/a\"}".into()).as_str()], "2.5");
}

/// The page if tenant `/a` has a readahead policy, and the number of that tenant's series.
fn reading_ahead(pages: Option<Pages>) -> (String, usize) {
    let readahead = Some(Readahead { policy: "leap".into(), pages });
    let tenants = vec![Tenant { readahead, ..tenant("/a") }, tenant("/b")];
    let shared = shared();
    let observation = Observation { tenants, ..Default::default() };
    shared.saw(Arc::new(observation), Duration::from_secs(1));
    let text = shared.text().unwrap();
    let series = values(&text).into_keys().filter(|series| series.contains("cgroup=\"/a\""));
    let count = series.count();
    (text, count)
}

#[test]
fn a_readahead_policy_has_its_name_and_the_pages_that_it_had_read() {
    let pages = Pages { ahead_total: 9, used_total: 5, wasted_total: 3 };
    let (text, _) = reading_ahead(Some(pages));
    let values = values(&text);
    for (name, value) in [("ahead", "9"), ("used", "5"), ("wasted", "3")] {
        let of = |cgroup| {
            format!("cachepilot_tenant_prefetch_{name}_pages_total{{cgroup=\"{cgroup}\"}}")
        };
        assert_eq!(values.get(of("/a").as_str()), Some(&value), "{text}");
        assert_eq!(values.get(of("/b").as_str()), None, "not known is not 0: {text}");
    }
    assert!(text.contains("policy=\"s3fifo\",readahead=\"leap\"} 1"), "{text}");
}

#[test]
fn a_tenant_has_so_many_series() {
    assert_eq!(reading_ahead(None).1, 31);
    assert_eq!(reading_ahead(Some(Pages::default())).1, 34);
}

#[test]
fn the_example_shows_every_family() {
    let text = example().unwrap();
    let families = |text: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        lines.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(families(&text), families(&shared().text().unwrap()));
    assert!(text.contains("outcome=\"gone\""));
}

async fn get_page(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn both_pages_are_served() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shared = Arc::new(Shared::default());
    let _served = serve(listener, Arc::clone(&shared));
    let answer = get_page(address, "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("\"well\":false"), "{answer}");
    shared.saw(Arc::new(Observation::default()), Duration::from_secs(1));
    let answer = get_page(address, "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"well\":true"), "{answer}");
    let answer = get_page(address, "/metrics").await;
    assert!(answer.contains(CONTENT_TYPE) && answer.contains("cachepilot_tenants"), "{answer}");
    assert!(get_page(address, "/").await.starts_with("HTTP/1.1 404"));
}
