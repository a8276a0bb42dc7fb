"""The settings of broker, topics, groups and clients, from their tables in the code."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.broker.settings import BROKER_SETTINGS, TOPIC_SETTINGS, BrokerSetting, Setting, Update, format_value
from coterie.broker.settings.tables.resource_tables import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from coterie.client.settings.settings import CLIENT_SETTINGS, ClientSetting
from coterie.client.settings.types import ADDRESSES, ASSIGNOR_LIST, OBJECTS, PARTITIONER
from reference_pages.markdown import code, sentence, table, text

_CHANGES = {
    Update.READ_ONLY: "at the start only",
    Update.PER_BROKER: "for this broker while it runs",
    Update.CLUSTER_WIDE: "while it runs",
}

_HEADERS = ("setting", "kind, default, range", "meaning")


def _values(setting: Setting[object]) -> str:
    return text(setting.rule.text) if setting.rule is not None else ""


def _default(setting: Setting[object]) -> str:
    shown = format_value(setting.default)
    return "no value" if shown is None else code(shown) or "empty"


def _kind(setting: Setting[object]) -> str:
    return setting.kind.name.lower()


def _value(kind: str, default: str, must_be: str) -> str:
    """Kind, default and range in one cell, so that the page has room for the meaning."""
    return f"{kind}<br>{default}" + (f"<br>{must_be}" if must_be else "")


def _value_of(setting: Setting[object]) -> str:
    return _value(_kind(setting), _default(setting), _values(setting))


def _rows(settings: Iterable[Setting[object]]) -> Iterable[tuple[str, ...]]:
    for s in settings:
        altered = s.update if isinstance(s, BrokerSetting) else Update.READ_ONLY
        change = "" if altered is Update.READ_ONLY else f" Altered {_CHANGES[altered]}."
        yield code(s.name), _value_of(s), text(s.documentation) + change


def broker_settings() -> str:
    served = sorted((s for s in BROKER_SETTINGS.values() if not s.no_effect), key=lambda s: s.name)
    return table(_HEADERS, _rows(served))


def broker_settings_without_effect() -> str:
    """One table for each reason."""
    reasons: dict[str, list[Setting[object]]] = {}
    for setting in BROKER_SETTINGS.values():
        if setting.no_effect:
            reasons.setdefault(setting.no_effect, []).append(setting)
    parts = []
    for reason, settings in sorted(reasons.items()):
        parts.append(f"## {sentence(text(reason))}\n")
        rows = ((code(s.name), _value_of(s)) for s in sorted(settings, key=lambda s: s.name))
        parts.append(table(_HEADERS[:2], rows))
    return "\n".join(parts)


def topic_settings() -> str:
    rows = []
    for name, topic in sorted(TOPIC_SETTINGS.items()):
        s = topic.setting
        meaning = text(s.documentation) + (f" **No effect here:** {text(s.no_effect)}." if s.no_effect else "")
        brokers = ", ".join(code(synonym) for synonym, _factor in topic.synonyms)
        if brokers:
            meaning += f"<br>Broker default: {brokers}."
        rows.append((code(name), _value_of(s), meaning))
    return table(_HEADERS, rows)


def group_settings() -> str:
    rows = (
        (
            code(name),
            _value(_kind(s), _default(s), "" if synonym == name else f"broker default: {code(synonym)}"),
            sentence(text(s.no_effect)),
        )
        for name, (s, synonym) in sorted(GROUP_SETTINGS.items())
    )
    return table((*_HEADERS[:2], "no effect here, because"), rows)


def client_metrics_settings() -> str:
    return table(_HEADERS, _rows(CLIENT_METRICS_SETTINGS.values()))


def client_settings() -> str:
    """One table for each kind of client; an empty default is "no value"."""
    uses: dict[str, list[ClientSetting[object]]] = {}
    for setting in CLIENT_SETTINGS.values():
        uses.setdefault(setting.used_by, []).append(setting)
    parts = []
    for use, settings in uses.items():
        parts.append(f"## {use.capitalize()}\n")
        rows = []
        for s in sorted(settings, key=lambda s: s.name):
            choices = ", ".join(code(choice) for choice in s.rule.choices) if s.rule is not None else ""
            taken = s.value_type.text if s.value_type in (ADDRESSES, ASSIGNOR_LIST, OBJECTS, PARTITIONER) else ""
            default = _default(s) if s.default != () else "no value"
            value = _value(_kind(s), default, choices or _values(s) or text(taken))
            rows.append((code(s.name), value, text(s.documentation)))
        parts.append(table(_HEADERS, rows))
    return "\n".join(parts)
