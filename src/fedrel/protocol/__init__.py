"""What an algorithm is written against: rounds as generators, records and their codec, replies, checkpoints."""

from fedrel.protocol.algorithm import Algorithm, Scored
from fedrel.protocol.codec import Record
from fedrel.protocol.listing import in_key_order, rounded_down
from fedrel.protocol.records import named_in, number_in
from fedrel.protocol.round import Ask, Replies, Round, broadcast
from fedrel.protocol.site import Site
from fedrel.protocol.tasks import task

__all__ = [
    "Algorithm",
    "Ask",
    "Record",
    "Replies",
    "Round",
    "Scored",
    "Site",
    "broadcast",
    "in_key_order",
    "named_in",
    "number_in",
    "rounded_down",
    "task",
]
