"""Local mode: an application on this machine, its coordinator and workers as supervised processes.

from sluice_cli.local import LocalApplication, LocalSettings
"""

from sluice_cli.local.application import LocalApplication, WaitTimeoutError
from sluice_cli.local.settings import LocalSettings

__all__ = ["LocalApplication", "LocalSettings", "WaitTimeoutError"]
