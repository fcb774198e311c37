# Copyright The otelcol-sglang Authors
# SPDX-License-Identifier: Apache-2.0

"""Asks an engine with the real OpenAI client and prints what it saw, as JSON.

usage: openai_client.py BASE_URL API_KEY
"""

import json
import sys

import openai


def chat(client, model, **more):
    return client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Hello there"}], **more
    )


def whole(client, model):
    r = chat(client, model, max_tokens=7, temperature=0.2, extra_body={"ignore_eos": True})
    return {
        "object": r.object, "role": r.choices[0].message.role, "text": r.choices[0].message.content,
        "finish": r.choices[0].finish_reason, "prompt": r.usage.prompt_tokens,
        "completion": r.usage.completion_tokens, "total": r.usage.total_tokens,
    }


def stopped(client, model):
    r = chat(client, model, max_completion_tokens=50, extra_body={"sim_output_len": 5})
    return {"finish": r.choices[0].finish_reason, "completion": r.usage.completion_tokens}


def streamed(client, model):
    chunks = list(chat(
        client, model, max_tokens=6, stream=True, stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    ))
    with_choice = [c for c in chunks if c.choices]
    return {
        "role": with_choice[0].choices[0].delta.role,
        "parts": sum(1 for c in with_choice if c.choices[0].delta.content),
        "text": "".join(c.choices[0].delta.content or "" for c in with_choice),
        "finish": with_choice[-1].choices[0].finish_reason,
        "completion": chunks[-1].usage.completion_tokens,
        "ids": len({c.id for c in chunks}),
    }


def samples(client, model):
    r = chat(client, model, max_tokens=3, n=3)
    return {"indexes": [c.index for c in r.choices]}


def completed(client, model):
    r = client.completions.create(model=model, prompt=["One", "Two"], max_tokens=4, extra_body={"ignore_eos": True})
    parts = list(client.completions.create(model=model, prompt="One", max_tokens=4, stream=True, extra_body={"ignore_eos": True}))
    return {
        "choices": len(r.choices), "completion": r.usage.completion_tokens,
        "parts": len(parts), "finish": parts[-1].choices[0].finish_reason,
    }


def embedded(client, model):
    r = client.embeddings.create(model=model, input=["a", "b"], dimensions=8)
    return {"vectors": len(r.data), "size": len(r.data[0].embedding), "prompt": r.usage.prompt_tokens}


def listed(client, model):
    return {"models": [m.id for m in client.models.list()], "same": client.models.retrieve(model).id == model}


def refused(client, model, base):
    out = {}
    try:
        chat(client, model, max_tokens=10_000_000)
    except openai.BadRequestError as e:
        out["too_long"] = str(e)
    try:
        client.chat.completions.create(model=model, messages=[])
    except openai.BadRequestError as e:
        out["empty"] = str(e)
    try:
        openai.OpenAI(base_url=base, api_key="wrong", max_retries=0).models.list()
    except openai.AuthenticationError as e:
        out["key"] = e.status_code
    return out


def closed(client, model):
    """Hangs up after the first token of very many."""
    stream = chat(client, model, max_tokens=100_000, stream=True, extra_body={"ignore_eos": True})
    first = next(iter(stream))
    stream.close()
    return {"id": first.id}


def main():
    base, key = sys.argv[1], sys.argv[2]
    client = openai.OpenAI(base_url=base, api_key=key, max_retries=0, timeout=60)
    model = client.models.list().data[0].id
    seen = {f.__name__: f(client, model) for f in (whole, stopped, streamed, samples, completed, embedded, listed, closed)}
    seen["refused"] = refused(client, model, base)
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
