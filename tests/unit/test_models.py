from __future__ import annotations

import pytest

from clawrl import models
from clawrl.errors import ModelError
from clawrl.records.versions import digest_of


def quiet(_line: str) -> None:
    return


def test_a_local_folder_is_taken_as_it_is(tiny_model):
    assert models.prepare(str(tiny_model), progress=quiet) == tiny_model
    assert models.resolve(str(tiny_model)) == tiny_model


def test_version_0_has_a_digest_by_the_same_rule_as_the_others(tiny_model):
    assert models.base_digest(tiny_model) == digest_of(tiny_model)


def test_a_folder_without_a_model_says_what_it_lacks(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"it has no \*\.safetensors, tokenizer\.json"):
        models.prepare(str(tmp_path), progress=quiet)


def test_a_folder_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(ModelError, match="no such file or directory"):
        models.prepare(str(tmp_path / "gone"), progress=quiet)


def test_a_known_model_that_was_not_prepared_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ModelError, match="run: clawrl model prepare smollm2-135m"):
        models.resolve("smollm2-135m")


def test_a_misspelt_model_gets_the_nearest_name():
    with pytest.raises(ModelError, match="did you mean 'smollm2-135m'"):
        models.prepare("smolm2-135m", progress=quiet)


def test_a_hub_id_without_a_network_says_what_to_do(tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="give a local folder") as caught:
        models.prepare("nobody/nothing", progress=quiet)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_demo_model_is_a_plain_float32_model_after_its_conversion(smol_path):
    from safetensors import safe_open

    with safe_open(smol_path / "model.safetensors", framework="pt") as tensors:
        names = list(tensors.keys())
        kinds = {tensors.get_slice(name).get_dtype() for name in names}
    assert kinds == {"F32"}
    assert (smol_path / "chat_template.jinja").is_file()
