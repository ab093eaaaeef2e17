import json

import pytest
from starlette.exceptions import HTTPException

from clawrl.errors import EngineError, RequestError
from clawrl.eval.scoring.no_reply import is_no_reply
from clawrl.gateway.errors import ApiError, from_engine

CONTEXT = (
    "This model's maximum context length is 2048 tokens. However, you requested 2304 tokens "
    "(2048 in the messages, 256 in the completion)."
)
ENGINE_ERRORS = [
    EngineError("the engine took more than 600 s"),
    EngineError("the engine gave no answer to /v1/chat/completions: ConnectError"),
    EngineError("the run is ending: no more turns are taken"),
    EngineError("the reply ended without a finish reason"),
    RequestError(400, CONTEXT),
]


@pytest.mark.parametrize(
    "text", [None, "", "  \n\t", "...", "<think>So 3 + 4", "<think>a</think> "]
)
def test_nothing_is_no_reply(text):
    assert is_no_reply(text, "stop")


@pytest.mark.parametrize("error", ENGINE_ERRORS, ids=str)
def test_what_the_gateway_answers_when_the_engine_fails_is_no_reply(error):
    problem = from_engine(error)
    assert is_no_reply(str(problem), "stop")
    assert is_no_reply(json.dumps(problem.payload()), "stop")
    assert is_no_reply(f"data: {json.dumps(problem.payload())}", "stop")
    assert is_no_reply(f"Error code: {problem.status} - {problem.payload()}", "stop")
    assert is_no_reply(str(error), None)


@pytest.mark.parametrize(
    "message",
    [
        "the gateway failed",
        "the body is not valid JSON: Expecting value",
        "the body is larger than 33554432 bytes (gateway.max_body_mib)",
        "wrong or missing API key: send `Authorization: Bearer KEY`",
        "requests from http://evil.example are refused",
        "Host 'evil.example' is not this gateway's; use its address, or set gateway.host",
        "content type 'text/plain' is refused: send application/json",
        "GET /v1/nothing: not served here",
    ],
)
def test_the_gateways_own_refusals_are_no_reply(message):
    problem = ApiError(400, message)
    assert is_no_reply(str(problem), "stop")
    assert is_no_reply(json.dumps(problem.payload()), "stop")


@pytest.mark.parametrize(
    "text",
    [
        CONTEXT,
        "The decoder prompt (length 4100) is longer than the maximum model length of 2048.",
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "The model `gpt-4` does not exist.",
        '{"object":"error","message":"bad","type":"BadRequestError","param":null,"code":400}',
        '{"error":{"message":"","type":"InternalServerError","param":null,"code":500}}',
        '{"error": {"message": "cut in the mid',
        '{"detail":"Not Found"}',
        '{"error":"Invalid API Key"}',
        "{'error': {'message': 'no'}}",
        'Tom has 3 app\n\ndata: {"error": {"message": "the engine failed: gone"}}',
        "Internal Server Error",
        "502 Bad Gateway",
        "HTTP/1.1 503 Service Unavailable",
        "<html>\n<head><title>504 Gateway Time-out</title></head>",
        "upstream connect error or disconnect/reset before headers",
        "Connection error.",
        "Request timed out.",
        "\N{WARNING SIGN} LLM request failed: provider rejected it",
        "Traceback (most recent call last):\n  File",
    ],
)
def test_error_texts_of_servers_and_proxies_are_no_reply(text):
    assert is_no_reply(text, "stop")


@pytest.mark.parametrize("finish_reason", ["error", "abort"])
def test_a_reply_that_the_engine_gave_up_is_none(finish_reason):
    assert is_no_reply("Tom has 7 apples in the", finish_reason)


@pytest.mark.parametrize(
    "text",
    [
        "7",
        "Tom has 7 apples.",
        "There is an error in line 2: 3 + 4 = 8 should be 3 + 4 = 7.",
        "The error is 5 cm, so the pole is 205 cm long.",
        "The gateway failed to open 3 times, so 5 - 3 = 2 visitors came in.",
        "The engine uses 7 litres, and the engine failed twice on 14 litres.",
        '{"answer": 7, "error": null}',
        "[1, 2, 3]",
        "```json\n{}\n```",
        "<think>3 + 4</think>7",
        "Server costs are 500 and the gateway costs 20.",
    ],
)
@pytest.mark.parametrize("finish_reason", ["stop", "length"])
def test_a_reply_that_speaks_of_errors_is_a_reply(text, finish_reason):
    assert not is_no_reply(text, finish_reason)


def test_an_unknown_route_is_no_reply():
    error = HTTPException(404)
    assert is_no_reply(json.dumps({"detail": error.detail}), "stop")
