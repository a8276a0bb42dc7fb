"""What a reader of Apache Kafka's tools types, and what it is called here: the sentence of the error for an option that does
not exist."""

from __future__ import annotations

import click

_SETTINGS = "settings go with --set KEY=VALUE"
_FILE = "a properties file goes with --command-config FILE"
_SHOWN = "--json shows keys, headers, partitions and offsets"
_TO = "where to go is {path} GROUP --to earliest, latest, an offset, or an ISO time"

# verb or whole command path -> option of kafka-*.sh -> what to type instead
_OPTIONS: dict[str, dict[str, str]] = {
    "consume": {
        "--consumer-property": _SETTINGS,
        "--command-property": _SETTINGS,
        "--isolation-level": "it is --set isolation.level=read_committed",
        "--consumer.config": _FILE,
        "--consumer-config": _FILE,
        "--property": _SHOWN,
        "--formatter-property": _SHOWN,
        "--formatter": _SHOWN,
        "--whitelist": "one topic is read",
        "--include": "one topic is read",
    },
    "produce": {
        "--producer-property": _SETTINGS,
        "--command-property": _SETTINGS,
        "--request-required-acks": "it is --set acks=all",
        "--compression-codec": "it is --compression",
        "--batch-size": "it is --set batch.size=BYTES",
        "--timeout": "it is --set linger.ms=MS",
        "--producer.config": _FILE,
        "--producer-config": _FILE,
        "--property": "keys go with --key-separator",
        "--reader-property": "keys go with --key-separator",
    },
    "topics": {
        "--alter": "partitions are added by coterie topics grow",
        "--zookeeper": "topics are read from a broker: --bootstrap-server HOST:PORT",
    },
    "groups": {
        "--reset-offsets": "offsets are set by coterie groups reset",
        "--delete-offsets": "it is coterie groups delete-offsets GROUP --topic NAME; all of them go with coterie groups delete",
        "--members": "coterie groups describe and coterie groups why show the members",
        "--execute": "it is done at once; --dry-run shows it only",
        "--all-groups": "coterie groups list shows every group",
        "--all-topics": "without --topic it is every topic",
        "--to-earliest": _TO,
        "--to-latest": _TO,
        "--to-offset": _TO,
        "--to-datetime": _TO,
    },
    "broker": {
        "--port": "the address is --listen HOST:PORT",
        "--host": "the address is --listen HOST:PORT",
        "--override": _SETTINGS,
        "--config": "a server.properties is --properties FILE",
    },
}
_OF_EVERY = {
    "--command.config": _FILE,
    "--broker-list": "the broker is --bootstrap-server HOST:PORT",
    "--bootstrap.servers": "the broker is --bootstrap-server HOST:PORT",
    "--brokers": "the broker is --bootstrap-server HOST:PORT",
}


def explained(error: click.NoSuchOption) -> click.UsageError:
    """The error with what to type instead, where that is known; otherwise the error itself."""
    context, option = error.ctx, error.option_name
    if context is None:
        return error
    path, command = context.command_path, context.command
    name = option.removeprefix("--")
    words = path.split(" ")
    verb = words[1] if len(words) > 1 else ""
    instead: str | None
    if isinstance(command, click.Group) and command.get_command(context, name) is not None:
        instead = f"it is a command: {path} {name}"
    elif any(isinstance(parameter, click.Argument) and parameter.name == name for parameter in command.params):
        instead = f"the {name} is an argument: {path} {name.upper()}"
    else:
        instead = _OPTIONS.get(verb, {}).get(option) or _OF_EVERY.get(option)
    if instead is None:
        return error
    return click.UsageError(f"No such option '{option}'; {instead.format(path=path)}.", context)
