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

# What a search answers at once; RocketMQ's `maxMsgsNumBatch` is 64.
SEARCH_MESSAGES_MAX = 256
# The longest key that fits a message's properties.
SEARCH_TEXT_CHARACTERS_MAX = PROPERTIES_BYTES_MAX

# Clients that are remembered, one entry for each choice of topics: twice as many as may wait at
# once. Listing all of them takes a tenth of a second.
SESSIONS_MAX = 20_000

# A filter is compiled once and kept, and matched with every message it is asked about. A level of
# nesting takes up to 12 of the 1,000 calls Python nests.
FILTER_CHARACTERS_MAX = 4096
FILTER_NESTING_MAX = 32
FILTER_TERMS_MAX = 1024

# Clients that are members of groups: each has a heartbeat parked most of the time, and as many
# pulls as queues.
MEMBERS_MAX = 20_000
# More members than a topic can have queues would all be idle.
GROUP_MEMBERS_MAX = QUEUE_COUNT_MAX
# What members want is written down with every new assignment: of one, and of all of a group.
SUBSCRIPTIONS_MAX = 256
MEMBER_CHARACTERS_MAX = 64 * KIB
GROUP_CHARACTERS_MAX = 2 * MIB
BLOCKED_HEADS_MAX = QUEUE_COUNT_MAX
SITE_CHARACTERS_MAX = 127

# Queues that one request may lock or begin in: each is an event of its own, so this many hold the
# loop for a tenth of a second or two.
PLACES_MAX = 2_048
# Locks in the table, one entry each in memory and in the checkpoint: ten groups of 10,000 queues.
LOCKS_MAX = 100_000
# Readers that are remembered, one for each queue that a group pulls; above it the longest silent
# is forgotten.
READERS_MAX = 100_000

# RocketMQ's `messageDelayLevel`: 1s 5s 10s 30s 1m ... 10m 20m 30m 1h 2h.
DELAY_LEVELS_MS = tuple(
    1000 * seconds for seconds in (1, 5, 10, 30, *range(60, 601, 60), 1200, 1800, 3600, 7200)
)
# One queue each, looked at every second.
DELAY_LEVELS_MAX = 128
# What a failure is said to be because of; it travels in journal records and properties.
REASON_CHARACTERS_MAX = 1000
# What a message remembers of its failed attempts: 32 of them take a fifth of its properties.
HISTORY_MAX = 32
HISTORY_REASON_CHARACTERS_MAX = 200
# Who did something, as journal records name them, and what a reset of offsets is named.
ACTOR_CHARACTERS_MAX = 255
RESET_ID_CHARACTERS_MAX = 64
# Messages that one request may send back, resend or list.
CARE_MESSAGES_MAX = 1_000

# Producers whose numbers are remembered, each counted once for every topic it numbers messages of,
# and runs of numbers of each: a request of 1,000 messages may spread them over queues in any way.
SEQUENCES_MAX = 1_024
SEQUENCE_RUNS_MAX = 1_024
# Delayed messages whose due time and recall handle are remembered for when they are sent again; a
# batch with more of them is answered without.
SEQUENCE_RECEIPTS_MAX = 16_384
SEQUENCE_RECEIPTS_OF_EVENT_MAX = 1_024
# Undecided half messages: one entry each in memory and in the checkpoint.
PENDING_TRANSACTIONS_MAX = 100_000

# RocketMQ's `maxLiteTopicSize`, and the quota of a client.
LITE_NAME_CHARACTERS_MAX = 64
LITE_NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LITE_SUBSCRIPTIONS_MAX = 2_000
# Of all clients together: about 100 bytes of memory each.
LITE_SUBSCRIPTIONS_OF_STORE_MAX = 1_000_000
# Each is a queue in memory and a row of every checkpoint.
LITE_TOPICS_MAX = 100_000
# RocketMQ's floor and ceiling of `lite.topic.expiration`, and how often it looks.
LITE_TTL_MS_MIN = 15 * 60_000
LITE_TTL_MS_MAX = 43_200 * 60_000
LITE_LOOK_MS = 120_000
# Clients say all their lite topics every 30 s; RocketMQ forgets one that was silent for so long.
LITE_SILENT_MS = 180_000

# A sync takes milliseconds; who asks every second whether the broker serves is told within three.
SYNC_STUCK_MS = 2_000

WAIT_MS_MAX = 30_000
INVISIBLE_MS_MIN = 10
# RocketMQ's proxy allows up to 12 hours.
INVISIBLE_MS_MAX = 12 * 3600 * 1000

assert MEMBER_CHARACTERS_MAX < GROUP_CHARACTERS_MAX < BATCH_BYTES_MAX // 4
assert BATCH_MESSAGES_MAX <= SEQUENCE_RUNS_MAX
assert SEQUENCE_RECEIPTS_OF_EVENT_MAX <= SEQUENCE_RECEIPTS_MAX
assert BODY_BYTES_MAX + PROPERTIES_BYTES_MAX + KIB < BATCH_BYTES_MAX
