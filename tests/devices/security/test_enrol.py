"""`fedrt enrol`: what the commands write, refuse and leave alone."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest
from support.children import LIMIT_S

import fedrt
from fedrt.cli import main
from fedrt.devices.security import Files, Party
from fedrt.devices.security.certificates import PEM, make_request, new_key
from fedrt.devices.security.pem import read_certificate, read_pem, write_pem
from fedrt.errors import FedrtError, InputError


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to work in, with an authority in ca."""
    monkeypatch.chdir(tmp_path)
    assert main(["enrol", "init", "ca"]) == 0
    return tmp_path


def enrol(*words: str) -> int:
    return main(["enrol", *words])


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_party_gets_what_it_needs_and_no_more(here, capsys):
    assert (
        enrol("sign", "ca", "--role", "edge", "--name", "edge-0", "--host", "10.0.0.1,e.lan") == 0
    )
    files = Files.in_folder(here / "edge-0", "edge-0")
    assert files.problems(Party("edge", "edge-0")) == []
    assert {path.name for path in (here / "edge-0").iterdir()} == {
        *("ca.pem", "edge-0.pem", "edge-0.key", "revoked.pem")
    }
    assert (mode(files.key), mode(here / "ca" / "ca.key"), mode(here / "ca")) == (
        *(0o600, 0o600),
        0o700,
    )
    capsys.readouterr()
    assert enrol("show", "ca") == 0
    authority, edge = capsys.readouterr().out.splitlines()
    assert authority.split()[:4] == ["authority", "FedRT", "authority", "valid,"]
    assert edge.split()[:3] == ["edge", "edge-0", "valid,"]
    assert edge.endswith(" e.lan, 10.0.0.1")


def test_a_key_stays_where_it_was_made(here):
    assert enrol("request", "mine", "--role", "device", "--name", "device-0") == 0
    key = (here / "mine" / "device-0.key").read_bytes()
    words = ["--role", "device", "--name", "device-0", "--request", "mine/device-0.csr"]
    assert enrol("sign", "ca", *words, "--out", "mine") == 0
    files = Files.in_folder(here / "mine", "device-0")
    assert files.problems() == []
    assert files.key.read_bytes() == key
    assert not list((here / "ca").rglob("*device-0*.key"))
    # Again, before it ends: the same key, another certificate.
    before = files.certificate.read_bytes()
    assert enrol("request", "mine", "--role", "device", "--name", "device-0") == 0
    assert enrol("sign", "ca", *words, "--out", "mine") == 2
    assert files.certificate.read_bytes() == before
    assert enrol("sign", "ca", *words, "--out", "mine", "--overwrite") == 0
    assert files.problems() == []
    assert (files.key.read_bytes() == key, files.certificate.read_bytes() == before) == (
        True,
        False,
    )


