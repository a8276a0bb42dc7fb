"""ssl.principal.mapping.rules: the cases are those of Kafka's SslPrincipalMapperTest."""

from __future__ import annotations

import pytest

from coterie.authentication.principal import BadRules, NoRule, distinguished_name, mapped_name, parse_rules

RULES = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_fits_counts(name: str, principal: str) -> None:
    assert mapped_name(RULES, name) == principal


def test_a_slash_is_escaped_in_a_pattern() -> None:
    assert mapped_name(r"RULE:^cn=(.*?),.*$/$1\/x/", "cn=a,o=b") == r"a/x"


@pytest.mark.parametrize("text", ["nothing", "RULE:^CN=(.*)$/", "RULE:^CN=(.*)$/$1/X", "RULE:(/x/", "DEFAULT2"])
def test_rules_that_are_none(text: str) -> None:
    with pytest.raises(BadRules):
        parse_rules(text)


def test_without_a_rule_there_is_no_principal() -> None:
    with pytest.raises(NoRule):
        mapped_name("RULE:^CN=a$/a/", "CN=b")
    assert mapped_name("", "CN=b") == "CN=b"


def test_names_are_written_as_by_rfc_2253() -> None:
    subject = (
        (("countryName", "DE"),),
        (("organizationName", "A, B + C"),),
        (("commonName", "#x "), ("emailAddress", "a@b")),
    )
    assert distinguished_name(subject) == r"CN=\#x\ +1.2.840.113549.1.9.1=#1603614062,O=A\, B \+ C,C=DE"
