"""The way to the coordinator: what can't be one is refused by its value."""

from __future__ import annotations

import pytest

from sluice_protocol.route import NotCoordinator, Route, leader_of
from sluice_protocol.wire import encode


@pytest.mark.parametrize("url", ["", "coordinator:8080", "ftp://coordinator", "https://"])
def test_a_url_that_is_none_is_refused(url: str):
    with pytest.raises(ValueError, match=r"URL is .* must be http://HOST:PORT or https://HOST:PORT"):
        Route(url)


def test_a_ca_wants_https():
    with pytest.raises(ValueError, match="use https://"):
        Route("http://coordinator:8080", "a CA")


def test_a_ca_that_is_none_is_refused():
    with pytest.raises(ValueError, match="must be PEM certificates"):
        Route("https://coordinator:8080", "-----BEGIN NOTHING-----")


def test_whoever_does_not_lead_says_who_does():
    assert leader_of(encode(NotCoordinator("not I", "https://10.0.0.5:8080"))) == "https://10.0.0.5:8080"
    assert leader_of(encode(NotCoordinator("nobody"))) is None
    assert leader_of(b"<html>421</html>") is None
