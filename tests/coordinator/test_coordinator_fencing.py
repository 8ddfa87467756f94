"""What was not fenced for sure counts as not fenced."""

from __future__ import annotations

import pytest

from sluice_coordinator.fencing import Fencer, FencingError


def test_settings_that_no_client_takes_fence_nobody():
    fencer = Fencer("127.0.0.1:1", {"security.protocol": "nonsense"})

    with pytest.raises(FencingError, match=r"app-worker-0-0: .*security\.protocol.*; app-worker-0-1: "):
        fencer.fence(["app-worker-0-1", "app-worker-0-0"])


def test_who_may_not_act_any_more_fences_nobody():
    def check() -> None:
        raise PermissionError("somebody else leads")

    with pytest.raises(FencingError, match=r"app-worker-0-0: somebody else leads"):
        Fencer("127.0.0.1:1", {}, check=check).fence(["app-worker-0-0"])


def test_there_is_nothing_to_fence_without_ids():
    Fencer("127.0.0.1:1", {}).fence([])
