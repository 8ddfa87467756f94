"""The command line as a person meets it: a process, its output, its exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice_cli.errors import MistakeError
from sluice_cli.parsing import pairs

COMMANDS = ("run", "scale", "status", "describe", "resume", "reset", "worker", "coordinator", "dev", "version")


def sluice(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice_cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=directory, timeout=60, check=False)


def test_help_names_every_command(tmp_path: Path):
    answer = sluice("--help", directory=tmp_path)

    assert answer.returncode == 0
    assert [name for name in COMMANDS if f"\n    {name}" not in answer.stdout] == []


def test_help_imports_nothing_heavy(tmp_path: Path):
    heavy = (
        "aiohttp", "pyspark", "rich", "confluent_kafka", "asyncio", "numpy", "uuid",
        "sluice_assignor", "sluice_coordinator", "sluice_pipeline",
    )  # fmt: skip
    code = f"import sys, sluice_cli.main as m; m.make_parser(); print([n for n in {heavy!r} if n in sys.modules])"

    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)

    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["frob"], "sluice: argument COMMAND: invalid choice: 'frob'"),
        (["scale", "many"], "sluice scale: argument N: 'many' is not a whole number from 0 on"),
        (["run", "a:b"], "sluice run: the following arguments are required: --bootstrap"),
        (
            ["run", "a:b", "--bootstrap", "k:1", "--session-timeout", "10"],
            "sluice run: argument --session-timeout: '10' is not a duration",
        ),
        (
            ["run", "a:b", "--bootstrap", "k:1", "--application-id", "a/b"],
            "sluice run: applicationId 'a/b' can't be part of a topic name",
        ),
        (
            ["run", "a:b", "--bootstrap", "k:1", "--application-id", "a", "--kafka-config", "x"],
            "sluice run: --kafka-config 'x' is not of the form KEY=VALUE",
        ),
        (
            [
                "worker",
                "a:b",
                "--bootstrap=k",
                "--application-id=a",
                "--name=worker-0",
                "--coordinator=http://u:1",
                "--state-dir=s",
            ],
            "sluice worker: SLUICE_SECRET is not set",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(tmp_path: Path, arguments: list[str], sentence: str):
    answer = sluice(*arguments, directory=tmp_path)

    assert answer.returncode == 2
    assert answer.stderr.startswith(sentence)
    assert answer.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [["status"], ["resume"], ["scale", "3"]])
def test_where_nothing_runs_one_sentence_says_so(tmp_path: Path, command: list[str]):
    answer = sluice(*command, directory=tmp_path)

    assert answer.returncode == 1
    assert answer.stderr == (
        f"sluice {command[0]}: nothing runs under {tmp_path / '.sluice'}; "
        "start it with `sluice run`, or name its --run-directory\n"
    )


def test_pairs_come_from_flags_and_files_and_later_ones_win(tmp_path: Path):
    properties = tmp_path / "client.properties"
    properties.write_text("# security\nsecurity.protocol=SSL\n\nlinger.ms=5\n")
    as_json = tmp_path / "client.json"
    as_json.write_text('{"linger.ms": 7, "client.id": "a"}')

    merged = pairs("--kafka-config", [f"@{properties}", f"@{as_json}", "client.id=b=c"])

    assert merged == {"security.protocol": "SSL", "linger.ms": "7", "client.id": "b=c"}


@pytest.mark.parametrize("content", [None, "no pair", "{1}", "[1]"])
def test_a_file_of_pairs_that_cant_be_read_is_named(tmp_path: Path, content: str | None):
    path = tmp_path / "conf"
    if content is not None:
        path.write_text(content)

    with pytest.raises(MistakeError, match=f"--kafka-config @{path}"):
        pairs("--kafka-config", [f"@{path}"])


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("aiohttp", ["run", "a:b", "--bootstrap", "k:1", "--application-id", "a"], "local"),
        (
            "pyspark",
            [
                "worker",
                "a:b",
                "--bootstrap=k",
                "--application-id=a",
                "--name=worker-0",
                "--coordinator=http://u:1",
                "--state-dir=s",
            ],
            "worker",
        ),
    ],
)
def test_a_missing_extra_is_one_sentence_with_the_command(
    tmp_path: Path, missing: str, arguments: list[str], extra: str
):
    code = (
        f"import sys; sys.modules[{missing!r}] = None\nfrom sluice_cli.main import main; sys.exit(main({arguments!r}))"
    )
    environment = {**os.environ, "SLUICE_SECRET": "s"}

    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )

    assert answer.returncode == 2
    assert answer.stderr == (
        f"sluice {arguments[0]}: needs {missing}, which is not installed; "
        f"install it with: pip install 'sluice[{extra}]'\n"
    )
