"""Free ports of the loopback interface for services that must come back on the same port after a restart.

They are taken from below the range that the kernel gives to outgoing connections. A port inside that range can be lost
while its service is down, even to a client that tries to reconnect to it and so meets itself.
"""

from __future__ import annotations

import itertools
import random
import socket
from pathlib import Path

_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_WIDTH = 12_000
_ATTEMPTS = 200


class NoFreePortError(RuntimeError):
    """No port could be had."""


def free_ports(count: int) -> list[int]:
    """Different ports that are free at this moment. Raises NoFreePortError."""
    first_outgoing = int(_RANGE_FILE.read_text().split()[0]) if _RANGE_FILE.exists() else 32_768
    candidates = random.sample(range(max(1_024, first_outgoing - _WIDTH), first_outgoing), _ATTEMPTS)
    free = list(itertools.islice(filter(is_free, candidates), count))
    if len(free) < count:
        raise NoFreePortError(f"{count} free ports were wanted below {first_outgoing} and {len(free)} found.")
    return free


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: TIME_WAIT doesn't count
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
