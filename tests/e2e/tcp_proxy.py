"""A network between two processes that can be cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class TcpProxy:
    """Passes connections on to a URL's address while it is whole; `cut` ends them and refuses new ones."""

    def __init__(self) -> None:
        self._upstream: tuple[str, int] | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._whole = True
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def lead_to(self, url: str) -> None:
        """Until this is said, every connection is refused."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._upstream = (parts.hostname, parts.port)

    def cut(self) -> None:
        with self._lock:
            self._whole = False
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        with self._lock:
            self._whole = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        with client:
            if self._upstream is None:
                return
            try:
                server = socket.create_connection(self._upstream, timeout=3)
            except OSError:
                return  # the coordinator is away
            with server:
                server.settimeout(None)
                if self._enter(client, server):
                    back = threading.Thread(target=_copy, args=(server, client), daemon=True)
                    back.start()
                    _copy(client, server)
                    back.join()
                    self._leave(client, server)

    def _enter(self, *sockets: socket.socket) -> bool:
        with self._lock:
            if self._whole:
                self._sockets.update(sockets)
            return self._whole

    def _leave(self, *sockets: socket.socket) -> None:
        with self._lock:
            self._sockets.difference_update(sockets)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
