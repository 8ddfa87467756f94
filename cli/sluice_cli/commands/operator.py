"""`sluice operator`: the operator process, as its Deployment runs it."""

from __future__ import annotations

import argparse
import os
import socket
from typing import Any

from sluice_cli.errors import MistakeError
from sluice_cli.parsing import at_least, duration


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "operator",
        help="run the Kubernetes operator (its Deployment does this for you)",
        description="Keep the pods of every StreamsApp and coordinate its tasks, while this process leads. Credentials "
        "are those of its service account, else of the kubeconfig (KUBECONFIG).",
        examples="""
          sluice operator --coordinator-url http://sluice-coordinator.sluice-system:8080 --lease-namespace sluice-system
        """,
    )
    parser.set_defaults(execute=execute)
    required = parser.add_argument_group("required")
    required.add_argument("--coordinator-url", required=True, metavar="URL", help="at which workers reach it")
    required.add_argument("--lease-namespace", required=True, metavar="NAMESPACE", help="where its Lease is")
    parser.add_argument("--host", default="0.0.0.0", help="address to listen at (default: all)")  # noqa: S104
    parser.add_argument("--port", type=at_least(1), default=8080, help="port to listen at (default: %(default)s)")
    parser.add_argument("--namespace", action="append", default=[], metavar="NAME",
                        help="look after this namespace only; repeatable (default: the whole cluster)")  # fmt: skip
    parser.add_argument("--identity", default=None, help="its name on the Lease (default: POD_NAME, else the host's)")
    parser.add_argument("--lease-duration", type=duration, default=15_000, metavar="DURATION",
                        help="others may lead so long after the last sign of a leader (default: 15s)")  # fmt: skip
    parser.add_argument("--renew-deadline", type=duration, default=10_000, metavar="DURATION",
                        help="a leader that can't renew for so long ends (default: 10s)")  # fmt: skip
    parser.add_argument("--retry", type=duration, default=2_000, metavar="DURATION",
                        help="between two attempts to get or keep the Lease (default: 2s)")  # fmt: skip


def execute(arguments: argparse.Namespace) -> int:
    """Run until it is asked to end."""
    from sluice_operator.kube.elector import LeaseSettings
    from sluice_operator.main import OperatorSettings, run_operator

    try:
        lease = LeaseSettings(
            namespace=arguments.lease_namespace,
            duration=max(1, arguments.lease_duration // 1000),
            renew_deadline=arguments.renew_deadline / 1000,
            retry=arguments.retry / 1000,
        )
    except ValueError as error:
        raise MistakeError(str(error)) from None
    settings = OperatorSettings(
        lease=lease,
        identity=arguments.identity or f"{os.environ.get('POD_NAME') or socket.gethostname()}-{os.getpid()}",
        coordinator_url=arguments.coordinator_url,
        host=arguments.host,
        port=arguments.port,
        namespaces=tuple(arguments.namespace),
    )
    return run_operator(settings)
