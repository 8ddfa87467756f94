"""A small TCP forwarder on loopback that can be cut: a Service, or the way of one process to the API server."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self


class Forwarder:
    """Forwards to its targets (ports of loopback) in turn. Use it as a context manager."""

    def __init__(self, targets: Sequence[int]) -> None:
        self._targets = itertools.cycle(targets)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._is_open = asyncio.Event()
        self._is_open.set()
        self.port = 0

    def cut(self) -> None:
        """Let nothing through for good, in either direction; connections stay and say nothing."""
        self._loop.call_soon_threadsafe(self._is_open.clear)

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            try:
                await self._is_open.wait()
                there, back = await asyncio.open_connection("127.0.0.1", next(self._targets))
                try:
                    async with asyncio.TaskGroup() as both:
                        both.create_task(self._pump(reader, back))
                        both.create_task(self._pump(there, writer))
                finally:
                    back.close()
            finally:
                writer.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Until either side ends; then the other one is ended too."""
        with contextlib.suppress(OSError):
            while data := await source.read(65_536):
                await self._is_open.wait()
                sink.write(data)
                await sink.drain()
        sink.close()
