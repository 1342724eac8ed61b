"""Numbers by which the broker knows a batch it has already. Knows parcels and lanes, no requests.

A batch is numbered when it goes for the first time, so that it is one run of numbers, and keeps
them while the broker may have it. One that is surely not stored is taken apart and numbered anew.
"""

from mqclient.producing.lanes import Lane
from mqclient.producing.parcels import Parcel


def number(lane: Lane) -> None:
    """Number what flies for the first time."""
    topic = lane.topic
    for parcel in lane.flying:
        if parcel.first_sequence is None:
            parcel.first_sequence = topic.next_sequence
            topic.next_sequence += len(parcel.ids)


def is_repeat(batch: list[Parcel]) -> bool:
    """Tell whether the broker may have a batch, and would know it again."""
    return batch[0].first_sequence is not None and batch[0].may_be_stored


def share_deadline(batch: list[Parcel]) -> None:
    """Let a batch's messages end together: without one of them the broker would not know it."""
    deadline_s = max(parcel.deadline_s for parcel in batch)
    for parcel in batch:
        parcel.deadline_s = deadline_s


def forget_numbers(parcels: list[Parcel]) -> None:
    """Have parcels that are surely not stored numbered anew, with whatever they go next."""
    for parcel in parcels:
        parcel.first_sequence = None
