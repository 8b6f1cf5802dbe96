# SPDX-License-Identifier: Apache-2.0
"""ROS 2 bags in SQLite, with limits: a malicious database can define queries instead of rows, or endless ones."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from rosbags.rosbag2.storage_sqlite3 import Sqlite3Reader

from roadbed.core.errors import InputError
from roadbed.io.expansion import allowance
from roadbed.io.files import check_regular
from roadbed.sources.bags.decompression import check_qos

_STEPS_AT_ONCE = 10_000
_ALWAYS_ALLOWED_STEPS = 10_000_000
_LARGEST_VALUE = 2**31 - 1


class BoundedSqlite3Reader(Sqlite3Reader):
    """rosbags' reader after a check of the tables, with limits on value size and steps."""

    def open(self) -> None:
        path = Path(str(self.path))
        size = check_regular(path)
        check_tables(path, size)
        super().open()
        assert self.dbconn is not None
        import apsw

        self.dbconn.limit(apsw.SQLITE_LIMIT_LENGTH, _largest_value(size))
        self.dbconn.set_progress_handler(_step_limit(size), _STEPS_AT_ONCE)


def check_tables(path: Path, size: int) -> None:
    """Refuse views, computed columns, triggers and virtual tables, which generate rows instead of storing them."""
    with closing(bounded(path, size)) as database:
        if "messages" in check_plain(database, path):  # visits every page: damaged files may have page cycles
            database.execute("SELECT count(topic_id) FROM messages NOT INDEXED").fetchall()
        if ("offered_qos_profiles",) in database.execute("SELECT name FROM pragma_table_info('topics')").fetchall():
            for (profiles,) in database.execute("SELECT offered_qos_profiles FROM topics"):
                check_qos(profiles)


def bounded(path: Path, size: int) -> sqlite3.Connection:
    """The database, read-only, with limits on value size and steps."""
    database = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _largest_value(size))
    database.set_progress_handler(_step_limit(size), _STEPS_AT_ONCE)
    return database


def check_plain(database: sqlite3.Connection, path: Path) -> list[str]:
    """The names of the tables; an error unless all are plain."""
    entries = database.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    tables = [name for kind, name, sql in entries if kind == "table"]
    odd = [f"{kind} {name}" for kind, name, sql in entries if kind not in ("table", "index") or _is_virtual(sql)]
    for table in tables:
        columns = database.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (table,)).fetchall()
        odd += [f"computed column {table}.{name}" for name, hidden in columns if hidden]
    if odd:
        raise InputError(f"{path}: found {str(odd[0])[:80]}, expected plain tables")
    return tables


def _is_virtual(sql: str | None) -> bool:
    return isinstance(sql, str) and sql.lstrip()[:15].upper().startswith("CREATE VIRTUAL")


def _largest_value(size: int) -> int:
    return min(allowance(size), _LARGEST_VALUE)


def _step_limit(size: int) -> Callable[[], bool]:
    """A progress handler that aborts queries with more steps than a file of this size needs."""
    left = _ALWAYS_ALLOWED_STEPS + 8 * size

    def is_over() -> bool:
        nonlocal left
        left -= _STEPS_AT_ONCE
        return left < 0

    return is_over
