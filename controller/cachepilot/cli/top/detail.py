# SPDX-License-Identifier: Apache-2.0
"""One tenant full screen: the output of `explain` or its history, refreshed regularly."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from cachepilot.api.shapes.changes import ChangeView
from cachepilot.api.shapes.detail import TenantDetail
from cachepilot.cli.asking.client import Controller, ControllerError, parsed
from cachepilot.cli.fleet.explain import explained
from cachepilot.cli.fleet.history import changes_table

DECISIONS = 20
Ask = Callable[[int], RenderableType]


def explanation(remote: Controller, cgroup: str, node: str, width: int) -> RenderableType:
    """Return the reasons for a tenant's policy and memory; raises ControllerError."""
    value = remote.call("GET", "tenants/detail", cgroup=cgroup, node=node)
    return Group(*explained(parsed(TenantDetail, value), width))


def changes(remote: Controller, cgroup: str, node: str, width: int) -> RenderableType:
    """Return the last changes of a tenant; raises ControllerError."""
    rows = remote.call("GET", "changes", cgroup=cgroup, node=node, limit=DECISIONS)
    if not rows:
        return Text("no changes yet")
    return changes_table(parsed(list[ChangeView], rows), width)


class TenantScreen(Screen[None]):
    """A tenant's page, which shows `explanation` or `changes`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "Back"),
        Binding("e", "show('explanation')", "Explain"),
        Binding("h", "show('changes')", "History"),
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
    ]

    def __init__(self, remote: Controller, cgroup: str, node: str, interval_s: float) -> None:
        super().__init__()
        self._remote, self._cgroup, self._node = remote, cgroup, node
        self._interval_s = interval_s
        self._ask: Ask = partial(explanation, remote, cgroup, node)

    def compose(self) -> ComposeResult:
        """Yield the page, which scrolls, a line for problems, and the keys."""
        with VerticalScroll(id="page"):
            yield Static(id="text")
        yield Static(id="problem")
        yield Footer()

    def on_mount(self) -> None:
        """Request the page at once, and then as often as the list."""
        self.query_one("#page").focus()
        self.refresh_page()
        self.set_interval(self._interval_s, self.refresh_page)

    def action_show(self, page: str) -> None:
        """Show another page of the same tenant."""
        ask = {"explanation": explanation, "changes": changes}[page]
        self._ask = partial(ask, self._remote, self._cgroup, self._node)
        self.refresh_page()

    def refresh_page(self) -> None:
        """Request the page on a thread, so that the screen reacts to keys meanwhile."""
        self.run_worker(self._load, thread=True, exclusive=True)

    def _load(self) -> None:
        width, ask = max(self.size.width - 2, 20), self._ask
        try:
            shown, problem = ask(width), ""
        except ControllerError as error:
            shown, problem = None, str(error)
        self.app.call_from_thread(self._draw, ask, shown, problem)

    def _draw(self, ask: Ask, shown: RenderableType | None, problem: str) -> None:
        # A late answer may belong to the page that was shown before.
        if not self.is_mounted or ask is not self._ask:
            return
        if shown is not None:
            self.query_one("#text", Static).update(shown)
        self.query_one("#problem", Static).update(Text(problem, style="bold red"))
