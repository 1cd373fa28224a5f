"""Where a bus may listen, and the keys that open it."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest
import zmq

from smcp_runtime.bus.zeromq import keys
from smcp_runtime.bus.zeromq.endpoint import IPC_PATH_MAX, to_bind, to_connect
from smcp_runtime.wire.errors import ConfigValidationError, ConflictError, PolicyError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestUnixSockets:
    def test_the_default_is_a_new_directory_that_is_ours_alone(self) -> None:
        place = to_bind(None, keys=False, allow=False)
        try:
            assert place.path is not None
            assert mode(place.path.parent) == 0o700
            assert len(os.fsencode(place.path)) <= IPC_PATH_MAX
        finally:
            place.remove()
        assert not place.path.parent.exists()

    def test_a_missing_directory_is_made_private_and_stays(self, tmp_path: Path) -> None:
        directory = tmp_path / "run"
        place = to_bind(f"ipc://{directory}/bus", keys=False, allow=False)
        assert mode(directory) == 0o700
        place.remove()
        assert directory.is_dir()

    @pytest.mark.parametrize("bits", [0o750, 0o701, 0o777])
    def test_a_directory_open_to_others_is_refused(self, tmp_path: Path, bits: int) -> None:
        tmp_path.chmod(bits)
        with pytest.raises(PolicyError, match="0700"):
            to_bind(f"ipc://{tmp_path}/bus", keys=False, allow=False)
        with pytest.raises(PolicyError, match="0700"):
            to_connect(f"ipc://{tmp_path}/bus", keys=False)

    def test_a_path_too_long_for_a_socket_is_refused_with_its_limit(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigValidationError, match=str(IPC_PATH_MAX)):
            to_bind(f"ipc://{tmp_path}/{'x' * IPC_PATH_MAX}", keys=False, allow=False)

    def test_a_socket_somebody_listens_at_is_not_taken_over(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o700)
        path = tmp_path / "bus"
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(os.fspath(path))
            other.listen()
            with pytest.raises(ConflictError):
                to_bind(f"ipc://{path}", keys=False, allow=False)
        # Its owner is gone, only the file is left.
        to_bind(f"ipc://{path}", keys=False, allow=False)


class TestTcp:
    @pytest.mark.parametrize(("has_keys", "has_list"), [(False, False), (True, False), (False, True)])
    def test_tcp_needs_keys_and_an_allow_list(self, has_keys: bool, has_list: bool) -> None:
        with pytest.raises(PolicyError, match="CURVE"):
            to_bind("tcp://127.0.0.1:0", keys=has_keys, allow=has_list)

    def test_tcp_with_both_is_taken(self) -> None:
        assert to_bind("tcp://127.0.0.1:5555", keys=True, allow=True).url == "tcp://127.0.0.1:5555"
        assert to_bind("tcp://[::1]:5555", keys=True, allow=True).url == "tcp://[::1]:5555"

    def test_a_node_without_keys_does_not_connect_over_tcp(self) -> None:
        with pytest.raises(PolicyError, match="CURVE"):
            to_connect("tcp://127.0.0.1:5555", keys=False)

    @pytest.mark.parametrize(
        "endpoint", ["", "inproc://x", "udp://1.2.3.4:5", "tcp://host", "tcp://:5", "ipc://relative", "pgm://x:1"]
    )
    def test_other_endpoints_are_refused(self, endpoint: str) -> None:
        with pytest.raises(ConfigValidationError):
            to_bind(endpoint, keys=True, allow=True)
        with pytest.raises(ConfigValidationError):
            to_connect(endpoint, keys=True)


class TestKeys:
    def test_a_pair_is_written_for_its_owner_only_and_read_back(self, tmp_path: Path) -> None:
        directory = tmp_path / "keys"
        pair = keys.generate(directory, "hub")
        assert mode(directory) == 0o700
        assert {path.name: mode(path) for path in directory.iterdir()} == {"hub.secret": 0o600, "hub.public": 0o600}
        assert keys.load(directory, "hub") == pair
        assert zmq.curve_public(pair.secret) == pair.public

    def test_the_secret_half_is_not_in_its_text_form(self, tmp_path: Path) -> None:
        pair = keys.generate(tmp_path / "keys", "hub")
        assert pair.secret.decode() not in f"{pair} {pair!r}"

    def test_an_existing_key_is_not_overwritten(self, tmp_path: Path) -> None:
        pair = keys.generate(tmp_path / "keys", "hub")
        with pytest.raises(ConflictError):
            keys.generate(tmp_path / "keys", "hub")
        assert keys.load(tmp_path / "keys", "hub") == pair

    def test_a_secret_others_can_read_is_not_used(self, tmp_path: Path) -> None:
        keys.generate(tmp_path / "keys", "hub")
        (tmp_path / "keys" / "hub.secret").chmod(0o644)
        with pytest.raises(PolicyError):
            keys.load(tmp_path / "keys", "hub")

    def test_keys_are_not_made_in_a_directory_open_to_others(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        with pytest.raises(PolicyError):
            keys.generate(tmp_path, "hub")

    @pytest.mark.parametrize("name", ["", "../hub", "a/b", ".hid", "x" * 65])
    def test_a_name_cannot_leave_the_directory(self, tmp_path: Path, name: str) -> None:
        for function in (keys.generate, keys.load, keys.load_public):
            with pytest.raises(ConfigValidationError):
                function(tmp_path / "keys", name)

    def test_a_missing_or_broken_key_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigValidationError, match=r"hub\.public"):
            keys.load(tmp_path, "hub")
        (tmp_path / "hub.public").write_text("not a key")
        with pytest.raises(ConfigValidationError, match="holds no key"):
            keys.load_public(tmp_path, "hub")

    def test_the_allow_list_follows_its_directory(self, tmp_path: Path) -> None:
        pair = keys.generate(tmp_path / "made", "worker")
        allowed = tmp_path / "allowed"
        allowed.mkdir()
        names = keys.AllowList(allowed)
        assert names.name_of(pair.public) is None
        (allowed / "rubbish.public").write_text("no key")
        (allowed / "worker.public").write_bytes(pair.public + b"\n")
        assert names.name_of(pair.public) == "worker"
        (allowed / "worker.public").unlink()
        assert names.name_of(pair.public) is None

    def test_a_file_that_cannot_be_read_shuts_nobody_else_out(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        pair = keys.generate(tmp_path, "worker")
        (tmp_path / "a.public").symlink_to(tmp_path / "gone")
        (tmp_path / "z.public").mkdir()
        names = keys.AllowList(tmp_path)
        assert [names.name_of(pair.public) for _ in range(2)] == ["worker", "worker"]
        assert [line.rsplit("/")[-1].partition(":")[0] for line in caplog.messages] == ["a.public", "z.public"]

    def test_a_missing_allow_list_allows_nobody(self, tmp_path: Path) -> None:
        assert keys.AllowList(tmp_path / "none").name_of(b"x" * 40) is None
