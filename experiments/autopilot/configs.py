# SPDX-License-Identifier: Apache-2.0
"""The files that the controller and the agents of a scenario are started with."""

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
    """Loopback ports of the controller: gRPC for agents, HTTP for everybody else."""

    grpc_port: int
    http_port: int

    @property
    def http_url(self) -> str:
        """Where the HTTP interface is."""
        return f"http://127.0.0.1:{self.http_port}"


def toml_lines(values: Mapping[str, object]) -> list[str]:
    """Lines of TOML; a JSON scalar or string is one of TOML too. Tables become dotted keys."""
    found = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += toml_lines({f"{key}.{inner}": one for inner, one in value.items()})
        else:
            found.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    return found


def controller_config(folder: Path, addresses: Addresses, objectives: Path) -> Path:
    """Writes controller.toml into `folder`, which also takes the store."""
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
    """Writes SIDE.toml into `folder`: an agent with a simulated node named SIDE."""
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
    """Writes guest.toml into `folder`: an agent on a kernel, whose tenants are those of SIDES."""
    url = f"http://{controller_host}:{addresses.grpc_port}"
    matches = [f"{side}/*" for side in SIDES]
    lines = kernel_agent_lines("guest", url, matches, scenario.budget_bytes, scenario.device)
    return write_config(folder / "guest.toml", lines)


def kernel_agent_lines(
    name: str, controller_url: str, matches: Sequence[str], budget_bytes: int, device: Device
) -> list[str]:
    """The configuration of an agent in a guest, for tenants that match, over `device`."""
    top: dict[str, object] = {
        "node": name,
        "controller": controller_url,
        # Beyond the guest, but not beyond this host: QEMU hands it to the loopback interface.
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
    # Tenants of a machine that is emulated do little: their samples are small as it is.
    curves: dict[str, object] = {"cell_events_per_s": 96_000.0, "min_samples": 100}
    tables = {"kernel": kernel, "kernel.device": told, "curves": curves}
    lines = toml_lines(top)
    for title, values in tables.items():
        lines += ["", f"[{title}]", *toml_lines(values)]
    return lines


def write_config(path: Path, lines: Sequence[str]) -> Path:
    """Writes a file of TOML that begins with its licence."""
    path.write_text("\n".join(["# SPDX-License-Identifier: Apache-2.0", *lines]) + "\n", "utf-8")
    return path
