import errno

import pytest
import torch
from safetensors.torch import save_file

from clawrl.errors import WeightsError
from clawrl.records.versions import (
    digest_of,
    prune,
    read_meta,
    version_folder,
    versions,
    write_version,
)


def writer(value):
    def write(folder):
        save_file({"w": torch.full((3,), float(value))}, folder / "model.safetensors")

    return write


def write(root, version, value=0.0):
    return write_version(
        root,
        version=version,
        parent=version - 1,
        kind="full",
        dtype="float32",
        write=writer(value),
    )


def test_a_version_is_read_back_as_it_was_written(tmp_path):
    meta = write(tmp_path, 3)
    folder = version_folder(tmp_path, 3)
    assert folder.name == "v000003"
    assert read_meta(folder) == meta
    assert meta.digest == digest_of(folder)


def test_the_digest_depends_on_the_tensors_alone(tmp_path):
    one, same, other = write(tmp_path, 1), write(tmp_path, 2), write(tmp_path, 3, value=1.0)
    assert one.digest == same.digest != other.digest


def test_a_leftover_of_the_same_number_is_replaced(tmp_path):
    first, second = write(tmp_path, 1), write(tmp_path, 1, value=1.0)
    assert read_meta(version_folder(tmp_path, 1)) == second != first
    assert versions(tmp_path) == [1]


def test_a_full_disk_leaves_what_was_there_and_nothing_half_done(tmp_path):
    write(tmp_path, 1)

    def full_disk(folder):
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    for version in (1, 2):
        with pytest.raises(OSError, match="No space"):
            write_version(
                tmp_path,
                version=version,
                parent=0,
                kind="full",
                dtype="float32",
                write=full_disk,
            )
    assert [path.name for path in tmp_path.iterdir()] == ["v000001"]
    assert read_meta(version_folder(tmp_path, 1)).digest == digest_of(version_folder(tmp_path, 1))


def test_the_newest_and_the_protected_are_kept(tmp_path):
    for version in range(1, 7):
        write(tmp_path, version)
    assert prune(tmp_path, keep=2, protect={2}) == [1, 3, 4]
    assert versions(tmp_path) == [2, 5, 6]


def test_a_folder_without_tensors_or_meta_is_an_error(tmp_path):
    with pytest.raises(WeightsError, match=r"no \*\.safetensors"):
        digest_of(tmp_path)
    with pytest.raises(WeightsError, match="not a version"):
        read_meta(tmp_path)
