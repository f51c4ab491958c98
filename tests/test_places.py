"""Files are written whole or not at all, whatever stops their writing."""

import os
import stat
import tempfile
import threading
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from noiseworthy._places import CACHE_VARIABLE, kept_folder, once, whole, write_whole
from noiseworthy.errors import DataError


def broken(place, mode=None):
    with whole(place, mode) as draft:
        draft.write_text("ha")
        raise KeyboardInterrupt


def test_what_is_stopped_leaves_what_was_there(tmp_path):
    (tmp_path / "old").write_text("old")
    for name in ("old", "new"):
        with pytest.raises(KeyboardInterrupt):
            broken(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text() == "old"


def test_a_draft_of_a_process_that_was_killed_is_gone_a_day_later_and_nothing_else_is(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "TemporaryDirectory", lambda **keys: nullcontext(tempfile.mkdtemp(**keys)))
    with pytest.raises(KeyboardInterrupt):
        broken(tmp_path / "new")
    monkeypatch.undo()
    (draft,) = tmp_path.iterdir()
    (tmp_path / ".ownthing").mkdir()
    write_whole(tmp_path / "other", "")
    assert draft.is_dir(), "somebody may still be at work on it"
    for folder in tmp_path.iterdir():
        os.utime(folder, (0, 0))
    write_whole(tmp_path / "other", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ownthing", "other"]


def test_text_is_utf_8_and_bytes_are_bytes(tmp_path):
    write_whole(tmp_path / "text", "Zürich\n")
    write_whole(tmp_path / "bytes", b"\xff\r\n")
    assert (tmp_path / "text").read_bytes() == b"Z\xc3\xbcrich\n"
    assert (tmp_path / "bytes").read_bytes() == b"\xff\r\n"


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_keeps_its_mode_unless_another_is_stated(tmp_path):
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "table", "new")
        write_whole(tmp_path / "secret", "new", 0o600)
        assert (mode_of(tmp_path / "table"), mode_of(tmp_path / "secret")) == (0o644, 0o600)
        (tmp_path / "table").chmod(0o640)
        (tmp_path / "secret").chmod(0o644)
        write_whole(tmp_path / "table", "newer")
        write_whole(tmp_path / "secret", "newer", 0o600)
        assert (mode_of(tmp_path / "table"), mode_of(tmp_path / "secret")) == (0o640, 0o600)
    finally:
        os.umask(before)


def test_a_link_goes_on_to_link(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file").write_text("old")
    (tmp_path / "link").symlink_to("far/file")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far" / "file").read_text() == "new"


def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_whole(tmp_path / "pipe", "through")
    reader.join()
    assert read == ["through"]


def test_a_folder_and_a_place_in_none_are_refused(tmp_path):
    for place in (tmp_path, tmp_path / "gone" / "file"):
        with pytest.raises(OSError, match=r"Is a directory|there is no such folder"):
            write_whole(place, "text")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to every file")
def test_a_file_that_its_owner_closed_stays(tmp_path):
    (tmp_path / "closed").write_text("old")
    (tmp_path / "closed").chmod(0o444)
    with pytest.raises(PermissionError):
        write_whole(tmp_path / "closed", "new")
    assert (tmp_path / "closed").read_text() == "old"


def test_a_user_without_a_home_is_told_what_to_name(monkeypatch, tmp_path):
    """A container's user that no list knows: a training ended in a traceback, behind its plan."""

    def unknown():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    for name in (CACHE_VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(DataError, match=f"no home folder.*{CACHE_VARIABLE}"):
        kept_folder()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    assert kept_folder() == tmp_path / "noiseworthy"


def test_what_is_kept_where_nothing_can_be_written_is_read(tmp_path, monkeypatch):
    def read_only(*args, **how):
        raise OSError(30, "Read-only file system")

    asked = []
    kept = [once(tmp_path / "rows.npy", lambda: (asked.append(1), np.ones(3))[1])]
    monkeypatch.setattr(os, "utime", read_only)
    kept.append(once(tmp_path / "rows.npy", lambda: (asked.append(1), np.ones(3))[1]))
    np.testing.assert_array_equal(*kept)
    assert len(asked) == 1
