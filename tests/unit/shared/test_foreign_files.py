"""Files that others wrote: nothing hangs, follows a link, takes another user's file or fills the memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from fuselight.shared.foreign_files import (
    check_folder,
    folders_to_root,
    make_folders,
    make_private_folder,
    open_to_append,
    project_root,
    read_regular,
    signature,
    write_whole,
)
from fuselight.worker.processes.children import read_file

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and links of Unix")
NOBODY = 65534


@pytest.fixture
def disown(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Give a file or folder to another user: really as root, else by what the system says of it."""

    def disowned(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, NOBODY, -1)
            return
        inode = path.lstat().st_ino
        for name in ("stat", "lstat", "fstat"):
            real = getattr(os, name)

            def stat_disowned(*args: object, real: Callable[..., os.stat_result] = real) -> os.stat_result:
                state = real(*args)
                return os.stat_result((*state[:4], NOBODY, *state[5:])) if state.st_ino == inode else state

            monkeypatch.setattr(os, name, stat_disowned)

    return disowned


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"text")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to_pipe").symlink_to("pipe")
    (tmp_path / "to_zero").symlink_to("/dev/zero")
    (tmp_path / "nowhere").symlink_to("missing")
    assert read_regular(tmp_path / "text") == b"text"
    for name, why in (
        ("pipe", "not a regular file"), ("to_pipe", "not a regular file"), ("to_zero", "not a regular file"),
        (".", "a folder"), ("nowhere", "No such file"),
    ):  # fmt: skip
        with pytest.raises(OSError, match=why):
            read_regular(tmp_path / name)
    with pytest.raises(OSError, match="not a regular file"):
        open_to_append(tmp_path / "pipe")


def test_a_run_cannot_have_its_host_wait_for_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "report")
    (tmp_path / "outcome").symlink_to("/dev/zero")
    assert [read_file(str(tmp_path / name)) for name in ("report", "outcome", "missing")] == [None] * 3


def test_no_link_is_followed_where_none_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"text")
    for name, target in (
        ("to_text", "text"),
        ("to_folder", "."),
        ("nowhere", "missing"),
        ("to_itself", "to_itself"),
    ):
        link = tmp_path / name
        link.symlink_to(target)
        with pytest.raises(OSError, match="it is a link"):
            read_regular(link, follow_link=False)
        with pytest.raises(OSError, match="it is a link"):
            open_to_append(link)
    assert read_regular(tmp_path / "to_text") == b"text"
    assert not (tmp_path / "missing").exists()
    write_whole(tmp_path / "to_text", b"new")
    assert not (tmp_path / "to_text").is_symlink()
    assert (tmp_path / "text").read_bytes() == b"text"


def test_a_file_beyond_its_bound_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(2**40)  # nothing of it is on the disk
    with pytest.raises(OSError, match="larger than"):
        read_regular(tmp_path / "huge")
    (tmp_path / "small").write_bytes(b"12345")
    assert read_regular(tmp_path / "small", 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_regular(tmp_path / "small", 4)


def test_files_and_folders_of_others_are_refused(tmp_path: Path, disown: Callable[[Path], None]) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_bytes(b"theirs")
    folder.mkdir(mode=0o700)
    check_folder(folder)
    disown(file)
    disown(folder)
    assert read_regular(file) == b"theirs"
    with pytest.raises(PermissionError, match="another user"):
        read_regular(file, is_own=True)
    with pytest.raises(PermissionError, match="another user"):
        check_folder(folder)
    with pytest.raises(PermissionError, match="another user"):
        make_private_folder(folder)


def test_a_folder_in_which_anybody_can_replace_files_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="every user can write"):
        check_folder(tmp_path)
    tmp_path.chmod(0o1777)  # as /tmp: each user's files are safe there
    check_folder(tmp_path)


def test_a_private_folder_is_made_closed_and_is_no_link(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    make_private_folder(folder)
    make_private_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (tmp_path / "link").symlink_to("own")
    (tmp_path / "file").touch()
    folder.chmod(0o755)
    for name, why in (("own", "other users"), ("link", "a link"), ("file", "no folder")):
        with pytest.raises(OSError, match=why):
            make_private_folder(tmp_path / name)


def test_folders_are_made_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a").symlink_to("../elsewhere")
    make_folders(tmp_path / "root", ["b", "c"])
    assert (tmp_path / "root" / "b" / "c").is_dir()
    with pytest.raises(OSError, match="a link"):
        make_folders(tmp_path / "root", ["a", "c"])
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_way_up_ends_at_the_project_or_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, deep = tmp_path / "home", tmp_path / "home" / "project" / "src" / "net"
    deep.mkdir(parents=True)
    (tmp_path / "outside" / "net").mkdir(parents=True)
    monkeypatch.setattr(Path, "home", lambda: home)
    assert list(folders_to_root(deep)) == [deep, deep.parent, deep.parents[1], home]
    assert project_root(deep) == deep
    (home / "project" / "pyproject.toml").touch()
    assert list(folders_to_root(deep)) == [deep, deep.parent, deep.parents[1]]
    assert list(folders_to_root(deep / "net.py")) == [deep, deep.parent, deep.parents[1]]
    assert project_root(deep) == home / "project"
    assert list(folders_to_root(tmp_path / "outside" / "net")) == [tmp_path / "outside" / "net"]
    assert list(folders_to_root(home)) == [home]


def test_only_the_user_can_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert signature(b"data") is None
    text = signature(b"data", create=True)
    assert text is not None
    assert signature(b"data") == text == signature(b"data", create=True)
    assert signature(b"date") != text
    folder = tmp_path / "state" / "fuselight"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "key")] == [0o700, 0o600]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    assert signature(b"data", create=True) != text
    (tmp_path / "another" / "fuselight").chmod(0o777)  # somebody else may have put the key there
    with pytest.raises(OSError, match="other users"):
        signature(b"data")
