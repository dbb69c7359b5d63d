// SPDX-License-Identifier: Apache-2.0
//! Checks of the values of a configuration.

use super::raw::Raw;
use super::{Config, Times, Tls};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;
use tonic::transport::Uri;

/// The error has the key, its value and what is allowed.
type Checked<T> = std::result::Result<T, String>;

const MAX_NAME: usize = 253;
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Checks everything; `path` is the file that `raw` was read from.
pub fn check(path: &Path, raw: Raw) -> Checked<Config> {
    let uri = controller(&raw.controller)?;
    let tls = security(&uri, raw.insecure, raw.tls)?;
    let metrics = metrics(&raw.metrics, raw.metrics_public)?;
    state_dir(&raw.state_dir)?;
    let times = Times {
        tick: time("tick_ms", raw.tick_ms, 10, 1_000)?,
        connect: time("connect_timeout_ms", raw.connect_timeout_ms, 10, 60_000)?,
        send: time("send_timeout_ms", raw.send_timeout_ms, 10, 60_000)?,
        plan: time("plan_timeout_ms", raw.plan_timeout_ms, 10, 600_000)?,
        apply: time("apply_timeout_ms", raw.apply_timeout_ms, 10, 60_000)?,
        stuck: time("stuck_timeout_ms", raw.stuck_timeout_ms, 10, 3_600_000)?,
        reconnect_max: time("reconnect_max_ms", raw.reconnect_max_ms, 10, 600_000)?,
    };
    if times.stuck < times.apply {
        let (stuck, apply) = (raw.stuck_timeout_ms, raw.apply_timeout_ms);
        return Err(format!("stuck_timeout_ms = {stuck}: at least apply_timeout_ms ({apply})"));
    }
    Ok(Config {
        path: path.into(),
        node: node_name(raw.node)?,
        controller: raw.controller,
        tls,
        kind: raw.kind,
        state_dir: raw.state_dir,
        metrics,
        times,
        curves: raw.curves,
        kernel: raw.kernel,
        simulated: raw.simulated,
    })
}

/// Checks the directory of the state.
pub fn state_dir(path: &Path) -> Checked<()> {
    match path.is_absolute() {
        true => Ok(()),
        false => Err(format!("state_dir = {path:?}: an absolute path is expected")),
    }
}

fn time(key: &str, value: u64, least: u64, most: u64) -> Checked<Duration> {
    match (least..=most).contains(&value) {
        true => Ok(Duration::from_millis(value)),
        false => Err(format!("{key} = {value}: {least} to {most} is allowed")),
    }
}

fn node_name(name: Option<String>) -> Checked<String> {
    let name = match name {
        Some(name) => name,
        None => fs::read_to_string(HOST_NAME)
            .map_err(|e| format!("node: not given, and {HOST_NAME}: {e}"))?
            .trim()
            .to_owned(),
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(allowed) {
        true => Ok(name),
        false => Err(format!(
            "node = {name:?}: 1 to {MAX_NAME} letters, digits, '-', '_' and '.' are allowed"
        )),
    }
}

fn controller(url: &str) -> Checked<Uri> {
    let fail =
        || format!("controller = {url:?}: http://HOST:PORT or https://HOST:PORT is expected");
    let uri: Uri = url.parse().map_err(|_| fail())?;
    let scheme = matches!(uri.scheme_str(), Some("http" | "https"));
    let bare = uri.path() == "/" && uri.query().is_none();
    let named = uri.host().is_some_and(|host| !host.is_empty()) && uri.port_u16().is_some();
    if scheme && bare && named { Ok(uri) } else { Err(fail()) }
}

/// Requires TLS exactly with `https`. Plain `http` is allowed only to this host, unless `insecure`
/// is set.
fn security(uri: &Uri, insecure: bool, tls: Option<Tls>) -> Checked<Option<Tls>> {
    if uri.scheme_str() == Some("https") {
        let tls = tls.ok_or(format!("controller = \"{uri}\": [tls] is needed for https"))?;
        return Ok(Some(tls));
    }
    if tls.is_some() {
        return Err(format!("[tls]: controller = \"{uri}\" is not https"));
    }
    if !insecure && !is_loopback(uri.host().unwrap_or_default()) {
        return Err(format!(
            "controller = \"{uri}\": plain http beyond this host is refused; use https, or say \
             insecure = true"
        ));
    }
    Ok(None)
}

/// Whether the host of a URL is this one. Names other than `localhost` are not looked up, as their
/// addresses can change.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|ip| ip.is_loopback())
}

fn metrics(text: &str, public: bool) -> Checked<Option<SocketAddr>> {
    if text.is_empty() {
        return Ok(None);
    }
    let address: SocketAddr = text.parse().map_err(|_| {
        format!("metrics = {text:?}: ADDRESS:PORT is expected, or \"\" for no metrics")
    })?;
    match address.ip().is_loopback() || public {
        true => Ok(Some(address)),
        false => {
            Err(format!("metrics = {text:?}: outside this host only with metrics_public = true"))
        }
    }
}
