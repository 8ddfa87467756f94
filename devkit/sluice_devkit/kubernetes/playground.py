"""A Kubernetes to play with: a control plane and nodes, until Ctrl-C. Any kubectl works with its kubeconfig."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

from sluice_devkit.kubernetes.cluster import NODE_AGENT, KubernetesCluster
from sluice_devkit.kubernetes.errors import KubernetesError
from sluice_devkit.kubernetes.go_programs import ComponentsNotBuiltError
from sluice_devkit.kubernetes.toolchain import GoNotFoundError
from sluice_devkit.node_agent import Image, NodeAgent
from sluice_devkit.ports import NoFreePortError
from sluice_jvm.launch import log_tail

IMAGES: Mapping[str, Image] = {"busybox": Image(), "python": Image(arguments=("python",))}
"""What everybody tries first, from the programs of this machine."""


def spread(nodes: int, zones: Sequence[str]) -> dict[str, str]:
    """Names for so many nodes, dealt out to the zones in turn; the zones by node."""
    dealt = [(zones[number % len(zones)], number // len(zones)) for number in range(nodes)]
    return {f"node-{zone}-{number}": zone for zone, number in dealt}


def kubernetes_up(
    nodes: int = 2,
    zones: Sequence[str] = ("a", "b"),
    port: int | None = None,
    directory: Path | None = None,
    images: Mapping[str, Image] = IMAGES,
) -> int:
    """Run a cluster until Ctrl-C or SIGTERM; its kubeconfig's path goes to standard output. Returns the exit status."""
    signal.signal(signal.SIGTERM, _interrupt)
    pods = directory / "nodes" if directory is not None else None
    try:
        with (
            KubernetesCluster(directory, port=port) as cluster,
            NodeAgent(
                cluster.client_of(NODE_AGENT),
                spread(nodes, zones),
                images,
                pods,
                certificate=cluster.serving_certificate,
            ) as agent,
        ):
            _say(str(cluster.kubeconfig), sys.stdout)
            _say(_welcome(cluster, agent, images), sys.stderr)
            component = cluster.wait()
            _say(f"{component} ended by itself.{log_tail(cluster.log(component))}", sys.stderr)
    except KeyboardInterrupt:
        return 0
    except (KubernetesError, ComponentsNotBuiltError, GoNotFoundError, NoFreePortError) as error:
        _say(str(error), sys.stderr)
    return 1


def _welcome(cluster: KubernetesCluster, agent: NodeAgent, images: Mapping[str, Image]) -> str:
    return (
        f"Kubernetes is up at {cluster.url}, with the nodes {', '.join(agent.nodes)}.\n"
        f"  export KUBECONFIG={cluster.kubeconfig}\n"
        f"Pods are processes of this machine. Images that they may name: {', '.join(images)}. Ctrl-C ends it."
    )


def _interrupt(signal_number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(line: str, stream: TextIO) -> None:
    stream.write(f"{line}\n")
    stream.flush()
