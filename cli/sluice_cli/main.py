"""The `sluice` command: finds the subcommand, and turns what went wrong into one sentence and an exit code.

Only the standard library is imported before a subcommand has been chosen, so that help is instant and needs no extra.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sluice_cli.commands import coordinator, describe, dev, operator, reset, resume, run, scale, status, version, worker
from sluice_cli.errors import CommandError
from sluice_cli.parsing import Parser

_COMMANDS = (run, scale, status, describe, resume, reset, worker, coordinator, operator, dev, version)
_EXTRAS = {
    "aiohttp": "local",
    "kopf": "operator",
    "yaml": "operator",
    "confluent_kafka": "local",
    "prometheus_client": "local",
    "rich": "local",
    "numpy": "worker",
    "orjson": "worker",
    "pandas": "worker",
    "pyarrow": "worker",
    "pyspark": "worker",
    "rocksdict": "worker",
}
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; gives the exit code: 0, 1 (it didn't work), 2 (the person's mistake)."""
    parsed = make_parser().parse_args(arguments)
    try:
        return int(parsed.execute(parsed))
    except CommandError as error:
        print(f"sluice {parsed.command}: {error}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        install = f"pip install 'sluice[{_EXTRAS[package]}]'"
        print(
            f"sluice {parsed.command}: needs {package}, which is not installed; install it with: {install}",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # as in `sluice status | head`
        sys.stderr.close()
        return 0


def make_parser() -> Parser:
    """The whole command line."""
    parser = Parser(
        prog="sluice",
        description="Stateful stream processing on Kafka that scales out, in and up without stopping.",
        examples="""
          sluice dev kafka up                      a Kafka on this machine, until Ctrl-C
          sluice run orders:topology --bootstrap localhost:9092
          sluice scale 3                           from another terminal
          sluice status --watch
        """,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    return parser
