# SPDX-License-Identifier: Apache-2.0
"""The controller as the command line sees it: JSON over HTTP, every failure one line."""

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
"""Of a controller that cannot do what is asked now, and says why."""
NEAR_TENANTS = 3
ALIKE = 0.6
SHOWN_TENANTS = 8

NodeOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Node; needed where several have a cgroup of that name.",
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
    """The controller is not there, or refused; one line."""


class UnknownToControllerError(ControllerError):
    """There is no such node, tenant, objective or pin."""


class ConflictAtControllerError(ControllerError):
    """It could be done, and is refused as things are."""


_REFUSALS: dict[int, type[ControllerError]] = {
    HTTPStatus.NOT_FOUND: UnknownToControllerError,
    HTTPStatus.CONFLICT: ConflictAtControllerError,
}


def _not_a_url(url: str) -> ControllerError:
    return ControllerError(f"--controller {url}: not a URL (allowed: like {DEFAULT_URL})")


def parsed(kind: type[T], value: Any) -> T:
    """`value` in the shape `kind`; ControllerError when it is another."""
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
    """One controller by its URL. Calls raise ControllerError; proxies are not used.

    Raises InputError for a URL or credentials that cannot be used; a token is never sent over a
    network in the clear.
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
        # Reading the certificates that are trusted takes longer than most answers.
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
        """Why there was no answer, and what to do about it."""
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
        """The JSON that /api/v1/`path` answers, None without content."""
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
        """All tenants, or those of one node."""
        return parsed(list[TenantView], self.call("GET", "tenants", node=node))

    def nodes(self) -> list[NodeView]:
        """All nodes."""
        return parsed(list[NodeView], self.call("GET", "nodes"))

    def cgroup(self, name: str, node: str | None = None) -> str:
        """The cgroup of the tenant `name`, where its first slash may be left out.

        A workload of Kubernetes is found by its name, too, `NAMESPACE/POD` or
        `NAMESPACE/POD/CONTAINER`. Raises UnknownToControllerError naming tenants that are written
        much the same.
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
    """What Kubernetes calls a tenant; empty where it is none of its."""
    if workload is None:
        return ""
    return "/".join(filter(None, (workload.namespace, workload.pod, workload.container)))


def near(name: str, known: Sequence[str]) -> str:
    """Those of `known` that `name` may have meant, in words."""
    bare = name.strip("/")
    holding = [one for one in known if bare and bare in one]
    found = holding or difflib.get_close_matches(name, known, NEAR_TENANTS, ALIKE)
    if found:
        return f"near: {', '.join(found[:NEAR_TENANTS])}"
    shown = ", ".join(known[:SHOWN_TENANTS])
    more = "" if len(known) <= SHOWN_TENANTS else f" and {len(known) - SHOWN_TENANTS} more"
    return f"there are: {shown}{more}" if known else "there are none"
