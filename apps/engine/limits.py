"""Every hard limit with its reason. Knows numbers only; settable ones are in `config.py`."""

import re

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# RocketMQ keeps the topic's length in one signed byte of a V1 record.
NAME_CHARACTERS_MAX = 127
NAME_PATTERN = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")
# A client id travels in journal records; RocketMQ's own are ip@pid#nanoseconds.
CLIENT_ID_CHARACTERS_MAX = 255

# RocketMQ's `maxMessageSize`.
BODY_BYTES_MAX = 4 * MIB
# The record keeps the length of the properties in a signed 16-bit field.
PROPERTIES_BYTES_MAX = 32767
BATCH_MESSAGES_MAX = 1000
BATCH_BYTES_MAX = 16 * MIB

# One entry per queue in memory and in the checkpoint; RocketMQ's largest system topic has 1,024.
QUEUE_COUNT_MAX = 1024
# A binary batch may carry more records than a JSON one: nothing loops over them.
BINARY_BATCH_RECORDS_MAX = 65_536

# Above these a receive or pull answer would hold the event loop for milliseconds.
FETCH_MESSAGES_MAX = 16_384
FETCH_BYTES_MAX = 16 * MIB

# Clients that are remembered, one entry for each choice of topics: twice as many as may wait at
# once. Listing all of them takes a tenth of a second.
SESSIONS_MAX = 20_000

WAIT_MS_MAX = 30_000
INVISIBLE_MS_MIN = 10
# RocketMQ's proxy allows up to 12 hours.
INVISIBLE_MS_MAX = 12 * 3600 * 1000

assert BODY_BYTES_MAX + PROPERTIES_BYTES_MAX + KIB < BATCH_BYTES_MAX
