"""The root command: subcommands and exit codes."""

import errno
import faulthandler
import importlib
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import get_completion_class

from berthmaster.model.errors import BerthmasterError
from berthmaster.model.hints import closest
from berthmaster.version import __version__
from berthmaster_cli.option_variables import name_variables
from berthmaster_cli.output import complain, complain_error, inert
from berthmaster_cli.standard_streams import discard, prepare_streams

_UNBREAKABLE: Final = "\u2011"
"""The hyphen at which no line breaks. It stands for a hyphen while click wraps a text."""
EXIT_CHECK_FAILED: Final = 1
EXIT_BAD_INPUT: Final = 2
EXIT_INTERRUPTED: Final = 130
_OUTPUT_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
_PROGRAM: Final = "berthmaster"
# Imported when called: `--help` must not import numpy.
SECTIONS: Final[dict[str, dict[str, str]]] = {
    "Understand placements": {
        "simulate": "Show where workloads are placed, and what changes would move.",
        "explain": "Show why one workload is placed where it is, and why not elsewhere.",
        "why-not": "Show the smallest change under which a cluster would get a workload.",
        "plan": "Show what a change of objects would move, before it is applied.",
        "resilience": "Show what the loss of each cluster, region, zone or provider would do.",
        "drift": "Show how far the fleet is from its policies, and what a repair would move.",
        "test": "Check that a fleet keeps what test files say, after losses and changes.",
        "lint": "Check policies offline, as the admission webhook would.",
    },
    "Operate a fleet": {
        "moves": "Show what moves, what waits and for what, and what is blocked.",
        "drain": "Move all workloads off clusters, and keep new ones away.",
        "undrain": "Allow workloads on clusters again.",
        "history": "Show what moved when, why, and by which policy, from the ledger.",
        "replay": "Decide recorded decisions again, and show what differs.",
        "ledger": "Verify and export the ledger of decisions, and remove old records.",
        "shadow": "Compare this scheduler with the one that is in charge.",
    },
    "Run the services": {
        "webhook": "Serve the admission webhook over HTTPS.",
        "extender": "Serve scheduling decisions over HTTP.",
        "controllers": "Schedule bindings, rebalance workloads, preempt policies.",
        "console": "Serve pages that show the fleet, its workloads, and why they are there.",
        "demo": "Start webhook and extender on loopback, and show requests and responses.",
    },
    "Set up": {
        "version": "Show the versions of the command, the services and the control plane, and whether they fit.",
        "doctor": "Check an installation, report what is wrong and how to fix it.",
        "certs": "Issue, renew and inspect serving certificates and CA bundles.",
        "register": "Register webhooks at an API server, and remove them.",
    },
}
_MODULES: Final = {
    "plan": "plan.command",
    "test": "placement_tests.command",
    "lint": "lint.command",
    "moves": "moves.command",
    "drain": "moves.drain",
    "undrain": "moves.drain:undrain",
    "doctor": "doctor.command",
}
"""The modules of commands below ``berthmaster_cli``, and the function after a colon, if they have other names."""
COMMANDS: Final = tuple(name for commands in SECTIONS.values() for name in commands)
_PLUGIN: Final = "kubectl berthmaster"


