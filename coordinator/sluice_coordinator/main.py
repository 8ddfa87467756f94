"""The coordinator process."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable

from aiohttp import web

from sluice_coordinator.admission import SharedSecret
from sluice_coordinator.driver import Driver
from sluice_coordinator.fencing import Fencer
from sluice_coordinator.metrics import Metrics
from sluice_coordinator.records import DirectoryInUseError, Records, RecordsDamagedError
from sluice_coordinator.server import Server
from sluice_coordinator.settings import CoordinatorSettings
from sluice_coordinator.topics.admin import TopicAdmin
from sluice_coordinator.topics.connections import AdminConnections, InvalidKafkaConfigError

__all__ = ["CoordinatorSettings", "run_coordinator"]

_SHUTDOWN_SECONDS = 1.0

log = logging.getLogger("sluice.coordinator")


def run_coordinator(settings: CoordinatorSettings, secret: str) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code. `coordinator.json` in the run directory has its address.

    A Kafka that can't be reached is waited for. 1 = it could not start at all; one sentence on stderr says why.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        records = Records(settings.run_directory)
        try:
            asyncio.run(_serve(settings, secret, records))
        finally:
            records.close()
    except (DirectoryInUseError, RecordsDamagedError) as error:
        return _fail(str(error))
    except InvalidKafkaConfigError as error:
        return _fail(f"coordinator of {settings.application_id} can't run: its Kafka settings are invalid: {error}")
    except OSError as error:
        return _fail(f"coordinator of {settings.application_id} can't run: {error}")
    return 0


async def _serve(settings: CoordinatorSettings, secret: str, records: Records) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    metrics = Metrics(lambda: [(driver.key, driver.view())])
    driver = Driver(settings, records, topic_admin(settings, AdminConnections()), fencer(settings), metrics)
    server = Server({driver.key: driver}, metrics, SharedSecret(secret))
    runner = web.AppRunner(
        server.application(), handler_cancellation=True, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.host, settings.port)
        await site.start()
        driver.start()
        url = _url(runner)
        records.write_address(url)
        log.info("coordinator of %s listens at %s", settings.application_id, url)
        await stopped.wait()
    finally:
        await driver.close()
        await runner.cleanup()


def topic_admin(
    settings: CoordinatorSettings, connections: AdminConnections, check: Callable[[], None] = lambda: None
) -> TopicAdmin:
    """What talks to the application's Kafka about topics; `check` raises OSError when it may change none any more.
    Raises InvalidKafkaConfigError."""
    connection = connections.to(settings.bootstrap_servers, settings.kafka_config)
    return TopicAdmin(connection, replication_factor=settings.replication_factor, check=check)


def fencer(settings: CoordinatorSettings, check: Callable[[], None] = lambda: None) -> Fencer:
    """What fences the application's workers; `check` raises OSError when it may fence none any more."""
    return Fencer(
        settings.bootstrap_servers, settings.kafka_config, transaction_timeout_ms=settings.transaction_timeout_ms,
        check=check,
    )  # fmt: skip


def _url(runner: web.AppRunner) -> str:
    host, port = runner.addresses[0][:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _fail(message: str) -> int:
    print(message, file=sys.stderr)  # noqa: T201 - the one sentence that its starter reads
    return 1
