"""Kafka's protocol as it is served: APIs with their versions, APIs that are not served, and error codes."""

from __future__ import annotations

from coterie.broker.requests.unserved import UNSERVED
from coterie.client.errors import KafkaError, class_of
from coterie.wire.apis import APIS
from coterie.wire.errors import ErrorCode
from reference_pages.error_remedies import remedy_text
from reference_pages.markdown import code, sentence, table, text


def apis() -> str:
    rows = []
    for key, api in sorted(APIS.items()):
        newest = api.request.versions.last
        note = "coterie's own; not listed in ApiVersions" if api.hidden else ""
        if newest > api.advertised.last:
            note = f"versions up to {newest} can be read and written, and are not advertised"
        rows.append((str(key), api.name, f"{api.advertised.first} to {api.advertised.last}", note))
    return table(("key", "API", "versions", "note"), rows)


def unserved_apis() -> str:
    rows = ((str(key), api.name, sentence(text(api.reason))) for key, api in sorted(UNSERVED.items()))
    return table(("key", "API", "not served, because"), rows)


def error_classes() -> str:
    """By what the caller does; a class below the class that it is derived from."""
    rows = []
    for kind in _classes(KafkaError):
        codes = [code(error.name) for error in sorted(ErrorCode) if error and class_of(error) is kind]
        rows.append(
            (code(kind.__name__), sentence(text(kind.remedy)), ", ".join(codes) if len(codes) <= 8 else "all others")
        )
    return table(("class", "what to do", "codes"), rows)


def _classes(root: type[KafkaError]) -> list[type[KafkaError]]:
    """The classes of its module, whatever else is imported."""
    children = [child for child in root.__subclasses__() if child.__module__ == root.__module__]
    return [root, *(kind for child in children for kind in _classes(child))]


def error_codes() -> str:
    rows = (
        (
            str(int(error)),
            code(error.name),
            "yes" if error.retriable else "",
            code(class_of(error).__name__) if error else "",
            sentence(text(error.text)),
            text(remedy_text(error)),
        )
        for error in sorted(ErrorCode)
    )
    return table(("code", "name", "retriable", "class", "meaning", "what to do"), rows)
