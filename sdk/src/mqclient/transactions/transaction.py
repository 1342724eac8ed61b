"""One transaction between its half message and its decision. Knows values only."""

from mqclient.errors import InvalidArgument
from mqclient.values import Decision, EndedTransaction


class TransactionState:
    """What both faces of a transaction have in common.

    `ended` is the broker's answer to the decision, None before there is one.
    """

    def __init__(self, transaction_id: str, message_id: str) -> None:
        self.transaction_id = transaction_id
        self.message_id = message_id
        self.ended: EndedTransaction | None = None
        self.decision: Decision | None = None

    def decide(self, decision: Decision) -> None:
        """Take a decision; raise InvalidArgument for another than was taken before."""
        if self.decision not in (None, decision):
            raise InvalidArgument(f"the transaction was to {self.decision}, not to {decision}")
        self.decision = decision

    def leave_open(self) -> None:
        """Decide nothing here: the broker's check will ask what became of it."""
        self.decide(Decision.UNKNOWN)
