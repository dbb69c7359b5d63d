# SPDX-License-Identifier: Apache-2.0
"""The full-screen list of tenants: sorted, filtered, with a page for each."""

from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static

from cachepilot.api.shapes.views import NodeView, TenantView
from cachepilot.cli.asking.client import Controller, ControllerError
from cachepilot.cli.fleet.status_table import node_line
from cachepilot.cli.top.columns import COLUMNS, matches, ordered
from cachepilot.cli.top.detail import TenantScreen

LIST_ACTIONS = ("filter", "sort", "reverse", "clear", "cursor")
NO_TENANTS = "no tenant yet: start an agent by `cachepilot agent run`"


class TopApp(App[None]):
    """The tenants of all nodes, requested every `interval_s` seconds."""

    TITLE = "cachepilot"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #nodes { height: auto; max-height: 30%; }
    #filter { display: none; height: 3; }
    #problem { height: auto; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("less_than_sign,left_square_bracket", "sort(-1)", "Sort ←", key_display="<"),
        Binding("greater_than_sign,right_square_bracket", "sort(1)", "Sort →", key_display=">"),
        Binding("r", "reverse", "Reverse"),
        Binding("escape", "clear", "Show all", show=False),
        Binding("j", "cursor(1)", "Down", show=False),
        Binding("k", "cursor(-1)", "Up", show=False),
    ]

    def __init__(self, remote: Controller, node: str | None, interval_s: float) -> None:
        super().__init__()
        self._remote, self._node, self._interval_s = remote, node, interval_s
        self._tenants: list[TenantView] = []
        self._shown: list[TenantView] = []
        self._words = ""
        self._sorted_by = 0
        self._is_reversed = False
        self._is_asking = False

    def compose(self) -> ComposeResult:
        """Yield nodes, tenants, the filter (hidden at first), a line for problems, and the keys."""
        yield Static(id="nodes")
        yield DataTable(id="tenants", cursor_type="row", zebra_stripes=True)
        yield Input(id="filter", placeholder="tenant, node, policy or state of an SLO")
        yield Static(id="problem")
        yield Footer()

    def on_mount(self) -> None:
        """Request the list at once, and then every interval."""
        self._table.focus()
        self._ask()
        self.set_interval(self._interval_s, self._ask)

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one("#tenants", DataTable)

    def _ask(self) -> None:
        """Request the list, unless a request is running: its thread ends only with an answer."""
        if not self._is_asking:
            self._is_asking = True
            self.run_worker(self._load, thread=True, exclusive=True, group="list")

    def _load(self) -> None:
        try:
            tenants, nodes = self._remote.tenants(self._node), self._remote.nodes()
        except ControllerError as error:
            self.call_from_thread(self._tell_outage, str(error))
            return
        finally:
            self._is_asking = False
        known = [one for one in nodes if self._node in (None, one.name)]
        self.call_from_thread(self._take, tenants, known)

    def _is_shown(self) -> bool:
        """Whether the list exists: an answer may come before it is drawn, or at the very end."""
        return self.is_running and bool(self.screen_stack[0].query("#problem"))

    def _tell_outage(self, problem: str) -> None:
        if self._is_shown():
            self._tell(problem)

    def _tell(self, problem: str) -> None:
        self.screen_stack[0].query_one("#problem", Static).update(Text(problem, "bold red"))

    def _take(self, tenants: list[TenantView], nodes: list[NodeView]) -> None:
        if not self._is_shown():
            return
        self._tenants = tenants
        self._tell("")
        lines = Text("\n").join(map(node_line, nodes))
        self.screen_stack[0].query_one("#nodes", Static).update(lines)
        self._draw()

    def _draw(self) -> None:
        """Redraw the rows; the cursor stays on its tenant even if the tenant's row moved."""
        table = self.screen_stack[0].query_one("#tenants", DataTable)
        chosen = self._chosen(table)
        table.clear(columns=True)
        for i, column in enumerate(COLUMNS):
            mark = "" if i != self._sorted_by else " ▲" if self._rises() else " ▼"
            table.add_column(Text(column.name + mark, "bold"))
        by = COLUMNS[self._sorted_by]
        found = [one for one in self._tenants if matches(one, self._words)]
        self._shown = ordered(found, by, self._is_reversed)
        for one in self._shown:
            table.add_row(*(_cell(column.text(one), column.is_number) for column in COLUMNS))
        keys = [(one.node, one.cgroup) for one in self._shown]
        if chosen in keys:
            table.move_cursor(row=keys.index(chosen))
        if not self._tenants:
            self._tell(NO_TENANTS)
        elif not found:
            self._tell(f"no tenant matches {self._words!r}; Esc shows all")

    def _rises(self) -> bool:
        return COLUMNS[self._sorted_by].is_largest_first == self._is_reversed

    def _chosen(self, table: DataTable[Text]) -> tuple[str, str] | None:
        row = table.cursor_row
        one = self._shown[row] if 0 <= row < len(self._shown) else None
        return None if one is None else (one.node, one.cgroup)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the keys of the list while a tenant's page is open."""
        return len(self.screen_stack) == 1 or action not in LIST_ACTIONS

    def action_sort(self, step: int) -> None:
        """Sort by the next column, or by the previous one."""
        self._sorted_by = (self._sorted_by + step) % len(COLUMNS)
        self._is_reversed = False
        self._draw()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._is_reversed = not self._is_reversed
        self._draw()

    def action_filter(self) -> None:
        """Open the input line for the words that tenants must contain."""
        line = self.query_one("#filter", Input)
        line.styles.display = "block"
        line.focus()

    def action_clear(self) -> None:
        """Show all tenants again."""
        line = self.query_one("#filter", Input)
        line.value = self._words = ""
        self._close_filter()

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).styles.display = "none"
        self._table.focus()
        self._tell("")
        self._draw()

    def action_cursor(self, step: int) -> None:
        """Move the cursor to the row above or below."""
        self._table.move_cursor(row=self._table.cursor_row + step)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the words are typed."""
        self._words = event.value
        self._tell("")
        self._draw()

    def on_input_submitted(self) -> None:
        """Close the input line; the filter stays in effect."""
        self._close_filter()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the clicked column; a second click reverses the order."""
        self._is_reversed = event.column_index == self._sorted_by and not self._is_reversed
        self._sorted_by = event.column_index
        self._draw()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the tenant's page on Enter."""
        if event.cursor_row < len(self._shown):
            one = self._shown[event.cursor_row]
            self.push_screen(TenantScreen(self._remote, one.cgroup, one.node, self._interval_s))


def _cell(text: str | Text, is_number: bool) -> Text:
    cell = Text(text) if isinstance(text, str) else text.copy()
    cell.justify = "right" if is_number else "left"
    return cell
