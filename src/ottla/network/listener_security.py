"""What a listener asks of its clients: TLS, a certificate, SASL."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from ottla.security.certificate_name import PrincipalMapper, distinguished_name
from ottla.security.principal import ANONYMOUS, user_principal
from ottla.security.sasl import SaslSession


@dataclass(slots=True)
class ListenerSecurity:
    """The security of one listener. `tls` is replaced when certificates change: new connections use it."""

    tls: ssl.SSLContext | None = None
    mapper: PrincipalMapper | None = None
    """How the names in certificates become user names."""
    new_sasl: Callable[[], SaslSession] | None = None
    """Returns the SASL state of a new connection; None: clients do not authenticate by SASL."""

    def principal(self, certificate: bytes | None) -> str | None:
        """Return who a client is by its certificate (DER); without a certificate it is anonymous.

        None: no rule is for its name. As in Kafka, such a client is refused.
        """
        if certificate is None:
            return ANONYMOUS
        name = distinguished_name(certificate)
        user = name if self.mapper is None else self.mapper.user_name(name)
        return None if user is None else user_principal(user)


PLAINTEXT = ListenerSecurity()
"""A listener that asks nothing."""
