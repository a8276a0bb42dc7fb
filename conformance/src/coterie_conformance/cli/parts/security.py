"""What `compare --part security` reports: logins of other clients at a coterie with TLS and SASL."""

from __future__ import annotations

from coterie.text.quantity import quantity
from coterie_conformance.cli.parts.options import Figures, PartOptions, write_check

VERSIONS = ("3.9.1", "4.3.0")  # of Java's client


def security_part(options: PartOptions) -> Figures:
    """Java's client is that of the version."""
    from coterie_conformance.security.story import LoginCheck, check_logins
    from coterie_conformance.security.tokens import check_tokens

    def progress(check: LoginCheck) -> None:
        write_check(f"security, {check.client}, {check.case}", check.wrong)

    checks = check_logins(options.version, options.folder / "security", progress)
    checks += check_tokens(options.version, options.folder / "tokens", progress)
    named = {f"{check.client}, {check.case}": not check.wrong for check in checks}
    return {"security": named, "failed": sum(not right for right in named.values())}


def security_sentences(figures: Figures) -> list[str]:
    """The lines about the part's figures."""
    checks = figures["security"]
    return [f"  security: {sum(checks.values())} of {quantity(len(checks), 'login')} as they must be"]
