"""The `ottla security` command."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import click

from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import format_option
from ottla.cli.support.output import echo_err, print_json
from ottla.cli.support.problem_kinds import BAD_CONFIG
from ottla.cli.support.problems import Problem, need_package
from ottla.cli.support.profiles import profiles_file

DEFAULT_FOLDER = "./ottla-security"
_NAME = re.compile(r"[A-Za-z0-9_.@-]+")


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def security() -> None:
    """Set up TLS, users and an authorizer for development.

    \b
    ottla security init
    """


@security.command(short_help="Make a CA, certificates, an admin user and a profile.")
@click.argument(
    "folder", metavar="[DIR]", default=DEFAULT_FOLDER, type=click.Path(file_okay=False, path_type=Path)
)
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME",
    help="A name or address of the brokers; repeatable.  [default: 127.0.0.1 and localhost]",
)  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=9092, show_default=True, metavar="N",
              help="The port of the (first) broker.")  # fmt: skip
@click.option("--admin", metavar="NAME", default="admin", show_default=True, help="The administrator.")
@click.option("--mtls", is_flag=True, help="Clients need a certificate as well as a password.")
@click.option("--days", type=click.IntRange(1, 3650), default=365, show_default=True, metavar="N",
              help="How long the certificates are valid.")  # fmt: skip
@click.option("--profile", metavar="NAME", default="secure", show_default=True, help="The new profile.")
@click.option("--force", is_flag=True, help="Replace the files in DIR.")
@format_option
def init(
    folder: Path,
    hosts: tuple[str, ...],
    port: int,
    admin: str,
    mtls: bool,
    days: int,
    profile: str,
    force: bool,
    output_format: str,
) -> None:
    """Make a CA, certificates, an admin user and a profile in DIR.

    For development: the key of the CA stays in DIR, without a password.

    \b
    ottla security init
    ottla serve --config ottla-security/server.properties
    ottla topic create orders --profile secure
    """
    need_package("cryptography", "security")
    # Imported here: they need the extra `security`, and --help does not.
    from ottla.cli.security.certificates import DevelopmentCa
    from ottla.cli.security.set_up import CLIENT_FILE, SERVER_FILE, SetUp, add_profile, existing_files
    from ottla.common.clock import SystemClock
    from ottla.common.ids import new_nonce

    if _NAME.fullmatch(admin) is None or admin == "broker":
        raise click.UsageError(f"{admin!r} cannot be the name of the administrator")
    if not force and (there := existing_files(folder)):
        raise Problem(
            f"{folder / there[0]} exists", "replace it, and the other files, with --force", kind=BAD_CONFIG
        )
    made = SetUp(
        folder.resolve(),
        hosts or ("127.0.0.1", "localhost"),
        port,
        admin,
        new_nonce(),
        new_nonce(),
        new_nonce(),
        mtls,
    )
    profiles = profiles_file()
    add_profile(profiles, profile, made.profile())
    now = datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC)
    made.write(DevelopmentCa("Ottla development CA", now, days))
    if output_format == "json":
        print_json(
            {
                "directory": str(made.folder),
                "server_config": str(made.folder / SERVER_FILE),
                "client_config": str(made.folder / CLIENT_FILE),
                "profile": profile,
                "profiles_file": str(profiles),
                "admin": admin,
            }
        )
        return
    echo_err(
        f"made a CA, certificates for {', '.join(made.hosts)}, and the administrator {admin} in {folder}"
    )
    echo_err(f"added the profile {profile} to {profiles}")
    echo_err("next:")
    echo_err(f"  ottla serve --config {folder / SERVER_FILE}")
    echo_err(f"  ottla user create alice --profile {profile}")
    echo_err(f"  ottla acl create --principal alice --producer --topic orders --profile {profile}")
