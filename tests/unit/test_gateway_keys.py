"""A key says who asks."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from starlette.datastructures import Headers

from clawrl.config import schema
from clawrl.gateway.access import AccessCheck
from clawrl.gateway.errors import ApiError


def bearer(key: str) -> Headers:
    return Headers({"authorization": f"Bearer {key}"})


def test_each_key_names_its_user_and_the_plain_key_names_nobody() -> None:
    access = AccessCheck(schema.Gateway(api_key="k0", keys={"ann": "k1", "bob": "k2"}))
    assert [access.check_key(bearer(key)) for key in ("k0", "k1", "k2")] == [None, "ann", "bob"]


@pytest.mark.parametrize("key", ["", "k", "k11", "ann"])
def test_a_key_of_nobody_is_refused(key: str) -> None:
    with pytest.raises(ApiError, match="API key"):
        AccessCheck(schema.Gateway(keys={"ann": "k1"})).check_key(bearer(key))


@pytest.mark.parametrize("keys", [{"ann": "k", "bob": "k"}, {"ann": " "}, {"": "k"}, {"ann": "k0"}])
def test_keys_that_tell_nobody_apart_are_config_errors(keys: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="keys:"):
        schema.Gateway(api_key="k0", keys=keys)
