"""What a command ends with when it can't do its work: one sentence for the person, and an exit code."""

from __future__ import annotations


class CommandError(Exception):
    """The message is shown as it is, without a traceback."""

    exit_code = 1


class MistakeError(CommandError):
    """The person's own mistake: trying again without a change is of no use."""

    exit_code = 2


class NothingRunsError(CommandError):
    """There is no application where the command looked for one."""
