"""The command's root: subcommands, exit codes, completion."""

import faulthandler
import importlib
import os
import sys
from typing import Final

import click
from click.shell_completion import get_completion_class

from berthmaster.model.errors import BerthmasterError
from berthmaster.version import __version__
from berthmaster_cli.console import complain

EXIT_CHECK_FAILED: Final = 1
EXIT_BAD_INPUT: Final = 2
EXIT_INTERRUPTED: Final = 130

_PROGRAM: Final = "berthmaster"
# Loaded when called: `--help` and completion must not wait for numpy.
_COMMANDS: Final = {
    "certs": (
        "berthmaster_cli.certs",
        "Make, keep and replace serving certificates, and the bundles that clients trust.",
    ),
    "controllers": (
        "berthmaster_cli.controllers",
        "Schedule bindings, rebalance and preempt, beside a running control plane.",
    ),
    "demo": ("berthmaster_cli.demo.command", "Start both services on loopback and ask them real questions."),
    "doctor": ("berthmaster_cli.doctor.command", "Look at an installation, and say what is wrong and what to do."),
    "explain": ("berthmaster_cli.explain", "Show why one workload landed where it did, and why not elsewhere."),
    "extender": ("berthmaster_cli.extender", "Serve scheduling decisions over HTTP."),
    "lint": ("berthmaster_cli.lint", "Check policies as the admission webhook would, offline."),
    "register": ("berthmaster_cli.register", "Make webhooks known to an API server, and unknown again, without a gap."),
    "simulate": (
        "berthmaster_cli.simulate",
        "Schedule the workloads of some manifests, and show what changes would move.",
    ),
    "webhook": ("berthmaster_cli.webhook", "Serve the admission webhook."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in alphabetical order."""
        return sorted({*_COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by its name."""
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _ = _COMMANDS[cmd_name]
        command: click.Command = importlib.import_module(module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """The list of commands without importing them."""
        own = {name: command.get_short_help_str() for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted({**own, **{name: text for name, (_, text) in _COMMANDS.items()}}.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done; 1 a check failed (--check); 2 bad usage or input; 130 interrupted.",
)
@click.version_option(__version__, prog_name=_PROGRAM, message="%(prog)s %(version)s")
def main() -> None:
    """Decide where workloads go in a fleet of Kubernetes clusters, and say why."""


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    r"""Print a completion script.

    \b
    bash:  berthmaster completion bash > ~/.local/share/bash-completion/completions/berthmaster
    zsh:   berthmaster completion zsh > "${fpath[1]}/_berthmaster"
    fish:  berthmaster completion fish > ~/.config/fish/completions/berthmaster.fish
    """
    script = get_completion_class(shell)
    if script is not None:
        click.echo(script(main, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE").source())


def run() -> None:
    """The console script: every error that is ours is one line on stderr."""
    if sys.__stderr__ is not None:  # else it was closed by whoever started us
        faulthandler.enable(sys.__stderr__)  # a crash in a library's C code would end a server without a word
    try:
        # Not click's standalone mode: that knows no exit code of its own for an interruption.
        sys.exit(main.main(prog_name=_PROGRAM, standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(EXIT_INTERRUPTED)
    except BerthmasterError as error:
        complain(str(error))
        sys.exit(EXIT_BAD_INPUT)
    except BrokenPipeError:
        # The reader of a pipe left, as `head` does. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    run()
