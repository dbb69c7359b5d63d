# SPDX-License-Identifier: Apache-2.0
"""The command line's client of a controller: JSON over HTTP; each failure is one line."""

import difflib
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import typer
from pydantic import TypeAdapter, ValidationError

from cachepilot.api.shapes.views import NodeView, TenantView, WorkloadView
from cachepilot.cli.asking import completing
from cachepilot.cli.asking.credentials import Credentials
from cachepilot.cli.asking.requests import (
    ANSWER_SECONDS,
    Answer,
    LostError,
    Server,
    UnreachedError,
)
from cachepilot.cli.asking.tls_refusal import tls_refusal
from cachepilot.domain.names import cgroup_path, of_key
from cachepilot.errors import InputError
from cachepilot.hosts import is_this_host

DEFAULT_URL = "http://127.0.0.1:7071"
URL_VARIABLE = "CACHEPILOT_CONTROLLER"
WITH_REASON = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INSUFFICIENT_STORAGE)
"""Statuses of a controller that cannot do now what is asked, and answers with the reason."""
NEAR_TENANTS = 3
ALIKE = 0.6
SHOWN_TENANTS = 8

NodeOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Node; required if several have a cgroup of this path.",
        autocompletion=completing.nodes,
    ),
]
TenantArgument = Annotated[
    str,
    typer.Argument(
        metavar="TENANT", help="Path of its cgroup, like /db.", autocompletion=completing.tenants
    ),
]
_URL = re.compile(r"https?://[^\s/?#]+/?")
T = TypeVar("T")


class ControllerError(InputError):
    """The controller cannot be reached, or refused the request; one line."""


class UnknownToControllerError(ControllerError):
    """There is no such node, tenant, objective or pin."""


class ConflictAtControllerError(ControllerError):
    """The request is possible, but conflicts with the present state."""


_REFUSALS: dict[int, type[ControllerError]] = {
    HTTPStatus.NOT_FOUND: UnknownToControllerError,
    HTTPStatus.CONFLICT: ConflictAtControllerError,
}


def _not_a_url(url: str) -> ControllerError:
    return ControllerError(f"--controller {url}: not a URL (allowed: like {DEFAULT_URL})")


def parsed(kind: type[T], value: Any) -> T:
    """Return `value` validated as `kind`; raise ControllerError if it has another form."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ControllerError(
            f"the controller answers in another form ({where}: {first['msg']}): "
            "is it of another version?"
        ) from None


def _is_plain_beyond_this_host(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and not is_this_host(parts.hostname or "")


class Controller:
    """A controller, given by its URL. Calls raise ControllerError; proxies are not used.

    Raises InputError for a URL or credentials that cannot be used. A token is never sent over a
    network without encryption.
    """

    def __init__(self, url: str, credentials: Credentials | None = None) -> None:
        if not _URL.fullmatch(url):
            raise _not_a_url(url)
        self.url = url.rstrip("/")
        shown = credentials or Credentials()
        headers = shown.headers()
        if headers and _is_plain_beyond_this_host(self.url):
            allowed = "https, or this machine"
            raise ControllerError(
                f"--controller {url}: a token for all to read (allowed: {allowed})"
            )
        # Loading the system's trusted certificates takes longer than most answers.
        context = shown.context() if self.url.startswith("https:") else None
        try:
            self._server = Server(self.url, headers, context)
        except ValueError:
            raise _not_a_url(url) from None

    def _send(self, method: str, path: str, query: dict[str, Any], body: Any) -> Answer:
        try:
            return self._server.request(method, f"/api/v1/{path}", query, body)
        except TimeoutError:
            raise ControllerError(
                f"the controller at {self.url} did not answer within {ANSWER_SECONDS:.0f} s"
            ) from None
        except (UnreachedError, LostError) as error:
            raise self._unreached(error) from None

    def _unreached(self, error: UnreachedError | LostError) -> ControllerError:
        """Return an error with the reason for the missing answer, and advice."""
        encrypted = self.url.startswith("https:")
        refusal = tls_refusal(error) if encrypted else None
        if refusal is not None:
            return ControllerError(f"the controller at {self.url} {refusal}")
        if isinstance(error, UnreachedError):
            return ControllerError(
                f"no controller at {self.url}: start one by `cachepilot controller run "
                f"--config FILE`, or name another by --controller or {URL_VARIABLE}"
            )
        hint = "" if encrypted else " (is it https://?)"
        return ControllerError(f"the controller at {self.url}: {error}{hint}")

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Return the JSON answer of /api/v1/`path`, or None for an answer without content."""
        answer = self._send(method, path, query, body)
        if answer.status == HTTPStatus.NO_CONTENT:
            return None
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR and answer.status not in WITH_REASON:
            raise ControllerError(
                f"the controller at {self.url} failed with {answer.status}: its log says why"
            )
        try:
            value = answer.json()
        except ValueError:
            raise ControllerError(f"{self.url} is not a controller of cachepilot") from None
        if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            return value
        refusal = value.get("error") if isinstance(value, dict) else None
        if not isinstance(refusal, str) or refusal == "Not Found":
            raise ControllerError(f"{self.url} is not a controller of cachepilot")
        raise _REFUSALS.get(answer.status, ControllerError)(refusal)

    def tenants(self, node: str | None = None) -> list[TenantView]:
        """Return all tenants, or those of one node."""
        return parsed(list[TenantView], self.call("GET", "tenants", node=node))

    def nodes(self) -> list[NodeView]:
        """Return all nodes."""
        return parsed(list[NodeView], self.call("GET", "nodes"))

    def cgroup(self, name: str, node: str | None = None) -> str:
        """Return the cgroup of the tenant `name`, whose leading slash may be omitted.

        A Kubernetes workload is also found by its name, `NAMESPACE/POD` or
        `NAMESPACE/POD/CONTAINER`. Raises UnknownToControllerError naming tenants with similar
        names.
        """
        tenants = self.tenants(node)
        known = sorted({tenant.cgroup for tenant in tenants})
        path = of_key("TENANT", cgroup_path)(name)
        if path in known:
            return path
        named = {tenant.cgroup for tenant in tenants if workload_name(tenant.workload) == name}
        if len(named) == 1:
            return named.pop()
        where = "" if node is None else f" on {node}"
        raise UnknownToControllerError(f"no tenant {name}{where} ({near(name, known)})")


def workload_name(workload: WorkloadView | None) -> str:
    """Return the Kubernetes name of a tenant; "" if it has none."""
    if workload is None:
        return ""
    return "/".join(filter(None, (workload.namespace, workload.pod, workload.container)))


def near(name: str, known: Sequence[str]) -> str:
    """Return in words the known names that are similar to `name`, or else the first known ones."""
    bare = name.strip("/")
    holding = [one for one in known if bare and bare in one]
    found = holding or difflib.get_close_matches(name, known, NEAR_TENANTS, ALIKE)
    if found:
        return f"near: {', '.join(found[:NEAR_TENANTS])}"
    shown = ", ".join(known[:SHOWN_TENANTS])
    more = "" if len(known) <= SHOWN_TENANTS else f" and {len(known) - SHOWN_TENANTS} more"
    return f"there are: {shown}{more}" if known else "there are none"
