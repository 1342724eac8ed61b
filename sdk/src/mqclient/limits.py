"""Every number the client shares with the broker or defends itself with. Knows numbers only."""

KIB = 1024
MIB = 1024 * KIB

# The broker keeps the topic's length in one signed byte of a record.
NAME_CHARACTERS_MAX = 127
BODY_BYTES_MAX = 4 * MIB
# The record keeps the length of the properties in a signed 16-bit field.
PROPERTIES_BYTES_MAX = 32_767
BATCH_RECORDS_MAX = 65_536
BATCH_BYTES_MAX = 16 * MIB
WAIT_MS_MAX = 30_000
# A settling request names at most so many handles; more are sent in several requests.
HANDLES_MAX = 1_000
# The broker takes no longer reason for a failure.
REASON_CHARACTERS_MAX = 1_000

# An answer's head; the broker bounds its own requests to the same length.
HEAD_BYTES_MAX = 16 * KIB
# The largest answer is one full fetch (16 MiB) with its sizes and headers.
ANSWER_BYTES_MAX = 64 * MIB

assert BODY_BYTES_MAX + PROPERTIES_BYTES_MAX + KIB < BATCH_BYTES_MAX < ANSWER_BYTES_MAX
