"""What may be done about dead letters: by operators, and by the clockwork."""

from apps.deadletters.services.discarding import discard
from apps.deadletters.services.requests import Wish, cancel, request_resend
from apps.deadletters.services.sending import send_some
from apps.deadletters.services.upkeep import prune

__all__ = ["Wish", "cancel", "discard", "prune", "request_resend", "send_some"]