class WholeWordFormatter(click.HelpFormatter):
    """Wraps a text at spaces only. Click breaks lines at hyphens too, as in ``--client-`` and ``ca-file``."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _UNBREAKABLE))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(name, text.replace("-", _UNBREAKABLE)) for name, text in rows], col_max, col_spacing)

    def write(self, string: str) -> None:
        super().write(string.replace(_UNBREAKABLE, "-"))


click.Context.formatter_class = WholeWordFormatter


def command_module(name: str) -> str:
    """Return the name of the module with a command."""
    return f"berthmaster_cli.{_MODULES.get(name, name.replace('-', '_')).partition(':')[0]}"


class _ReaderGoneError(Exception):
    """The reader of standard output is gone."""


class _LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        found = importlib.import_module(command_module(cmd_name))
        command: click.Command = getattr(found, _MODULES.get(cmd_name, "").partition(":")[2] or "command")
        name_variables(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            resolved = super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = "--help" if args[0] == "help" else closest(args[0], self.list_commands(ctx))
            if close:
                raise click.UsageError(f"{error.message} Did you mean {close}?", ctx) from None
            raise
        if any(name.startswith("OTEL_EXPORTER_OTLP") for name in os.environ):
            from berthmaster.runtime.traces import start_traces  # noqa: PLC0415 - they are off, usually

            start_traces(f"{_PROGRAM}-{resolved[0]}")
        return resolved

    def make_context(self, *args: Any, **extra: Any) -> click.Context:  # noqa: ANN401 - click's
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError:  # `--help` prints
            raise _ReaderGoneError from None

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Click would exit with 1, as after an error.
            raise _ReaderGoneError from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        own = {name: command.get_short_help_str() for name, command in self.commands.items()}
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))
        with formatter.section("Other"):
            formatter.write_dl(sorted(own.items()))


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 success; 1 a check failed; 2 bad usage or input; 130 interrupted.",
)
@click.version_option(__version__, prog_name=_PROGRAM, message="%(prog)s %(version)s")
def main() -> None:
    """Decide where workloads run in a fleet of Kubernetes clusters, and explain why.

    Start with `berthmaster explain deploy/NAME -n NAMESPACE`, and `berthmaster simulate --down CLUSTER`. Both read the
    control plane of the current context and change nothing.
    """


@main.command(
    help="Print a completion script for a shell.\n\n\b\n"
    "bash:  berthmaster completion bash > ~/.local/share/bash-completion/completions/berthmaster\n"
    'zsh:   berthmaster completion zsh > "${fpath[1]}/_berthmaster"\n'
    "fish:  berthmaster completion fish > ~/.config/fish/completions/berthmaster.fish"
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script for a shell."""
    script = get_completion_class(shell)
    if script is not None:
        click.echo(script(main, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE").source())


def run(program: str = _PROGRAM) -> None:
    """Run the command, which usage messages call ``program``. Print each error of Berthmaster as one line."""
    if sys.__stderr__ is not None:  # the parent process may have closed it
        faulthandler.enable(sys.__stderr__)  # otherwise a crash in C code leaves no trace
    prepare_streams()
    try:
        code = _exit_code(program)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (_ReaderGoneError, BrokenPipeError):
        code = 0  # the reader closed the pipe, as `head` does
        discard(sys.stdout)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS:
            raise
        code = EXIT_BAD_INPUT
        discard(sys.stdout)
        problem = f"cannot write the output: {error.strerror}; free space, or write it to another place"
        _say(lambda: complain(problem))
    try:
        sys.stderr.flush()
    except (AttributeError, OSError):
        discard(sys.stderr)
    sys.exit(code)


def _exit_code(program: str) -> int | str | None:
    try:
        # Not click's standalone mode, which has no separate exit code for an interruption.
        code: int | None = main.main(prog_name=program, standalone_mode=False)
    except SystemExit as end:
        return end.code
    except NoArgsIsHelpError as error:  # its message is the help, with its lines
        _say(error.show)
        return error.exit_code
    except click.ClickException as error:
        error.message = inert(error.message)  # type: ignore[misc]  # the only place that all of them read
        _say(error.show)
        return error.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED
    except BerthmasterError as error:
        _say(partial(complain_error, error))
        return EXIT_BAD_INPUT
    return code


def _say(say: Callable[[], object]) -> None:
    """Print on standard error. The exit code still tells what happened if this fails."""
    try:
        say()
    except OSError:
        discard(sys.stderr)


def run_plugin() -> None:
    """Run the command as ``kubectl berthmaster``."""
    run(_PLUGIN)


if __name__ == "__main__":
    run()
