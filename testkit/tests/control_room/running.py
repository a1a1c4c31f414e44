"""A control room over a small wallet behind real HTTP, for the pages of test runs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import enumerate as enumerate_threads
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from wallet_by_hand import PlainWallet

from game_operator_testkit.control_room import ControlRoom
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.certifier.serving import served
from testkit.tests.control_room.support import EVIL, Html, page, post

__all__ = ["KINDS", "Room", "certify_form", "polled", "room_at", "room_over", "storm_form"]

#: How the threads of runs are called.
KINDS = ("certification: ", "storm: ")
OPENING_CENTS = 100_000


def polled(html: Html) -> list[str]:
    """Return what a page asks for again and again, beside the status bar of every page."""
    return [place for place in html.values("hx-get") if not place.startswith("/status")]


@dataclass
class Room:
    """A sandbox with its pages, and a client that is no browser."""

    sandbox: Sandbox
    http: httpx.Client

    def begun(self, path: str, **fields: str) -> str:
        """Begin a run, and return where it is."""
        response = post(self.http, f"{path}/start", **fields)
        assert response.status_code == 303, response.text
        return response.headers["location"]

    def ended(self, place: str) -> Html:
        """Return the page of a run once it is over."""
        for _ in range(400):
            html = page(self.http, place)
            if polled(html) == []:
                return html
            time.sleep(0.05)
        raise AssertionError(html.text)

    def certified(self, **fields: str) -> Html:
        """Certify, and return the page of the run."""
        return self.ended(self.begun("/certify", **certify_form(self, **fields)))

    def stormed(self, **fields: str) -> Html:
        """Storm, and return the page of the run."""
        return self.ended(self.begun("/storm", **storm_form(**fields)))


def certify_form(room: Room, **fields: str) -> dict[str, str]:
    """Return the form of the page "Certify" for two quick scenarios, with *fields*."""
    players = {"player_id": "ann", "other_player_id": "bob"}
    return {**players, "ids": "A02, B01", "random_operations": "5", "instance_id": room.sandbox.instance_id, **fields}


def storm_form(**fields: str) -> dict[str, str]:
    """Return the form of the page "Storm" for 30 bets of two players, with *fields*."""
    players = {"who": "known", "fresh": "5", "players": "ann\r\nbob"}
    faults = {"faults": "none", "plan": "", "retries": "three"}
    return {"bets": "30", **players, **faults, "concurrency": "4", "seed": "7", **fields}


@contextmanager
def room_at(url: str | None, key: RSAPrivateKey, pages: Any = ControlRoom) -> Iterator[Room]:
    """Serve a control room with the wallet at *url*; what is at work in the end ends with it."""
    with (
        Sandbox(
            operator_public_key=key.public_key(), wallet_url=url, service_private_key=key, control_room=pages
        ) as sandbox,
        httpx.Client(base_url=sandbox.base_url, trust_env=False, verify=False, timeout=20) as http,
    ):
        yield Room(sandbox, http)
    for thread in enumerate_threads():
        if thread.name.startswith(KINDS):
            thread.join(20)
            assert not thread.is_alive(), thread.name


@contextmanager
def room_over(kind: type[PlainWallet], key: RSAPrivateKey) -> Iterator[Room]:
    """Serve a wallet by hand of this *kind* with four players, who have reported what they have, and a control room."""
    wallet = kind([key.public_key()])
    for player_id in ("ann", "bob", "cleo", EVIL):
        wallet.open_account(player_id, OPENING_CENTS)
    wallet.open_account("poor", 500)
    with served(wallet) as url, room_at(url, key) as room:
        yield room
