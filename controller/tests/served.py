# SPDX-License-Identifier: Apache-2.0
"""The real application behind a real server, on a free port of the loopback device."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from cachepilot.api.app import create_app
from cachepilot.api.service import Service
from cachepilot.api.serving.bounded_body import BODY_S
from cachepilot.fleet.access import Access

DEADLINE_SECONDS = 10.0


@contextmanager
def served(
    service: Service, access: Access | None = None, body_s: float = BODY_S, **tls: Any
) -> Iterator[str]:
    """Serve `service` until the context ends, and yield the URL. `tls` goes to uvicorn."""
    app = create_app(service, access=access, body_s=body_s)
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", **tls)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not server.started:
        assert thread.is_alive() and time.monotonic() < deadline, "the server did not start"
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"{'https' if 'ssl_certfile' in tls else 'http'}://127.0.0.1:{port}"
    finally:
        app.state.events.close()
        server.should_exit = True
        thread.join(DEADLINE_SECONDS)
        app.state.plans.close()
        assert not thread.is_alive()
