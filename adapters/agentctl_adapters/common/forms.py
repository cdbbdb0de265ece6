"""Owns how answers become the content of a form with a JSON schema. Pure; knows no protocol."""

from collections.abc import Sequence
from typing import Any

from agentctl.core.errors import Invalid
from agentctl.core.parts import Answer
from agentctl_adapters.common.shapes import Json, as_object


def form_content(schema: Json, answers: Sequence[Answer]) -> Json:
    """The content of an accepted form: the answers in the order of the schema's properties.

    Raises:
        Invalid: more answers than questions, or a value that is not of the property's type.
    """
    properties = as_object(schema.get("properties"))
    if len(answers) > len(properties):
        raise Invalid(f"{len(answers)} answers were given to {len(properties)} questions")
    content: Json = {}
    for (name, rules), answer in zip(properties.items(), answers, strict=False):
        if answer.values:
            content[name] = _typed(name, as_object(rules).get("type"), answer.values)
    return content


def _typed(name: str, kind: object, values: Sequence[str]) -> Any:
    if kind == "array":
        return list(values)
    if len(values) > 1:
        raise Invalid(f"the question {name} takes one value, {len(values)} were given")
    value = values[0]
    try:
        match kind:
            case "integer":
                return int(value)
            case "number":
                return float(value)
            case "boolean":
                return {"true": True, "yes": True, "false": False, "no": False}[value.lower()]
            case _:
                return value
    except (ValueError, KeyError) as error:
        raise Invalid(f"the answer to {name} must be of type {kind}, not {value!r}") from error
