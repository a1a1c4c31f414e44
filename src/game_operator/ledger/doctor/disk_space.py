"""How much of a disk is free."""

import shutil

from game_operator.ledger.doctor.examined import Case, bytes_text, case

#: Less than this much, or this share, is too little; and this share is to be watched.
_LEAST_BYTES, _LEAST_SHARE, _WATCHED_SHARE = 1_000_000_000, 0.05, 0.15


def space_case(place: str, size: str) -> Case:
    """Return the case of the disk that the file or folder *place* is on; *size* says how much the database takes."""
    whole, _, free = shutil.disk_usage(place)
    share = free / whole if whole else 1.0
    name = "room"
    if free < _LEAST_BYTES or share < _LEAST_SHARE:
        name = "full"
    elif share < _WATCHED_SHARE:
        name = "filling"
    return case(name, free=bytes_text(free), whole=bytes_text(whole), place=place, size=size)
