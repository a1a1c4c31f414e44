"""`game-operator keygen`: the key pair that signs requests (spec §5)."""

import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from game_operator import ConfigurationError
from game_operator.cli.keys import write_new
from game_operator.signers.keys import load_signer, public_key_of
from tests.support.command_line import Run, mode_of, said


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory in which there is nothing but another one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    return tmp_path


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def fingerprint_by_openssl(public: Path) -> str:
    """Return the SHA-256 of the public key's DER, as a provider would work it out."""
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", public, "-outform", "DER"], capture_output=True, check=True
    )
    return sha256(der.stdout).hexdigest()


@pytest.mark.outside
def test_a_pair_is_made_that_works(run: Run, here: Path) -> None:
    """The private key signs, the public one is its half, and the fingerprint is what openssl makes of it (spec §5)."""
    told = run("keygen")
    assert (told.code, told.err) == (0, "")
    private, public = here / "operator.pem", here / "operator.pub.pem"
    key = public_key_of(load_signer(private))
    assert key == public_key_of(load_signer(private.read_bytes()))
    assert said(told.out)["fingerprint sha256"] == fingerprint_by_openssl(public)
    assert public.read_text() in told.out
    assert private.read_text().splitlines()[1] not in told.out


@pytest.mark.outside
def test_json_tells_the_same(run: Run, here: Path) -> None:
    document = run("keygen", "other/../mine.pem", "--json").document
    public = here / "mine.pub.pem"
    assert document == {
        "private_key_file": "other/../mine.pem",
        "public_key_file": "other/../mine.pub.pem",
        "public_key_pem": public.read_text(),
        "fingerprint_sha256": fingerprint_by_openssl(public),
        "bits": 2048,
    }


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077], ids=oct)
def test_the_private_key_is_its_owners_alone(run: Run, here: Path, mask: int) -> None:
    """0600 whatever the umask; the public key may be read by all that the umask lets."""
    with umask(mask):
        assert run("keygen").code == 0
    assert (mode_of(here / "operator.pem"), mode_of(here / "operator.pub.pem")) == (0o600, 0o644 & ~mask)


def test_the_private_key_is_its_owners_alone_from_the_first_byte(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is opened with its mode: there is no moment at which others could open it."""
    seen: list[tuple[int, int]] = []
    fdopen = os.fdopen

    def watching(descriptor: int, *args: Any) -> IO[Any]:
        found = os.fstat(descriptor)
        seen.append((stat.S_IMODE(found.st_mode), found.st_size))
        opened: IO[Any] = fdopen(descriptor, *args)
        return opened

    monkeypatch.setattr(os, "fdopen", watching)
    with umask(0):
        write_new(here / "secret", b"content", 0o600)
    assert seen == [(0o600, 0)]
    assert (here / "secret").read_bytes() == b"content"


@pytest.mark.parametrize("name", ["operator.pem", "operator.pub.pem"])
@pytest.mark.parametrize("kind", ["file", "dangling link", "directory"])
def test_nothing_is_overwritten(run: Run, here: Path, name: str, kind: str) -> None:
    """Whatever is in the way stays as it is, and nothing is written beside it."""
    in_the_way = here / name
    if kind == "file":
        in_the_way.write_text("mine")
    elif kind == "directory":
        in_the_way.mkdir()
    else:
        in_the_way.symlink_to(here / "elsewhere")
    told = run("keygen")
    assert (told.code, told.out) == (2, "")
    problem = "operator.pem' is a directory" if in_the_way.is_dir() and name == "operator.pem" else "is there already"
    assert problem in told.err
    assert name in told.err
    assert run("keygen", "--json").error["exit_code"] == 2
    assert sorted(path.name for path in here.iterdir()) == sorted([name, "other"])
    assert kind != "file" or in_the_way.read_text() == "mine"


def test_a_file_that_appears_in_between_is_not_overwritten_either(here: Path) -> None:
    """The last check is the system's own, at the moment of opening."""
    (here / "late").write_text("mine")
    with pytest.raises(ConfigurationError, match="is there already"):
        write_new(here / "late", b"ours", 0o600)
    assert (here / "late").read_text() == "mine"


@pytest.mark.outside
def test_a_full_disk_leaves_nothing_behind(here: Path) -> None:
    """Half a private key is worse than none."""
    program = "import sys; from game_operator.cli import main; sys.exit(main(['keygen', '--json']))"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )
    assert (ran.returncode, ran.stderr) == (2, "")
    assert "File too large" in ran.stdout
    assert [path.name for path in here.iterdir()] == ["other"]


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "code"), [(2047, 2), (2048, 0), (3072, 0), (8193, 2)])
def test_the_length_of_a_key_has_limits(run: Run, here: Path, bits: int, code: int) -> None:
    """Under 2048 bits it can be broken (assumed); over 8192 it takes minutes."""
    told = run("keygen", "--bits", bits)
    assert told.code == code
    made = here / "operator.pem"
    assert made.exists() == (code == 0)
    if made.exists():
        key = load_pem_private_key(made.read_bytes(), None)
        assert isinstance(key, RSAPrivateKey)
        assert key.key_size == bits


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        *((path, "") for path in (".", "..", "/", "other", "other/", "other/..", "")),
        *((path, f"{path!r} is not the name of a private key") for path in ("a.pub.pem", "x.pub", "other/X.PUB.PEM")),
        ("nowhere/operator.pem", "No such file or directory"),
        (f"{'x' * 251}.pem", "File name too long"),
    ],
)
def test_no_key_is_written_there(run: Run, here: Path, path: str, problem: str) -> None:
    """
    No directory is a key file; under a public name, somebody would hand it to the provider.

    A pair or nothing: the name of the last one's public key is longer than file names can be.
    """
    told = run("keygen", path)
    assert (told.code, told.out) == (2, "")
    assert problem in told.err
    assert run("keygen", path, "--json").error["exit_code"] == 2
    assert [each.name for each in here.rglob("*")] == ["other"]
