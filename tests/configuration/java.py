"""The results of Apache Kafka 4.4.0 and Java 17 for many texts, recorded in data/java.json: values of settings (ConfigDef),
the settings of its clients and all their names, properties files (java.util.Properties), and SCRAM logins
(ScramFormatter) with a password that is also the user.

`python -m tests.configuration.java` asks them again; it needs a Java and, the first time, Maven.
"""

from __future__ import annotations

import base64
import itertools
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

from coterie.client.settings.settings import CLIENT_SETTINGS

DATA = Path(__file__).parent / "data"
RECORDED = DATA / "java.json"
KAFKA_VERSION = "4.4.0"
Response = list[str] | None  # None: refused

NUMBERS = [
    *(sign + digits for sign in ("", "+", "-", "--", "+-") for digits in ("0", "5", "007", "")),
    *(str(limit + step) for bits in (15, 31, 63) for limit in (2**bits, -(2**bits)) for step in (-1, 0, 1)),
    *("5 ", "\t5\n", "\u00a05", "5\u2003", "5\x00", "5 5", "\u0663", "\uff15", "\U0001d7d3", "\uff0b5", "\u2212" + "5"),
    *("0x10", "1_000", "1,000", "5L", "9" * 40, "null", "true", "1" * 5000),
]
DOUBLES = [
    *(
        number + letter
        for number in ("1", "1.", ".1", "1.5e3", "1e", "e1", ".", "1E-7", "1e400")
        for letter in ("", "f", "D", "L")
    ),
    *(sign + word for sign in ("", "-", "+") for word in ("NaN", "nan", "Infinity", "inf", "infinity")),
    *(
        "1_0.0",
        "1,5",
        "1 000",
        " 2.5 ",
        "0.1",
        "1e23",
        "1.7976931348623157E308",
        "123456789.125",
        "100",
        "0.001",
        "0.0001",
    ),
]
BOOLEANS = ["true", "TRUE", " False\t", "tRuE", "fal\u017fe", "yes", "on", "0", "", "t", "true\u00a0", "trues", "true,"]
TEXTS = [
    "",
    " ",
    " a b ",
    "\ta\n",
    "\u00a0a\u00a0",
    "a,b",
    " a , b ",
    ",",
    "a,,b",
    "a,b,",
    " ,a",
    "a\t,\nb",
    "a;b",
    "\u00e9,\u4e2d",
]
VALUES = {
    "BOOLEAN": BOOLEANS,
    "STRING": TEXTS,
    "INT": NUMBERS,
    "SHORT": NUMBERS,
    "LONG": NUMBERS,
    "DOUBLE": NUMBERS + DOUBLES,
    "LIST": TEXTS,
    "PASSWORD": TEXTS,
}
PASSWORDS = [
    *(
        "pencil",
        "",
        "a=b,c",
        "=2C=3D",
        "pass word",
        " padded ",
        "p\u00e4ss\u00df",
        "pa\u0308ss",
        "\u5bc6\u7801",
        "\U0001f511",
    ),
    # SASLprep would change or refuse these: a soft hyphen, a no-break space, a roman numeral, a ligature, a control character
    *("I\u00adX", "a\u00a0b", "\u2168", "\ufb01sh", "bell\x07", "\u0627\u0031"),
]


def properties_texts() -> list[str]:
    """Every text of up to three of these letters, and seeded longer ones of more."""
    short = ["".join(t) for n in range(1, 4) for t in itertools.product("a\\=: \n#", repeat=n)]
    source = random.Random(20261122)
    pieces = [
        *"ab=:# \t\n!\\\\\\",
        "\r",
        "\r\n",
        "\f",
        "\\u0041",
        "\\u00",
        "\\n",
        "\\t",
        "\\:",
        "\\\n  ",
        "\u00e9",
        "key",
        "value",
    ]
    return short + ["".join(source.choices(pieces, k=source.randint(4, 14))) for _ in range(500)]


def questions() -> Iterator[tuple[str, str, str]]:
    """(subject, kind, text) of each."""
    for kind, texts in VALUES.items():
        yield from (("value", kind, text) for text in texts)
    for client in ("consumer", "producer", "admin"):
        yield from (("client", client, name) for name in CLIENT_SETTINGS)
        yield "names", client, "-"
    yield from (("properties", "-", text) for text in properties_texts())
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        yield from (("scram", mechanism, password) for password in PASSWORDS)


def recorded(subject: str) -> list[tuple[str, str, Response]]:
    """(kind, text, what Java answered) of a subject's questions, in their order."""
    responses: list[tuple[str, str, str, Response]] = json.loads(RECORDED.read_text("utf-8"))
    assert [tuple(row[:3]) for row in responses] == list(questions()), "python -m tests.configuration.java"
    return [(kind, text, response) for of, kind, text, response in responses if of == subject]


def main() -> None:
    from coterie_conformance.servers.kafka import jars

    lines = [f"{subject} {kind} {base64.b64encode(t.encode()).decode()}\n" for subject, kind, t in questions()]
    command = ["java", "-cp", f"{jars(KAFKA_VERSION)}/*", str(DATA / "Java.java")]
    requested = subprocess.run(command, input="".join(lines), capture_output=True, text=True, check=True, timeout=300)
    responses = [
        None if a == "!" else [_text(part) for part in a[1:].split(",")[:-1]] for a in requested.stdout.splitlines()
    ]
    rows = [[*question, response] for question, response in zip(questions(), responses, strict=True)]
    RECORDED.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", "utf-8")


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


if __name__ == "__main__":
    main()
