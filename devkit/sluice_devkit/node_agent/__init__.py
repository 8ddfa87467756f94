"""The node agent: what scheduler, kubelet, volume provisioner and kube-proxy do, for pods that are local processes.

It knows the cluster only through the API server, as they do.
"""

from sluice_devkit.node_agent.agent import Container, NodeAgent
from sluice_devkit.node_agent.images import Image, of_this_machine
from sluice_devkit.node_agent.settings import NodeSettings

__all__ = ["Container", "Image", "NodeAgent", "NodeSettings", "of_this_machine"]