def test_revoked_certificates_are_on_the_list(here, capsys):
    for name in ("device-0", "device-1"):
        assert enrol("sign", "ca", "--role", "device", "--name", name) == 0
    capsys.readouterr()
    assert enrol("revoke", "ca", "device-0") == 0
    assert "copy ca/revoked.pem to every party" in capsys.readouterr().out
    assert [each.state for each in fedrt.enrol_show("ca")] == ["valid", "revoked", "valid"]
    write_pem(here / "device-0" / "revoked.pem", read_pem(here / "ca" / "revoked.pem"))
    (line,) = Files.in_folder(here / "device-0", "device-0").problems()
    assert "device-0.pem: certificate was revoked on 2" in line
    assert enrol("revoke", "ca", "device-0") == 0
    assert capsys.readouterr().out.endswith("nothing to revoke\n")
    # Another certificate of the same name is good.
    assert enrol("sign", "ca", "--role", "device", "--name", "device-0", "--out", "new") == 0
    assert Files.in_folder(here / "new", "device-0").problems() == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["init", "ca"], "ca: exists already; give another --out or remove it"),
        (["sign", "no", "--role", "edge", "--name", "e"], "no: is no authority (no ca.key)"),
        (["sign", "ca", "--role", "king", "--name", "e"], 'role = "king": must be one of coord'),
        (["sign", "ca", "--role", "edge", "--name", "a/../b"], 'name = "a/../b": must be 1 to 63'),
        (
            ["sign", "ca", "--role", "edge", "--name", "e", "--days", "0"],
            "days = 0: must be a whol",
        ),
        (["sign", "ca", "--role", "edge", "--name", "e", "--days", "9999"], "days = 9999: must be"),
        (
            ["sign", "ca", "--role", "edge", "--name", "e", "--host", "edge-1.g0.edge.fedrt"],
            'host = "edge-1.g0.edge.fedrt": must be an IP address or a DNS name outside .fedrt',
        ),
        (
            ["sign", "ca", "--role", "edge", "--name", "e", "--host", "*.lan"],
            'host = "*.lan": must',
        ),
        (["sign", "ca", "--role", "device", "--name", "e", "--host", "x"], 'host = ["x"]: must be'),
        (["sign", "ca", "--role", "edge", "--name", "e", "--request", "no"], "no: cannot be read"),
        (
            ["sign", "ca", "--role", "edge", "--name", "e", "--out", "ca/ca.pem"],
            "ca/ca.pem: is no folder; give another --out",
        ),
        (["revoke", "ca", "device-9"], '"device-9": ca has issued no certificate to it'),
        (["show", "nowhere"], "nowhere: does not exist"),
        (["show", "ca/ca.key"], "ca/ca.key: must have a certificate (PEM)"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(here, capsys, words, said):
    before = sorted(here.rglob("*"))
    capsys.readouterr()
    assert enrol(*words) == 2
    assert capsys.readouterr().err.splitlines()[0].startswith(said)
    assert sorted(here.rglob("*")) == before


def test_nothing_is_left_where_writing_fails(here, monkeypatch, capsys):
    def full(path, text):
        raise FedrtError(f"{path.name}: cannot be written: No space left on device")

    before = sorted(here.rglob("*"))
    monkeypatch.setattr("fedrt.devices.security.authority.write_pem", full)
    assert enrol("sign", "ca", "--role", "device", "--name", "device-0") == 1
    assert enrol("init", "other") == 1
    assert "No space left on device" in capsys.readouterr().err
    assert sorted(here.rglob("*")) == before


def test_a_key_is_never_overwritten(here, capsys):
    assert enrol("sign", "ca", "--role", "device", "--name", "device-0") == 0
    key = (here / "device-0" / "device-0.key").read_bytes()
    issued = len(list((here / "ca" / "issued").iterdir()))
    assert enrol("sign", "ca", "--role", "device", "--name", "device-0", "--overwrite") == 2
    assert "device-0.key: exists already and is never replaced" in capsys.readouterr().err
    assert (here / "device-0" / "device-0.key").read_bytes() == key
    assert len(list((here / "ca" / "issued").iterdir())) == issued


def test_a_request_of_another_party_is_refused(here, capsys):
    assert enrol("request", "mine", "--role", "device", "--name", "device-0") == 0
    words = ["--role", "edge", "--name", "edge-0", "--request", "mine/device-0.csr"]
    assert enrol("sign", "ca", *words) == 2
    assert "is of device device-0: must be of edge edge-0" in capsys.readouterr().err
    request = make_request(new_key(), Party("device", "device-0")).public_bytes(PEM)
    spoilt = bytearray(request)
    spoilt[len(spoilt) // 2] ^= 1
    (here / "spoilt.csr").write_bytes(bytes(spoilt))
    words = ["--role", "device", "--name", "device-0", "--request", "spoilt.csr"]
    assert enrol("sign", "ca", *words) == 2


def test_files_say_everything_that_is_wrong_with_them(site, tmp_path):
    good, other = site.files("device", "device-0"), site.files("device", "device-1")
    nothing = tmp_path / "nothing"
    wrong = Files(good.ca, good.certificate, other.key, nothing)
    assert wrong.problems(Party("edge", "edge-0")) == [
        f"{nothing}: cannot be read: No such file or directory",
        f"{good.certificate}: is the certificate of device device-0, not of edge edge-0",
        f"{other.key}: is not the key of {good.certificate}",
    ]
    with pytest.raises(InputError, match="cannot be read"):
        wrong.check()
    loose = tmp_path / "loose.key"
    loose.write_bytes(good.key.read_bytes())
    loose.chmod(0o640)
    (line,) = Files(good.ca, good.certificate, loose).problems()
    assert line == f"{loose}: has mode 0640: only its owner may read a key (chmod 600)"


def test_certificates_say_what_they_may_be_used_for(site):
    edge = read_certificate(site.files("edge", "edge-0").certificate)
    device = read_certificate(site.files("device", "device-0").certificate)
    text = [each.extensions for each in (edge, device)]
    from cryptography.x509 import BasicConstraints, ExtendedKeyUsage
    from cryptography.x509.oid import ExtendedKeyUsageOID

    uses = [set(each.get_extension_for_class(ExtendedKeyUsage).value) for each in text]
    assert uses[1] == {ExtendedKeyUsageOID.CLIENT_AUTH}
    assert uses[0] == uses[1] | {ExtendedKeyUsageOID.SERVER_AUTH}
    assert not any(each.get_extension_for_class(BasicConstraints).value.ca for each in text)


def test_help_and_import_load_neither_grpc_nor_cryptography():
    code = (
        "import sys, fedrt, fedrt.api, fedrt.devices, fedrt.devices.security\n"
        "from fedrt.cli import build_parser\n"
        "build_parser().format_help(); dir(fedrt.devices.security)\n"
        "print(sorted({'grpc', 'cryptography', 'google'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, timeout=LIMIT_S
    )
    assert done.stdout == b"[]\n"


def test_a_missing_library_is_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert enrol("init", os.fspath(tmp_path / "ca")) == 2
    said = (
        "certificates: needs cryptography, which is not installed: pip install 'fedrt[devices]'\n"
    )
    assert capsys.readouterr().err == said
