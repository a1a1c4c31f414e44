"""Plans: whole or not at all, the same for the same players, and never more than the cap."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import AsyncOperatorClient, ConfigurationError
from game_operator.backoffice import Campaign, CampaignRefusedError, RunError
from game_operator.backoffice.campaigns import GrantState
from game_operator.ledger import AsyncSqlLedger, SqlLedger, TableAccounts
from tests.support.catalogues import BASE_URL, OPERATOR, named
from tests.support.grants import GrantingService, campaign, players
from tests.support.seeds import random_of


def test_a_plan_says_what_it_comes_to(service: GrantingService, memory: SqlLedger) -> None:
    """Count times wager, in the currency of the instances."""
    rows: list[Any] = ["p1", {"player_id": "p2", "count": 50, "wager_amount_cents": 7}]
    plan = campaign(service, memory).plan(rows)
    assert (plan.grants, plan.exposure_cents, plan.currency, plan.players_checked) == (2, 850, "EUR", True)
    status = campaign(service, memory).status()
    assert (status.state, status.total, status.exposure_cents, status.currency) == ("planned", 2, 850, "EUR")
    assert status.by_state == {GrantState.PLANNED: (2, 850)}
    assert service.asked == []


def test_the_same_players_are_the_same_plan_in_any_order(service: GrantingService, memory: SqlLedger) -> None:
    ids = players(30)
    first = campaign(service, memory).plan(ids)
    random_of(7).shuffle(ids)
    again = campaign(service, memory).plan(dict.fromkeys(ids).keys())
    assert (first.is_new, again.is_new, again.digest) == (True, False, first.digest)
    spelled_out = [{"player_id": each, "instance_id": "i1", "count": 5} for each in ids]
    assert campaign(service, memory).plan(spelled_out).digest == first.digest


def test_the_digest_never_changes(service: GrantingService, memory: SqlLedger) -> None:
    """A program of another version would take its own plan for another one."""
    service.games = (named("g1", "i1", "i9"),)
    plan = campaign(service, memory).plan(["p1", {"player_id": "p2", "instance_id": "i9", "count": 7}])
    assert plan.digest == "4ae623fc16fa53dfd114ad9ad2081c6504b891a29c2e324c2fd25383f83412b8"


@pytest.mark.parametrize(
    ("changed", "rows"),
    [
        pytest.param({"count": 6}, ["p1", "p2"], id="another count"),
        pytest.param({"wager_amount_cents": 101}, ["p1", "p2"], id="another wager"),
        pytest.param({"instance_id": "i2"}, ["p1", "p2"], id="another instance"),
        pytest.param({}, ["p1", "p2", "p3"], id="more players"),
        pytest.param({"source": "live"}, ["p1", "p2"], id="another source"),
    ],
)
def test_another_plan_under_the_same_name_is_refused(
    service: GrantingService, memory: SqlLedger, changed: dict[str, Any], rows: list[str]
) -> None:
    campaign(service, memory).plan(["p1", "p2"])
    with pytest.raises(RunError, match="Choose another name"):
        campaign(service, memory, **changed).plan(rows)
    assert campaign(service, memory).status().total == 2
    assert campaign(service, memory, "other", **changed).plan(rows).is_new


def test_a_campaign_is_for_one_service(service: GrantingService, memory: SqlLedger, private_key: RSAPrivateKey) -> None:
    """Its reference ids are unknown to another one, which would grant all of them again."""
    campaign(service, memory).plan(["p1"])
    foreign = Campaign(service.client_of("other", private_key), memory, "summer")
    for forbidden in (foreign.run, foreign.resume, foreign.stop):
        with pytest.raises(RunError, match="Use the client of the plan"):
            forbidden()
    assert service.asked == []


def test_another_spelling_of_the_address_is_the_same_service(
    service: GrantingService, memory: SqlLedger, private_key: RSAPrivateKey
) -> None:
    """A process whose settings say it differently goes on with the campaign."""
    campaign(service, memory).plan(["p1"])
    spelt = service.client_of(OPERATOR, private_key, base_url=f"{BASE_URL.upper()}:443/")
    assert Campaign(spelt, memory, "summer").run(rate_per_second=1_000.0).granted == 1


@pytest.mark.parametrize(
    ("rows", "problems"),
    [
        pytest.param(["p1", "p2", "p1"], {3: "those of line 1"}, id="a player twice"),
        pytest.param(["p1", "P1"], {2: "knows no player 'P1'"}, id="byte for byte"),
        pytest.param(["p1", " p1", ""], {2: "begins or ends", 3: "blank"}, id="padded and blank"),
        pytest.param(["stranger", "p1", "nobody"], {1: "no player", 3: "no player"}, id="players that are unknown"),
        pytest.param(
            [{"player_id": "p1", "instance_id": "i7"}], {1: "no game instance 'i7'"}, id="an unknown instance"
        ),
        pytest.param([{"player_id": "p1", "count": 51}], {1: "COUNT_TOO_HIGH"}, id="over a limit"),
        pytest.param([7, "p1"], {1: "neither"}, id="no row at all"),
    ],
)
def test_everything_is_checked_and_nothing_is_kept(
    service: GrantingService, memory: SqlLedger, rows: list[Any], problems: dict[int, str]
) -> None:
    with pytest.raises(CampaignRefusedError) as refused:
        campaign(service, memory).plan(rows)
    assert dict(refused.value.problems).keys() == problems.keys()
    assert all(problems[line] in text for line, text in refused.value.problems)
    assert refused.value.problem_count == len(problems)
    with pytest.raises(RunError, match="There is no campaign 'summer'"):
        campaign(service, memory).status()
    assert service.asked == []


def test_at_most_100_problems_are_listed_and_all_are_counted(service: GrantingService, memory: SqlLedger) -> None:
    with pytest.raises(CampaignRefusedError, match="250 of the rows") as refused:
        campaign(service, memory).plan([" padded"] * 250)
    assert [line for line, _ in refused.value.problems] == list(range(1, 101))
    assert len(str(refused.value)) < 1_000


TWO_CURRENCIES: list[Any] = ["p1", {"player_id": "p1", "instance_id": "i9"}]


@pytest.mark.parametrize(
    ("rows", "cap", "problem"),
    [
        pytest.param([], None, "There are no players", id="no players"),
        pytest.param(["p1", "p2"], 999, r"The exposure is 10\.00 EUR", id="above the cap"),
        pytest.param(["p1", "p2"], 0, r"The exposure is 10\.00 EUR", id="nothing may be spent"),
        pytest.param(TWO_CURRENCIES, None, r"currencies: 'EUR', 'SEK'.*Plan a campaign for each", id="two currencies"),
        pytest.param(TWO_CURRENCIES, 10**9, "currencies: 'EUR', 'SEK'", id="cents of two are not the same money"),
    ],
)
def test_a_plan_that_is_refused_as_a_whole(
    service: GrantingService, memory: SqlLedger, rows: list[Any], cap: int | None, problem: str
) -> None:
    """And the same name can be planned within the cap, and in one currency."""
    with pytest.raises(CampaignRefusedError, match=problem):
        campaign(service, memory).plan(rows, max_exposure_cents=cap)
    with pytest.raises(RunError, match="There is no campaign 'summer'"):
        campaign(service, memory).status()
    assert campaign(service, memory).plan(["p1", "p2"], max_exposure_cents=1_000).exposure_cents == 1_000
    assert campaign(service, memory, "other").plan(TWO_CURRENCIES[1:]).currency == "SEK"


def test_what_neither_the_row_nor_the_campaign_says(service: GrantingService, memory: SqlLedger) -> None:
    with pytest.raises(CampaignRefusedError, match="There is no count"):
        Campaign(service.client, memory, "bare").plan([{"player_id": "p1", "instance_id": "i1"}])


def casino(folder: Path, players: str, key: str | tuple[str, str]) -> SqlLedger:
    """Return a ledger on the operator's own table of players."""
    with closing(sqlite3.connect(folder / "casino.db")) as database:
        database.executescript(players)
    accounts = TableAccounts(table="players", key=key, balance="balance", unit="cents")
    return SqlLedger(f"sqlite:///{folder / 'casino.db'}", accounts=accounts)


