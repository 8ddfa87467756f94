"""What a caller can get wrong. Each message names the field and its value, and says what to do."""

from __future__ import annotations


class InvalidGroupError(ValueError):
    """The state of the group contradicts itself, or breaks a rule of KIP-708 for tags."""


class InvalidConfigError(ValueError):
    """A parameter is out of its range, or names what does not exist."""


class MissingSolverError(RuntimeError):
    """A strategy needs a package that is not installed."""
