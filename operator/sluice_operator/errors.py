"""What comes instead of an answer of the Kubernetes API."""


class KubeError(OSError):
    """The API refused a call, or could not be reached (status 0)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class ConflictError(KubeError):
    """Somebody else has written since the object was read."""
