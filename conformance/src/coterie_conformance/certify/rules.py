"""Every rule that `coterie certify` shows, by subject."""

from __future__ import annotations

from coterie_conformance.certify.rule import CertifyRule
from coterie_conformance.certify.rules_of_groups import GROUP_RULES, OFFSET_RULES
from coterie_conformance.certify.rules_of_producers import IDEMPOTENT_RULES, TRANSACTION_RULES
from coterie_conformance.certify.rules_of_topics import RECORD_RULES, SESSION_RULES, SETTING_RULES, TOPIC_RULES

RULES: tuple[CertifyRule, ...] = (
    *GROUP_RULES,
    *OFFSET_RULES,
    *IDEMPOTENT_RULES,
    *TRANSACTION_RULES,
    *TOPIC_RULES,
    *SETTING_RULES,
    *RECORD_RULES,
    *SESSION_RULES,
)
