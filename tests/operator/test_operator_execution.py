"""What is remembered of an action that failed."""

from __future__ import annotations

import asyncio
from typing import cast

import kopf
import pytest
from operator_builders import an_app

from sluice_operator.coordination import Coordination
from sluice_operator.kube.client import Kube, KubeError
from sluice_operator.kube.execution import Execution, Progress
from sluice_operator.observed import Cleanup
from sluice_operator.workers.actions import DeleteTopics

NOBODY_LISTENS = "http://127.0.0.1:1"


def test_topics_count_as_deleted_only_once_they_are():
    progress = Progress()

    async def story() -> None:
        async with Kube(lambda: kopf.ConnectionInfo(server=NOBODY_LISTENS)) as kube:
            execution = Execution(kube, cast(Coordination, None), ())  # it fails before anybody is told
            await execution.do(an_app(is_going=True), DeleteTopics(("a-changelog",)), progress)

    with pytest.raises(KubeError):
        asyncio.run(story())
    assert progress.cleanup is Cleanup.DUE
