"""`ottla profile`: clusters by name, so that commands need no addresses and passwords."""

from __future__ import annotations

import click

from ottla.cli.support.completing import profile_names
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import confirm, format_option, key_values
from ottla.cli.support.output import echo_err, print_json, print_table
from ottla.cli.support.problem_kinds import BAD_PROFILE
from ottla.cli.support.problems import Problem
from ottla.cli.support.profiles import (
    BOOTSTRAP_KEY,
    Profile,
    is_secret,
    profiles_file,
    read_profiles,
    write_profiles,
)

HIDDEN = "(secret)"


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def profile() -> None:
    """Create, list and choose profiles: the options of a cluster by name.

    \b
    ottla profile list
    """


@profile.command("list")
@format_option
def list_profiles(output_format: str) -> None:
    """List the profiles; the default one is marked.

    \b
    ottla profile list
    """
    path = profiles_file()
    profiles, default = read_profiles(path)
    if output_format == "json":
        print_json(
            [{"name": name, "default": name == default, **_shown(profiles[name])} for name in profiles]
        )
    elif profiles:
        rows = [
            [
                name,
                "*" if name == default else "",
                options.get(BOOTSTRAP_KEY, ""),
                options.get("security.protocol", "PLAINTEXT"),
                options.get("sasl.username", ""),
            ]
            for name, options in profiles.items()
        ]
        print_table(["profile", "default", "brokers", "security", "user"], rows)
    else:
        echo_err(f"{path} has no profiles; create one with: ottla profile create NAME -b HOST:PORT")


@profile.command()
@click.argument("name")
@click.option(
    "-b", "--bootstrap-server", "bootstrap", required=True, metavar="HOST:PORT", help="The brokers."
)
@click.option(
    "-X",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    help="A client option in Kafka's spelling; repeatable.",
)
@click.option("--ask-password", is_flag=True, help="Ask for sasl.password, so that no shell history has it.")
@click.option("--use", "becomes_default", is_flag=True, help="Make it the default.")
@click.option("--replace", is_flag=True, help="Replace a profile of this name.")
def create(
    name: str,
    bootstrap: str,
    options: dict[str, str],
    ask_password: bool,
    becomes_default: bool,
    replace: bool,
) -> None:
    """Create the profile NAME. The first one becomes the default.

    \b
    ottla profile create local -b 127.0.0.1:9092
    ottla profile create production -b kafka-1:9093 --ask-password \\
      -X security.protocol=SASL_SSL -X sasl.mechanism=SCRAM-SHA-512 \\
      -X sasl.username=reports -X ssl.ca.location=ca.pem
    """
    path = profiles_file()
    profiles, default = read_profiles(path)
    if name in profiles and not replace:
        raise Problem(
            f"there is a profile {name!r} already",
            f"replace it:  ottla profile create {name} --replace ...",
            kind=BAD_PROFILE,
        )
    if ask_password:
        options["sasl.password"] = click.prompt("Password", hide_input=True, err=True)
    first = not profiles
    profiles[name] = {BOOTSTRAP_KEY: bootstrap, **options}
    default = name if becomes_default or first else default
    write_profiles(path, profiles, default)
    echo_err(f"{name}: written to {path}{', the default' if default == name else ''}")


@profile.command()
@click.argument("name", shell_complete=profile_names)
def use(name: str) -> None:
    """Make NAME the default profile.

    \b
    ottla profile use production
    """
    path = profiles_file()
    profiles, _ = read_profiles(path)
    _check_known(name, profiles)
    write_profiles(path, profiles, name)
    echo_err(f"{name} is the default profile now")


@profile.command()
@click.argument("name", shell_complete=profile_names)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def delete(name: str, dry_run: bool, yes: bool) -> None:
    """Delete the profile NAME.

    \b
    ottla profile delete staging
    """
    path = profiles_file()
    profiles, default = read_profiles(path)
    _check_known(name, profiles)
    if dry_run:
        echo_err(f"{name}: would be deleted from {path}")
        return
    confirm(f"Delete the profile {name}?", yes)
    del profiles[name]
    write_profiles(path, profiles, None if default == name else default)
    echo_err(f"{name}: deleted")


def _shown(options: Profile) -> Profile:
    return {key: HIDDEN if is_secret(key) else value for key, value in options.items()}


def _check_known(name: str, profiles: dict[str, Profile]) -> None:
    if name not in profiles:
        known = f"there are: {', '.join(profiles)}" if profiles else "there are none yet"
        raise Problem(f"there is no profile {name!r}", known, kind=BAD_PROFILE)
