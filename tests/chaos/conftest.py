"""What the fault tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sluice_pipeline.engine.session import settings


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session as workers have it."""
    builder = SparkSession.builder
    for key, value in settings("local[1]", 1, {}).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
