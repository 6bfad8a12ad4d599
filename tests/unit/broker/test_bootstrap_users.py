from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.broker import Broker
from ottla.common.config.declaration import ConfigError


async def test_a_mistake_in_the_first_users_stops_the_start_and_not_every_controller(tmp_path: Path) -> None:
    raw = {
        "node.id": "1",
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "ottla.bootstrap.scram": "SCRAM-SHA-512=[name=admin]",
    }
    with pytest.raises(ConfigError, match=r"ottla.bootstrap.scram"):
        async with Broker(raw):
            pass
