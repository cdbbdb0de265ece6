"""Owns the shapes of OpenCode's JSON, the older ones included: where a field stands. Pure.

Servers of several ages and other programs that speak the same routes put the same thing in different
places; everything else in this package sees one form of it.
"""

from collections.abc import Mapping
from typing import Any, cast

import orjson

Json = Mapping[str, Any]

EMPTY: Json = {}


def as_object(value: object) -> Json:
    """The object, or an empty one for anything else."""
    return cast(Json, value) if isinstance(value, dict) else EMPTY


def as_objects(value: object) -> list[Json]:
    """The objects in a list; anything else is left out."""
    if not isinstance(value, list):
        return []
    return [cast(Json, item) for item in cast(list[Any], value) if isinstance(item, dict)]


def as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def as_texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    if not isinstance(value, list):
        return []
    return [item for item in cast(list[Any], value) if isinstance(item, str)]


def number(value: object) -> int | None:
    """A whole number, never a truth value; floats without a fraction count."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def event_of(msg: Json) -> tuple[str, Json, str]:
    """The type, the properties and the directory of an event, wrapped in `payload` or not.

    A `delta` beside the properties is moved into them.
    """
    directory = as_text(msg.get("directory"))
    payload = msg.get("payload")
    event = as_object(payload) if payload is not None else msg
    properties = as_object(event.get("properties"))
    if not properties:
        properties = as_object(event.get("data"))
    if "delta" in event and "delta" not in properties:
        properties = {**properties, "delta": event["delta"]}
    return as_text(event.get("type")), properties, directory


def info_of(properties: Json) -> Json:
    """The message or session of an event, under `info` or in the properties themselves."""
    return as_object(properties.get("info")) or properties


def part_of(properties: Json) -> Json:
    return as_object(properties.get("part")) or properties


def session_of(properties: Json) -> str:
    return as_text(properties.get("sessionID")) or as_text(properties.get("sessionId"))


def status_of(properties: Json) -> Json:
    """A session's status: an object with a type, or only the word."""
    status = properties.get("status")
    return {"type": status} if isinstance(status, str) else as_object(status)


def answer_of(msg: Json) -> Any:
    """The body of a response; some recordings hold the JSON as text."""
    body = msg.get("response")
    if isinstance(body, str) and body[:1] in ("{", "["):
        try:
            return orjson.loads(body)
        except ValueError:
            return body
    return body


def model_name(info: Json) -> str:
    """`provider/model` of a session or message, whatever their ids are called there."""
    model = info.get("model")
    if isinstance(model, str) and model:
        return model
    where = as_object(model) or info
    name = as_text(where.get("modelID")) or (as_text(where.get("id")) if where is not info else "")
    provider = as_text(where.get("providerID"))
    if not name:
        return ""
    return f"{provider}/{name}" if provider else name


def time_of(info: Json, name: str) -> int | None:
    return number(as_object(info.get("time")).get(name))


def words_of(error: object) -> str:
    """The sentence in any of the server's error bodies."""
    if isinstance(error, str):
        return error
    told = as_object(error)
    data = as_object(told.get("data"))
    words = as_text(data.get("message")) or as_text(told.get("message"))
    if not words:
        inner = told.get("error")
        words = words_of(inner) if inner is not None else ""
    return words or as_text(told.get("name")) or as_text(told.get("_tag"))


def path_of(msg: Json) -> tuple[str, list[str], str]:
    """The method, the parts of the path and the directory of a request."""
    path, _, rest = as_text(msg.get("path")).partition("?")
    query = as_object(msg.get("query"))
    directory = as_text(query.get("directory"))
    if not directory and "directory=" in rest:
        from urllib.parse import parse_qs

        directory = parse_qs(rest).get("directory", [""])[0]
    if not directory:
        headers = as_object(msg.get("headers"))
        directory = as_text(headers.get("x-opencode-directory"))
    return as_text(msg.get("method")).upper(), [p for p in path.split("/") if p], directory
