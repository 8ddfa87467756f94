"""An application that was reset computes everything anew, and the same."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from e2e_application import PARTITIONS, SECONDS, Shop, is_stable

from sluice_pipeline.offsets import Offsets

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

USERS = 40


def reset(shop: Shop, *flags: str) -> subprocess.CompletedProcess[str]:
    settings = shop.settings("counting")
    command = [
        sys.executable, "-m", "sluice_cli", "reset", settings.pipeline, f"--bootstrap={shop.servers}",
        f"--application-id={shop.application_id}", f"--run-directory={settings.run_directory}", *flags,
    ]  # fmt: skip
    environment = {**os.environ, **settings.environment}
    environment["PYTHONPATH"] = os.pathsep.join([settings.environment["PYTHONPATH"], os.environ.get("PYTHONPATH", "")])
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_after_a_reset_everything_is_computed_anew_and_comes_out_the_same(shop: Shop) -> None:
    shop.create_topics("orders", "totals")
    shop.order_many(10 * USERS, USERS)

    with shop.run() as application:
        application.wait(is_stable(1), SECONDS)
        shop.wait_processed()
        refused = reset(shop, "--yes")
        assert (refused.returncode, "Stop it first, or take --force" in refused.stderr) == (2, True)
        assert shop.totals() == shop.expected

    done = reset(shop, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    partitions = [(shop.topics.name("orders"), number) for number in range(PARTITIONS)]
    assert set(Offsets(shop.servers, {}, shop.application_id).committed(partitions).values()) == {0}
    shop.order_many(2 * USERS, USERS)
    with shop.run() as application:
        application.wait(is_stable(1), SECONDS)
        shop.wait_processed()

    assert shop.totals() == shop.expected
