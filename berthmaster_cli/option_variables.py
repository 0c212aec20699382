"""The environment variables that set options."""

import click


def environment_text(prefix: str, option: str) -> str:
    """Return the text for an epilog that every option can be set by an environment variable."""
    return (
        f"Each option can also be set by an environment variable, for example {option} by "
        f"{_variable(prefix, option)}. Variables with several values separate them by spaces, and paths by colons. "
    )


def name_variables(command: click.Command, prefix: str | None = None) -> None:
    """Let the name of an option decide the name of its variable, also below a group. It is safe to repeat.

    Click takes the name of the parameter in Python, such as ``rules`` for ``--rule``. A variable of that name still
    works, unless it is the variable of another option. ``prefix`` counts if the command does not say one.
    """
    prefix = command.context_settings.get("auto_envvar_prefix", prefix)
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            name_variables(each, prefix and f"{prefix}_{name.upper().replace('-', '_')}")
    if prefix is None:
        return
    options = [each for each in command.params if isinstance(each, click.Option)]
    names = {variable_of(each, prefix): each for each in options}
    for name, option in names.items():
        if option.envvar is None:
            option.envvar = name
        option.allow_from_autoenv = names.get(_variable(prefix, option.name or ""), option) is option


def variable_of(option: click.Option, prefix: str) -> str:
    """Return the variable that sets an option."""
    if isinstance(option.envvar, str):
        return option.envvar
    return _variable(prefix, max(option.opts, key=len))


def _variable(prefix: str, name: str) -> str:
    return f"{prefix}_{name.lstrip('-').replace('-', '_').upper()}"
