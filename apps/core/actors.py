"""Who does something, as logs and histories keep it. Knows Django's requests and accounts."""

from django.http import HttpRequest

CHARACTERS_MAX = 255
# Who a service takes for the actor where its caller names none: our own code, outside a request.
UNNAMED = "nobody named"
CLOCKWORK = "clockwork"
COMMAND = "command"


def actor_of(request: HttpRequest) -> str:
    """Return the name of who is signed in, or where a request without an account comes from.

    A request with a token is its account's, and says which token it was.
    """
    actor = getattr(request, "actor", None)
    if actor:
        return str(actor)[:CHARACTERS_MAX]
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        name: str = user.get_username()
        return name[:CHARACTERS_MAX]
    return f"anonymous at {request.META.get('REMOTE_ADDR') or 'an unknown address'}"[
        :CHARACTERS_MAX
    ]
