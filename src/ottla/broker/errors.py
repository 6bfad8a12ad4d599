"""Why a broker does not start."""


class StartError(Exception):
    """The broker cannot start; the message says why and what to do."""
