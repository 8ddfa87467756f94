"""One keyed store of one task: a RocksDB that knows how far into its changelog it has come.

Data and the changelog boundary are written in one batch, so that a crash leaves the store behind its changelog and
never ahead. The boundary is the offset *up to* which everything is applied (the next one to read), which lets an
emptied or compacted changelog end at lag 0 (KAFKA-14302).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rocksdict import (
    BlockBasedOptions,
    Cache,
    ColumnFamily,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
)

_BLOCK_CACHE_BYTES = 64 << 20
_WRITE_BUFFER_BYTES = 16 << 20
_READ_CHUNK = 20_000
_META = "meta"
_BOUNDARY = b"boundary"

_cache = Cache(_BLOCK_CACHE_BYTES)
"""One block cache a process, whatever the number of stores (a cache per partition multiplied memory elsewhere)."""


class StoreError(Exception):
    """A store that can't be opened, read or written; it is to be closed and restored."""


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(3)
    options.set_compression_type(DBCompressionType.none())
    options.set_keep_log_file_num(2)
    table = BlockBasedOptions()
    table.set_block_cache(_cache)
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    return options


class Store:
    """An open store. Not safe for use from two threads at once."""

    def __init__(self, path: Path) -> None:
        """Open or create. Raises StoreError."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # Families are named at each open: rocksdict forgets cache and bloom filter on a reopen without them.
            self._db = Rdict(str(path), _options(), column_families={"default": _options(), _META: _options()})
            self._meta: ColumnFamily = self._db.get_column_family_handle(_META)
            self.boundary = self._read_boundary()
        except Exception as error:
            raise StoreError(f"store {path} can't be opened: {error}") from error

    def _read_boundary(self) -> int:
        family = self._db.get_column_family(_META)
        stored = family.get(_BOUNDARY)
        return 0 if stored is None else int(stored)

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of the keys, None where there is none. Sorted keys read three times as fast."""
        values: list[bytes | None] = []
        for start in range(0, len(keys), _READ_CHUNK):
            values += self._db.get(list(keys[start : start + _READ_CHUNK])) or []
        return values

    def write(self, pairs: Iterable[tuple[bytes, bytes | None]], boundary: int) -> None:
        """Apply values (None deletes) and the boundary in one atomic batch. Raises StoreError."""
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in pairs:
            if value is None:
                delete(key)
            else:
                put(key, value)
        batch.put(_BOUNDARY, b"%d" % boundary, self._meta)
        try:
            self._db.write(batch)
        except Exception as error:
            raise StoreError(f"store {self.path} can't be written: {error}") from error
        self.boundary = boundary

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Every key and value, in order of the key."""
        yield from self._db.items()

    def close(self) -> None:
        """Close; without writing anything that wasn't written."""
        # A live family handle would keep the files open, and the next owner out.
        self.__dict__.pop("_meta", None)
        self._db.close()
