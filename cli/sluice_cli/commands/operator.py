"""`sluice operator`: the operator process, as its Deployment runs it."""

from __future__ import annotations

import argparse
import os
import socket
from typing import Any
from urllib.parse import urlsplit

from sluice_cli.errors import MistakeError
from sluice_cli.parsing import at_least, duration


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "operator",
        help="run the Kubernetes operator (its Deployment does this for you)",
        description="Keep the pods of every StreamsApp and coordinate its tasks, while this process leads; else wait, "
        "and tell workers who does. Credentials are those of its service account, else of the kubeconfig (KUBECONFIG).",
        examples="""
          sluice operator --coordinator-url https://sluice-coordinator.sluice-system.svc:8080 \\
              --lease-namespace sluice-system
        """,
    )
    parser.set_defaults(execute=execute)
    required = parser.add_argument_group("required")
    required.add_argument(
        "--coordinator-url",
        required=True,
        metavar="URL",
        help="https://HOST:PORT at which workers reach it; it makes its own certificate for HOST",
    )
    required.add_argument(
        "--lease-namespace",
        required=True,
        metavar="NAMESPACE",
        help="where its Lease and the Secret with its certificates are",
    )
    parser.add_argument(
        "--tls-secret",
        metavar="NAME",
        help="the Secret with its certificates (default: the first part of HOST, and -tls)",
    )
    parser.add_argument("--host", default="0.0.0.0", help="address to listen at (default: all)")  # noqa: S104
    parser.add_argument("--port", type=at_least(1), default=8080, help="port to listen at (default: %(default)s)")
    parser.add_argument(
        "--probe-port",
        type=at_least(1),
        metavar="PORT",
        help="for /healthz, /readyz and /metrics, in plain HTTP (default: the one after --port)",
    )
    parser.add_argument(
        "--advertise",
        metavar="ADDRESS",
        help="at which workers reach this very process when others send them (default: POD_IP)",
    )
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        metavar="NAME",
        help="look after this namespace only; repeatable (default: the whole cluster)",
    )
    parser.add_argument("--identity", default=None, help="its name on the Lease (default: POD_NAME, else the host's)")
    parser.add_argument(
        "--lease-duration",
        type=duration,
        default=15_000,
        metavar="DURATION",
        help="others may lead so long after the last sign of a leader (default: 15s)",
    )
    parser.add_argument(
        "--renew-deadline",
        type=duration,
        default=10_000,
        metavar="DURATION",
        help="a leader that can't renew for so long ends (default: 10s)",
    )
    parser.add_argument(
        "--retry",
        type=duration,
        default=2_000,
        metavar="DURATION",
        help="between two attempts to get or keep the Lease (default: 2s)",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Run until it is asked to end."""
    from sluice_operator.kube.elector import LeaseSettings
    from sluice_operator.main import OperatorSettings, run_operator

    url = urlsplit(arguments.coordinator_url)
    if url.scheme != "https" or not url.hostname:
        raise MistakeError(
            f"--coordinator-url is {arguments.coordinator_url!r}; it must be https://HOST:PORT, since workers send "
            "their tokens there"
        )
    try:
        lease = LeaseSettings(
            namespace=arguments.lease_namespace,
            duration=max(1, arguments.lease_duration // 1000),
            renew_deadline=arguments.renew_deadline / 1000,
            retry=arguments.retry / 1000,
        )
    except ValueError as error:
        raise MistakeError(str(error)) from None
    address = arguments.advertise or os.environ.get("POD_IP")
    settings = OperatorSettings(
        lease=lease,
        identity=arguments.identity or f"{os.environ.get('POD_NAME') or socket.gethostname()}-{os.getpid()}",
        coordinator_url=arguments.coordinator_url,
        tls_secret=arguments.tls_secret or f"{_service(url.hostname)}-tls",
        advertised_url=None if address is None else f"https://{_bracketed(address)}:{arguments.port}",
        host=arguments.host,
        port=arguments.port,
        probe_port=arguments.probe_port or arguments.port + 1,
        namespaces=tuple(arguments.namespace),
    )
    return run_operator(settings)


def _service(host: str) -> str:
    """The name of a Service; that of the chart's for an address."""
    name = host.partition(".")[0]
    return "sluice-coordinator" if name.isdigit() or ":" in host else name


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
