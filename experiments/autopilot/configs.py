# SPDX-License-Identifier: Apache-2.0
"""The configuration files of the controller and the agents of a scenario."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.autopilot.scenario import TRACES, Device, Scenario, Tenant
from experiments.autopilot.timeline import SIDES

INTERVAL_MS = 1000
MARGIN_BYTES = 1 << 20


@dataclass(frozen=True)
class Addresses:
    """Loopback ports of the controller: gRPC for agents, HTTP for all others."""

    grpc_port: int
    http_port: int

    @property
    def http_url(self) -> str:
        """URL of the HTTP interface."""
        return f"http://127.0.0.1:{self.http_port}"


def toml_lines(values: Mapping[str, object]) -> list[str]:
    """Return lines of TOML. Tables become dotted keys.

    Values are written as JSON, since a JSON scalar or string is also valid TOML.
    """
    found = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += toml_lines({f"{key}.{inner}": one for inner, one in value.items()})
        else:
            found.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    return found


def controller_config(folder: Path, addresses: Addresses, objectives: Path) -> Path:
    """Write controller.toml to `folder`, where the store will be too."""
    values: dict[str, object] = {
        "listen": f"127.0.0.1:{addresses.grpc_port}",
        "http": f"127.0.0.1:{addresses.http_port}",
        "store": str(folder / "controller.db"),
        "objectives": str(objectives),
        "interval_ms": INTERVAL_MS,
    }
    return write_config(folder / "controller.toml", toml_lines(values))


def _tenant(tenant: Tenant, side: str, scenario: Scenario) -> list[str]:
    values: dict[str, object] = {
        "cgroup": f"/{side}/{tenant.name}",
        "limit_bytes": scenario.equal_limit_bytes,
        "concurrency": tenant.concurrency,
        "accesses_per_op": tenant.accesses_per_op,
        "service_us": tenant.service_us,
    }
    lines = ["", "[[simulated.tenant]]", *toml_lines(values)]
    for phase in tenant.phases:
        lines += ["", "[[simulated.tenant.phase]]"]
        if phase.lasts_s:
            lines += toml_lines({"seconds": phase.lasts_s})
        trace = str(TRACES / f"{phase.trace}.cptrace.zst")
        lines += toml_lines({"source.kind": "trace", "source.path": trace})
    return lines


def simulated_agent_config(
    folder: Path, side: str, addresses: Addresses, scenario: Scenario
) -> Path:
    """Write SIDE.toml to `folder`: an agent with a simulated node named SIDE."""
    state = folder / f"{side}.state"
    state.mkdir()
    top: dict[str, object] = {
        "node": side,
        "controller": f"http://127.0.0.1:{addresses.grpc_port}",
        "kind": "simulated",
        "state_dir": str(state),
        "metrics": "",
    }
    simulated: dict[str, object] = {
        "budget_bytes": scenario.budget_bytes,
        "pace": "real",
        "seed": scenario.seed,
    }
    lines = [*toml_lines(top), "", "[simulated]", *toml_lines(simulated)]
    lines += ["", "[simulated.device]", *toml_lines(asdict(scenario.device))]
    for tenant in scenario.tenants:
        lines += _tenant(tenant, side, scenario)
    return write_config(folder / f"{side}.toml", lines)


def kernel_agent_config(
    folder: Path, controller_host: str, addresses: Addresses, scenario: Scenario
) -> Path:
    """Write guest.toml to `folder`: an agent on a kernel, whose tenants are those of SIDES."""
    url = f"http://{controller_host}:{addresses.grpc_port}"
    matches = [f"{side}/*" for side in SIDES]
    lines = kernel_agent_lines("guest", url, matches, scenario.budget_bytes, scenario.device)
    return write_config(folder / "guest.toml", lines)


def kernel_agent_lines(
    name: str, controller_url: str, matches: Sequence[str], budget_bytes: int, device: Device
) -> list[str]:
    """Return the configuration of an agent in a guest, for the tenants that match, on `device`."""
    top: dict[str, object] = {
        "node": name,
        "controller": controller_url,
        # The connection leaves the guest but not this host: QEMU forwards it to the loopback
        # interface.
        "insecure": True,
        "kind": "cache_ext",
        "state_dir": f"/tmp/cachepilot-agent-{name}",
        "metrics": "",
        # An emulated CPU takes seconds to verify and compile a policy.
        "apply_timeout_ms": 30_000,
    }
    kernel: dict[str, object] = {
        "match": list(matches),
        "budget_bytes": budget_bytes,
        "margin_bytes": MARGIN_BYTES,
        "step_bytes": MARGIN_BYTES,
    }
    told: dict[str, object] = {
        "capacity_iops": float(device.iops),
        "idle_read_us": device.read_us,
    }
    # Tenants of an emulated machine do little, so their samples are small anyway.
    curves: dict[str, object] = {"cell_events_per_s": 96_000.0, "min_samples": 100}
    tables = {"kernel": kernel, "kernel.device": told, "curves": curves}
    lines = toml_lines(top)
    for title, values in tables.items():
        lines += ["", f"[{title}]", *toml_lines(values)]
    return lines


def write_config(path: Path, lines: Sequence[str]) -> Path:
    """Write a TOML file that begins with its licence."""
    path.write_text("\n".join(["# SPDX-License-Identifier: Apache-2.0", *lines]) + "\n", "utf-8")
    return path
