"""What `compare --part proxy` reports: other people's clients with `coterie proxy` between them and the broker."""

from __future__ import annotations

from collections import Counter

from coterie_conformance.cli.parts.options import Figures, PartOptions, write_check

PROXIED_VERSIONS = ("4.3.0",)


def proxy_part(options: PartOptions) -> Figures:
    """Failed are checks that pass without the proxy alone."""
    from coterie_conformance.proxy.run import ProxiedCheck, run_proxied

    def report(check: ProxiedCheck) -> None:
        write_check(f"{check.broker}, {check.name}", check.proxied if check.is_worse else "")

    checks = run_proxied(options.version, options.folder / "proxied", report)
    passed = Counter(check.broker for check in checks if not check.direct)
    through = Counter(check.broker for check in checks if not check.direct and not check.proxied)
    return {
        "proxy": {broker: {"without": count, "with": through[broker]} for broker, count in passed.items()},
        "failed": sum(check.is_worse for check in checks),
    }


def proxy_sentences(figures: Figures) -> list[str]:
    """A line for each broker of the part's figures."""
    return [
        f"  proxy, {broker}: of {counts['without']} checks that pass without it {counts['with']} pass with it"
        for broker, counts in figures["proxy"].items()
    ]
