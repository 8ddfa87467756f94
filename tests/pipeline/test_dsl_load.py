from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sluice_pipeline.dsl import PipelineNotFoundError, TopologyError, load_topology

GOOD = "import sluice\ntopology = sluice.Topology('shop')\ntopology.stream('t', value='v int').to('u')\nnumber = 3\n"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_topology_of_the_working_directory_is_found(directory: Path):
    (directory / "loaded_good.py").write_text(GOOD)

    assert load_topology("loaded_good:topology").application_id == "shop"


def test_a_topology_of_a_package_is_found(directory: Path):
    (directory / "loaded_package").mkdir()
    (directory / "loaded_package" / "pipeline.py").write_text(GOOD)

    assert load_topology("loaded_package.pipeline:topology").application_id == "shop"


@pytest.mark.parametrize(
    ("pipeline", "content", "message"),
    [
        ("loaded_form", "", "pipeline 'loaded_form': it is not of the form module:attribute"),
        ("loaded_form:", "", "not of the form module:attribute"),
        (":topology", "", "not of the form module:attribute"),
        ("loaded_missing:topology", None, "there is no module 'loaded_missing' in "),
        ("loaded_missing.pipeline:topology", None, "there is no module 'loaded_missing' in "),
        ("loaded_attribute:nothing", GOOD, "has no 'nothing'; it has loaded_attribute:topology"),
        ("loaded_number:number", GOOD, "'number' is a int and not a sluice.Topology"),
        ("loaded_empty:topology", "", "it has no topology at all"),
        ("loaded_raising:topology", "x = 1\n1 / 0\n", "ZeroDivisionError: division by zero (loaded_raising.py:2)"),
        ("loaded_syntax:topology", "x = 1\nx = = 2\n", "(loaded_syntax.py:2)"),
        ("loaded_import:topology", "import nowhere_at_all\n", "No module named 'nowhere_at_all' (loaded_import.py:1)"),
        ("loaded_exit:topology", "import sys\nsys.exit(3)\n", "SystemExit: 3 (loaded_exit.py:2)"),
        ("loaded_dots..x:topology", None, "loaded_dots"),
    ],
)
def test_a_mistake_is_one_sentence(directory: Path, pipeline: str, content: str | None, message: str):
    if content is not None:
        (directory / f"{pipeline.partition(':')[0]}.py").write_text(content)

    with pytest.raises(PipelineNotFoundError) as caught:
        load_topology(pipeline)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mistake_of_the_topology_itself_names_its_line(directory: Path):
    (directory / "loaded_mistake.py").write_text(
        "import sluice\napp = sluice.Topology('a')\napp.stream('t', value='v')\n"
    )

    with pytest.raises(TopologyError, match=r"^loaded_mistake\.py:3: 'v' is not a column"):
        load_topology("loaded_mistake:app")
