"""How to reach a Service of the cluster that speaks TLS under an authority of its own."""

from __future__ import annotations

import base64

from sluice_devkit.kubernetes.client import KubernetesClient


def https_service(client: KubernetesClient, namespace: str, service: str, secret: str) -> tuple[str, str]:
    """The URL of its first port, and the certificates (PEM) in the Secret by which to verify it. Raises ApiError."""
    spec = client.get(f"/api/v1/namespaces/{namespace}/services/{service}")["spec"]
    return f"https://{spec['clusterIP']}:{spec['ports'][0]['port']}", authority(client, namespace, secret)


def authority(client: KubernetesClient, namespace: str, secret: str) -> str:
    """The certificates (PEM) in a Secret by which to verify a server. Raises ApiError."""
    data = client.get(f"/api/v1/namespaces/{namespace}/secrets/{secret}")["data"]
    return base64.b64decode(data["ca.crt"]).decode()
