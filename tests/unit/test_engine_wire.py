from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from clawrl.engine.wire import as_generation, as_scores, error_from, events, sampling_params
from clawrl.errors import EngineError, RequestError
from clawrl.records.nouns import Sampling


def test_a_generation_takes_ids_and_log_probabilities_as_they_came():
    tokens = [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1.5}]
    choice = {"token_ids": [4, 5], "logprobs": {"content": tokens}, "text": "ab"}
    generation = as_generation({"choices": [{**choice, "finish_reason": "stop"}]})
    assert (generation.ids, generation.logp, generation.text) == ([4, 5], [-0.5, -1.5], "ab")


def test_a_missing_log_probability_is_an_error_not_a_zero():
    answer = {"choices": [{"token_ids": [4, 5], "logprobs": {"content": [{"logprob": -1.0}]}}]}
    with pytest.raises(EngineError, match="2 ids and 1 log-prob"):
        as_generation(answer)


def test_scores_begin_behind_the_prompt():
    positions = [None, {"2": {"logprob": -9.0}}, {"7": {"logprob": -0.25}}]
    assert as_scores({"prompt_logprobs": positions}, [7], start=2) == [-0.25]


def test_a_score_of_another_id_is_an_error():
    positions = [None, {"8": {"logprob": -0.25}}]
    with pytest.raises(EngineError, match="for id 7"):
        as_scores({"prompt_logprobs": positions}, [7], start=1)


def test_too_few_scores_are_an_error():
    with pytest.raises(EngineError, match="score 2 ids, got 0"):
        as_scores({"prompt_logprobs": None}, [7, 8], start=1)


def test_sampling_keeps_the_full_support_unless_asked_otherwise():
    assert sampling_params(Sampling(max_tokens=5, seed=3)) == {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "logprobs": 0,
        "max_tokens": 5,
        "seed": 3,
    }


def test_a_refusal_keeps_the_servers_words():
    error = error_from("/x", 400, b'{"error": {"message": "too long: 513 of 512"}}')
    assert isinstance(error, RequestError)
    assert (error.status, str(error)) == (400, "too long: 513 of 512")


def test_a_failure_is_no_request_error():
    error = error_from("/x", 500, b"Internal Server Error")
    assert not isinstance(error, RequestError)
    assert "500" in str(error)


def stream_of(*lines: str) -> httpx.Response:
    return httpx.Response(200, content="".join(f"{line}\n\n" for line in lines).encode())


async def test_a_stream_gives_its_chunks_until_done():
    response = stream_of('data: {"n": 1}', ": keep-alive", 'data: {"n": 2}', "data: [DONE]")
    assert [chunk async for chunk in events(response)] == [{"n": 1}, {"n": 2}]


async def test_line_ends_of_other_alphabets_inside_a_text_end_no_chunk():
    text = "a\u2028b\u0085c\u2029d"
    sent = json.dumps({"text": text}, ensure_ascii=False)
    response = stream_of(f"data: {sent}\r", "data: [DONE]")
    assert [chunk async for chunk in events(response)] == [{"text": text}]


async def test_a_line_in_pieces_is_one_chunk():
    async def pieces() -> AsyncIterator[bytes]:
        for byte in 'data: {"n": "é"}\n\ndata: [DONE]'.encode():
            yield bytes([byte])

    response = httpx.Response(200, content=pieces())
    assert [chunk async for chunk in events(response)] == [{"n": "é"}]


async def test_what_is_no_json_is_an_engine_error():
    with pytest.raises(EngineError, match="no JSON"):
        _ = [chunk async for chunk in events(stream_of('data: {"n": '))]


async def test_a_stream_without_its_end_is_an_error():
    with pytest.raises(EngineError, match="ended before its end"):
        _ = [chunk async for chunk in events(stream_of('data: {"n": 1}'))]


async def test_an_error_inside_a_stream_is_raised():
    said = json.dumps({"error": {"message": "engine died", "code": 500}})
    with pytest.raises(EngineError, match="engine died"):
        _ = [chunk async for chunk in events(stream_of(f"data: {said}"))]
