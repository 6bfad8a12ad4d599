"""Words for what goes wrong between a socket and us."""

from __future__ import annotations

import errno
import os
import socket
import ssl

from ottla.protocol.api_keys import ApiKey


def api_name(api_key: int) -> str:
    """Return an API's name as Kafka writes it."""
    try:
        return ApiKey(api_key).name.title().replace("_", "")
    except ValueError:
        return f"API {api_key}"


def reason_of(error: Exception) -> str:
    """Return what the operating system said, in words (asyncio overwrites them with its own)."""
    if isinstance(error, socket.gaierror):
        return "the host name is not known"
    if isinstance(error, OSError) and (error.errno is not None or "Errno 111" in str(error)):
        text = os.strerror(error.errno or errno.ECONNREFUSED)
        return text[0].lower() + text[1:]
    if isinstance(error, ConnectionResetError):
        return "the connection was reset"
    return str(error) or type(error).__name__


def tls_reason(error: OSError) -> str | None:
    """Return why no encrypted connection came about; None if encryption was not the trouble."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message} (see ssl_cafile, ssl_check_hostname)"
    if not isinstance(error, ssl.SSLError):
        return None
    said = (error.reason or str(error)).replace("_", " ").lower()
    if "wrong version number" in said or "record layer failure" in said:
        return "what listens there does not speak TLS: is it a PLAINTEXT listener?"
    if "alert" in said:
        return f"the broker ended it ({said}): does it want a certificate (ssl_certfile) that it knows?"
    return said
