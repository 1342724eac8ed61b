"""What may be done about alerts: by operators, and by the clockwork."""

from apps.alerts.services.channels import (
    ChannelTerms,
    change_channel,
    create_channel,
    delete_channel,
    try_channel,
)
from apps.alerts.services.delivery import deliver
from apps.alerts.services.evaluation import evaluate
from apps.alerts.services.handling import acknowledge
from apps.alerts.services.rules import (
    RuleTerms,
    SilenceTerms,
    change_rule,
    create_rule,
    create_silence,
    delete_rule,
    end_silence,
)
from apps.alerts.services.upkeep import prune

__all__ = [
    "ChannelTerms",
    "RuleTerms",
    "SilenceTerms",
    "acknowledge",
    "change_channel",
    "change_rule",
    "create_channel",
    "create_rule",
    "create_silence",
    "delete_channel",
    "delete_rule",
    "deliver",
    "end_silence",
    "evaluate",
    "prune",
    "try_channel",
]