def test_players_of_the_operators_own_table_are_known(service: GrantingService, tmp_path: Path) -> None:
    table = "CREATE TABLE players (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);"
    with casino(tmp_path, f"{table} INSERT INTO players VALUES (7, 0), (8, 0)", "id") as ledger:
        assert campaign(service, ledger).plan(["7", "8"]).players_checked
        with pytest.raises(CampaignRefusedError) as refused:
            campaign(service, ledger, "other").plan(["7", "07", "9"])
    assert [line for line, _ in refused.value.problems] == [2, 3]


def test_a_key_of_several_columns_is_no_players_id(service: GrantingService, tmp_path: Path) -> None:
    table = "CREATE TABLE players (id TEXT, currency TEXT, balance INTEGER, PRIMARY KEY (id, currency))"
    with casino(tmp_path, table, ("id", "currency")) as ledger:
        assert not campaign(service, ledger).plan(["anybody"]).players_checked


def test_async_clients_and_ledgers_are_refused(
    service: GrantingService, memory: SqlLedger, private_key: RSAPrivateKey
) -> None:
    other = AsyncOperatorClient("https://api.example.com", "acme", private_key)
    with pytest.raises(TypeError, match="client is async"):
        Campaign(other, memory, "summer")  # type: ignore[arg-type]
    for ledger in (AsyncSqlLedger("sqlite:///:memory:"), None):
        with pytest.raises(TypeError, match="ledger must be an open SqlLedger"):
            Campaign(service.client, ledger, "summer")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="client must be an OperatorClient"):
        Campaign(object(), memory, "summer")  # type: ignore[arg-type]


@pytest.mark.parametrize("terms", [{"count": 5.0}, {"count": True}, {"instance_id": 7}, {"wager_amount_cents": "1"}])
def test_terms_have_their_types(service: GrantingService, memory: SqlLedger, terms: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"{next(iter(terms))} must be"):
        campaign(service, memory, **terms)


def test_without_a_client_a_campaign_is_looked_at(service: GrantingService, memory: SqlLedger) -> None:
    """And stopped, which no key of the operator is needed for."""
    campaign(service, memory).plan(["p1"])
    made = Campaign(None, memory, "summer")
    assert (made.status().total, made.report().granted, len(list(made.results()))) == (1, 0, 1)
    assert made.stop("no budget").why == "no budget"
    for forbidden in (made.run, made.resume, lambda: made.plan(["p1"])):
        with pytest.raises(ConfigurationError, match="pass an OperatorClient"):
            forbidden()
