"""What can go wrong through no fault of ours: each kind says what was given, what is allowed and what to do, and has its exit code."""


class PatchwordsError(Exception):
    """Something a user can cause and mend; the command line prints the sentence and leaves with `exit_code`."""

    exit_code = 1


class UsageError(PatchwordsError):
    """A wrong name, setting or combination of settings."""

    exit_code = 2


class DataError(PatchwordsError):
    """A problem in the pictures or their labels."""

    exit_code = 3


class ModelError(PatchwordsError):
    """A problem in a model or a checkpoint."""

    exit_code = 4


class ResourceError(PatchwordsError):
    """Out of memory or disk."""

    exit_code = 5


class NetworkError(PatchwordsError):
    """The network did not answer, answered something else, or was forbidden."""

    exit_code = 7
