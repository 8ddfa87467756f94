"""Keys and values on which decoders may differ: good ones of every type, and what looks like them."""

from __future__ import annotations

import random
from collections.abc import Iterator

GOOD_KEYS: dict[str, list[bytes]] = {
    "k string": [b"ann", "Zoë".encode(), b"", b"null"],
    "k int": [(-2).to_bytes(4, "big", signed=True), (2**31 - 1).to_bytes(4, "big"), bytes(4), b"\x80\0\0\0"],
    "k bigint": [(-2).to_bytes(8, "big", signed=True), (2**63 - 1).to_bytes(8, "big"), b"\x80" + bytes(7)],
    "k double": [b"\x3f\xf8" + bytes(6), b"\x7f\xf8" + bytes(6), b"\xff\xf0" + bytes(6), b"\x80" + bytes(7), bytes(8)],
    "k boolean": [b"\0", b"\1"],
    "k date": [b"2013-01-31", b"1970-01-01"],
    "k string, n int": [b'{"k":"ann","n":1}', b' {"n": -7, "k": "b", "z": [1]} '],
    "nothing": [b"ann"],
}
BAD_KEYS: dict[str, list[bytes]] = {
    "k string": [b"\xff\xfe"],
    "k int": [b"\0", bytes(5), b""],
    "k bigint": [bytes(7)],
    "k double": [bytes(9)],
    "k boolean": [b"\2", b"true"],
    "k date": [b"2013-02-30", b"2013-1-1", b"today"],
    "k string, n int": [b'{"k":"ann"}', b'{"k":null,"n":1}', b'{"k":1,"n":1}', b"ann", b'{"k":"a","n":1}{}'],
    "nothing": [],
}

TEXTS = ['"x"', '""', r'"\u00e9"', '"é😀"', r'"a\"b\\\n\/"', r'"\ud83d\ude00"', '"1"', "null", '"\\u0007"']
ODD_TEXTS = ["1", "true", "{}", "[]", r'"\ud83d"', r'"\u0000"', '"a\tb"', '"a\nb"', "'x'", r'"\x"', '"\x7f"']
WHOLE = ["0", "-0", "7", "-12", "999999999", "2147483647", "-2147483648", "null"]
ODD_WHOLE = ["2147483648", "1.0", "1e3", "01", "+1", '"1"', "1.5", "true", "NaN", "0x1", "[1]", '""', "1_0"]
LONG = [*WHOLE, "123456789012345678", "9223372036854775807", "-9223372036854775808"]
ODD_LONG = [*ODD_WHOLE[1:], "9223372036854775808", "1" + "0" * 30]
DECIMALS = ["0.5", "-0.5", "1", "-0", "-0.0", "1e3", "1E-7", "3.4028234e38", "0.1", "16777217", "33.333333", "null"]
ODD_DECIMALS = ["1e400", "NaN", "Infinity", '"1.5"', "1.", ".5", "1e", "0.1234567890123456789", "1e-400", "-"]
DAYS = ['"2013-01-31"', '"1970-01-01"', '"2000-02-29"', "null"]
ODD_DAYS = ['"2013-02-30"', '"2013-1-1"', '"2013"', '"2013-01-31 "', "15736", '"2013-01-31T00:00:00"', '"0000-01-01"']
TIMES = [
    '"2013-01-31T12:13:14"', '"2013-01-31 12:13:14.5"', '"2013-01-31T12:13:14.123456Z"', "null",
    '"2013-01-31T12:13:14+01:30"', '"2013-01-31T23:59:59-08:00"', '"2013-01-31"', '"2013-01-31T12:13:14.123456789Z"',
]  # fmt: skip
ODD_TIMES = ['"2013-01-31T24:00:00"', '"2013-01-31T12:60:00"', "0", '"noon"', '"2013-01-31T12:13:14+19:00"', '"1e3"']
FIELDS = {
    "a": (TEXTS, ODD_TEXTS), "b": (["true", "false", "null"], ["1", '"true"', "True", "0"]), "c": (WHOLE, ODD_WHOLE),
    "d": (LONG, ODD_LONG), "e": (DECIMALS, ODD_DECIMALS), "f": (DECIMALS, ODD_DECIMALS), "g": (DAYS, ODD_DAYS),
    "h h": (TIMES, ODD_TIMES),
}  # fmt: skip
OTHERS = ['{"z": {"y": [1, {"x": "}"}]}}', "[]", "[[[[[1]]]]]", "{}", '{"a": 5}', "1e999", r'"\ud800"', "NaN", "[1,]"]
WHOLE_RECORDS = [
    b"{}", b"", b" ", b"null", b"1", b'"x"', b"[]", b'[{"c":1}]', b'{"c":1}{"c":2}', b'{"c":1} {"c":2}', b'{"c":1',
    b'{"c":1}}', b'{"c":1,}', b'{,"c":1}', b'{"c" 1}', b'{"c":1,"c":2}', b'{"c":1,"c":1}', b'{"z":1,"z":2}', b"\xff",
    b'{"a":"\xff"}', b'{"z":"\xff"}', b'\n{"c":\n1}\r\n', b'{"C":1}', b'{"\\u0063":1}', b'{"c":1}//', b"{'c':1}",
    b'/**/{"c":1}', b'{"a":"c\\":1,\\"c\\":"}', b'\xef\xbb\xbf{"c":1}', b'{"c":1}\0', b"{broken", b"{" * 300,
]  # fmt: skip


def values(seed: int, count: int) -> Iterator[bytes | None]:
    """The odd records one by one, each odd field in a good record, then random good records and null values."""
    yield from WHOLE_RECORDS
    chance = random.Random(seed)
    for name, (_, odd) in FIELDS.items():
        for text in odd:
            yield _record(chance, {name: text})
    for other in OTHERS:
        yield _record(chance, {"other": other})
    for number in range(count):
        yield None if number % 11 == 0 else _record(chance, {})


def _record(chance: random.Random, fixed: dict[str, str]) -> bytes:
    chosen = {name: chance.choice(good) for name, (good, _) in FIELDS.items() if chance.random() < 0.8} | fixed
    names = list(chosen)
    chance.shuffle(names)
    space = chance.choice(["", " ", " \r\n\t"])
    members = f",{space}".join(f'"{name}"{space}:{space}{chosen[name]}' for name in names)
    return f"{space}{{{space}{members}{space}}}{space}".encode()


def keys_of(kind: str) -> list[bytes | None]:
    """Keys for a draw: null and bad ones now and then."""
    return [None, *GOOD_KEYS[kind] * 20, *BAD_KEYS[kind]]
