"""What the end-to-end tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from e2e_application import Shop


@pytest.fixture
def shop(kafka: Any, topics: Any, tmp_path: Path) -> Shop:
    return Shop(kafka, topics, tmp_path)
