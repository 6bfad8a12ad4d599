"""`ottla completion`: print the shell completion script."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")
INSTALL = {
    "bash": 'eval "$(ottla completion bash)"       in ~/.bashrc',
    "zsh": 'eval "$(ottla completion zsh)"        in ~/.zshrc',
    "fish": "ottla completion fish > ~/.config/fish/completions/ottla.fish",
}


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\n" + "\n".join(INSTALL.values()),
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the shell completion script for commands, options and names.

    Topic and group names are completed too, by asking the broker, which has a second to answer.
    """
    from click.shell_completion import get_completion_class

    from ottla.cli.main import ottla

    kind = get_completion_class(shell)
    assert kind is not None
    source = kind(ottla, {}, "ottla", "_OTTLA_COMPLETE").source()
    if shell == "fish":  # else click's script ends a description at its first comma
        source = source.replace('string split ","', 'string split --max 1 ","')
    click.echo(source)
