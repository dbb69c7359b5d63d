# SPDX-License-Identifier: Apache-2.0
"""One tenant full screen: what `explain` prints, and what was changed of it, drawn again."""

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
    """Why a tenant has what it has; raises ControllerError."""
    value = remote.call("GET", "tenants/detail", cgroup=cgroup, node=node)
    return Group(*explained(parsed(TenantDetail, value), width))


def changes(remote: Controller, cgroup: str, node: str, width: int) -> RenderableType:
    """The last changes of a tenant; raises ControllerError."""
    rows = remote.call("GET", "changes", cgroup=cgroup, node=node, limit=DECISIONS)
    if not rows:
        return Text("no changes yet")
    return changes_table(parsed(list[ChangeView], rows), width)


class TenantScreen(Screen[None]):
    """A tenant, by `explanation` or `changes`."""

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
        """The page, which scrolls, above the keys."""
        with VerticalScroll(id="page"):
            yield Static(id="text")
        yield Static(id="problem")
        yield Footer()

    def on_mount(self) -> None:
        """Asks at once, and then as often as the list does."""
        self.query_one("#page").focus()
        self.refresh_page()
        self.set_interval(self._interval_s, self.refresh_page)

    def action_show(self, page: str) -> None:
        """Another page of the same tenant."""
        ask = {"explanation": explanation, "changes": changes}[page]
        self._ask = partial(ask, self._remote, self._cgroup, self._node)
        self.refresh_page()

    def refresh_page(self) -> None:
        """Asks the controller beside the screen, which goes on to take keys."""
        self.run_worker(self._load, thread=True, exclusive=True)

    def _load(self) -> None:
        width, ask = max(self.size.width - 2, 20), self._ask
        try:
            shown, problem = ask(width), ""
        except ControllerError as error:
            shown, problem = None, str(error)
        self.app.call_from_thread(self._draw, ask, shown, problem)

    def _draw(self, ask: Ask, shown: RenderableType | None, problem: str) -> None:
        # A late answer may be of the page that was shown before.
        if not self.is_mounted or ask is not self._ask:
            return
        if shown is not None:
            self.query_one("#text", Static).update(shown)
        self.query_one("#problem", Static).update(Text(problem, style="bold red"))
