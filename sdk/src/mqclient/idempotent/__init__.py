"""Effects that happen once although messages come more than once.

Three ways, by where the effect lies: in a database together with a mark (SqlOnce), in a row that
has a version (VersionedRows), or anywhere, with a mark in Redis (RedisOnce).
"""

from mqclient.idempotent.keys import effect_key
from mqclient.idempotent.redis import RedisOnce
from mqclient.idempotent.sql import DatabaseModule, SqlOnce
from mqclient.idempotent.versions import VersionedRows

__all__ = ["DatabaseModule", "RedisOnce", "SqlOnce", "VersionedRows", "effect_key"]
