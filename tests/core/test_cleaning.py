"""Secrets are taken out of whatever an agent said, wherever they stand in it."""

from agentctl.core.cleaning import cleaned


def test_every_text_of_a_value_is_cleaned_keys_too() -> None:
    told = {"a": ["x s3cret", {"s3cret": 'with "quotes" s3cret'}], "n": 3, "none": None}
    assert cleaned(told, lambda text: text.replace("s3cret", "*")) == {
        "a": ["x *", {"*": 'with "quotes" *'}],
        "n": 3,
        "none": None,
    }
