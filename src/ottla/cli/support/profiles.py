"""Named clusters: a TOML file of options for each, chosen with `--profile` or OTTLA_PROFILE.

    default = "local"

    [local]
    bootstrap.servers = "127.0.0.1:9092"

    [production]
    bootstrap.servers = "kafka-1.example.org:9093,kafka-2.example.org:9093"
    security.protocol = "SASL_SSL"
    sasl.mechanism = "SCRAM-SHA-512"
    sasl.username = "reports"
    sasl.password = "secret"

The names are those of Kafka's clients. The file is ~/.config/ottla/profiles.toml, or what OTTLA_PROFILES
names. A file with passwords must be readable by its owner only (mode 0600), or it is refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.cli.support.problem_kinds import BAD_PROFILE
from ottla.cli.support.problems import Problem

PROFILE_VARIABLE = "OTTLA_PROFILE"
FILE_VARIABLE = "OTTLA_PROFILES"
BOOTSTRAP_KEY = "bootstrap.servers"
REGISTRY_KEY, CONNECT_KEY = "schema.registry.url", "connect.url"
SERVICE_KEYS = (REGISTRY_KEY, CONNECT_KEY)
"""Keys about services beside the brokers: no option of a client, the console reads them."""

READABLE_BY_OTHERS = 0o077
SECRET_WORDS = ("password", "secret", "token", "jaas", "keystore.key")

Profile = dict[str, str]


def profiles_file(environment: Mapping[str, str] | None = None) -> Path:
    """Return the path of the profiles file, whether it exists or not."""
    given = os.environ if environment is None else environment
    if given.get(FILE_VARIABLE):
        return Path(given[FILE_VARIABLE])
    config = Path(given.get("XDG_CONFIG_HOME") or Path(given.get("HOME", "~")).expanduser() / ".config")
    return config / "ottla" / "profiles.toml"


def read_profiles(path: Path) -> tuple[dict[str, Profile], str | None]:
    """Return the profiles of a file by name, and the default one; nothing if there is no file."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}, None
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"cannot read the profiles in {path}: {error}", kind=BAD_PROFILE) from None
    import tomllib

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Problem(f"cannot read the profiles in {path}: {error}", kind=BAD_PROFILE) from None
    default = content.pop("default", None)
    strange = [name for name, value in content.items() if not isinstance(value, dict)]
    if strange:
        raise Problem(f"{path}: {strange[0]} is not a profile; they begin with [NAME]", kind=BAD_PROFILE)
    profiles = {name: dict(_flattened(value)) for name, value in content.items()}
    _check_secret(path, profiles)
    if default is not None and default not in profiles:
        raise Problem(f"{path}: the default profile {default!r} does not exist", kind=BAD_PROFILE)
    return profiles, default


def _check_secret(path: Path, profiles: Mapping[str, Profile]) -> None:
    """Refuse a file with passwords that others can read."""
    has_secrets = any(is_secret(key) for profile in profiles.values() for key in profile)
    if has_secrets and path.stat().st_mode & READABLE_BY_OTHERS:
        raise Problem(
            f"{path} has passwords, and others can read it", f"run:  chmod 600 {path}", kind=BAD_PROFILE
        )


def write_profiles(path: Path, profiles: Mapping[str, Profile], default: str | None) -> None:
    """Write all profiles, atomically; the file is readable by its owner only, like its folder if that is new.

    Comments are not kept.
    """
    import json

    lines = [] if default is None else [f"default = {json.dumps(default)}"]
    for name, options in profiles.items():
        lines += ["", f"[{json.dumps(name)}]", *(f"{key} = {json.dumps(options[key])}" for key in options)]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write("\n".join(lines).lstrip() + "\n")
    draft.replace(path)


def is_secret(key: str) -> bool:
    """Return whether the value of a client option must not be shown."""
    return any(word in key for word in SECRET_WORDS)


def is_secret_of_broker(key: str) -> bool:
    """Return whether the value of a broker's config must not be shown."""
    from ottla.common.config.broker import BrokerConfig
    from ottla.common.config.declaration import ConfigError

    try:
        return BrokerConfig.key(key).kind.sensitive
    except ConfigError:
        return is_secret(key)


def find_profile(name: str | None) -> Profile:
    """Return a profile by name, or the default one; with neither, an empty one."""
    path = profiles_file()
    profiles, default = read_profiles(path)
    if name is None:
        return profiles[default] if default is not None else {}
    if name in profiles:
        return profiles[name]
    known = f"there are: {', '.join(profiles)}" if profiles else f"{path} has none yet"
    raise Problem(f"there is no profile {name!r}", known, kind=BAD_PROFILE)


def _flattened(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return the dotted keys that TOML has parsed as nested tables."""
    found: list[tuple[str, str]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            found += _flattened(value, f"{prefix}{key}.")
        else:
            found.append((prefix + key, str(value).lower() if isinstance(value, bool) else str(value)))
    return found
