"""`skerry completion`: the completion scripts of shells."""

from __future__ import annotations

import click

from skerry.cli.output import current_output


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> None:
    """Print the script with which a shell completes commands, options and type names.

    Type names are taken from the --types files of the command line, otherwise from the node if it
    answers within half a second.

    \b
    Put one of these into the start-up file of the shell:
      eval "$(skerry completion bash)"           ~/.bashrc
      eval "$(skerry completion zsh)"            ~/.zshrc, after compinit
      skerry completion fish | source            ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    from skerry.cli.program import COMPLETE_VARIABLE

    found = get_completion_class(shell)
    assert found is not None
    # Not `source()`, which would first start bash to check its version.
    script = found.source_template % {
        "complete_func": "_skerry_completion",
        "complete_var": COMPLETE_VARIABLE,
        "prog_name": "skerry",
    }
    current_output().line(script)
