"""What each field of an entry does at a start."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.errors import Invalid, Refused
from agentctl.core.spec import Entry
from agentctl.core.words import Policy
from agentctl_registry.catalog import Catalog
from agentctl_registry.launch import LaunchPlan, build_launch, caller_values, fill, split_model
from agentctl_registry.models import to_entry

BASE = {"PATH": "/usr/bin:/bin", "HOME": "/home/u", "LANG": "C.UTF-8", "FOREIGN_KEY": "no"}


def entry(**fields: Any) -> Entry:
    return to_entry({"id": "x", "cmd": ["sh"], **fields}, "user")


def launch(given: Entry, **asked: Any) -> LaunchPlan:
    base = asked.pop("base", BASE)
    return build_launch(given, workspace="/w s", home="/home/u", base=base, **asked)


def auto(method: str, supported: bool = True, default: bool = True) -> dict[str, Any]:
    setting = {
        "supported": supported,
        "default": default,
        "apply_method": method,
        "cli_flag": "--yolo --tools 'a b'",
    }
    return {"permission_settings": {"auto_approve": setting}}


MUST_ASK = {
    "permission_flag": "--permission {tool}:ask",
    "tools_requiring_permission": ["edit", "bash"],
}

ARGV: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({}, {}, []),
    ({"cmd": ["sh", "{workspace}", "{home}/.x", "--a={model}"]}, {}, ["/w s", "/home/u/.x", "--a="]),
    ({"cmd": ["sh", "{model}"]}, {}, []),
    ({"cmd": ["sh", "-c", "$HOME; {other}"]}, {}, ["-c", "$HOME; {other}"]),
    ({"model_flag": "--model {model}"}, {"model": "m 1"}, ["--model", "m 1"]),
    ({"model_flag": "--model {model}"}, {}, []),
    ({"model_flag": ""}, {"model": "m"}, []),
    ({"model_flag": "--model={model}"}, {"model": "m"}, ["--model=m"]),
    ({"model_flag": "-m"}, {"model": "m"}, ["-m", "m"]),
    ({"model_flag": "--say '{model} now'"}, {"model": "m"}, ["--say", "m now"]),
    ({"model_flag": "-m {model}"}, {"model": "{home}"}, ["-m", "{home}"]),
    ({"model_flag": "-m {model}", "model_config": {"default_model": "d"}}, {}, ["-m", "d"]),
    (
        {"model_flag": "-m {model}", "model_config": {"default_model": "d"}},
        {"model": "m"},
        ["-m", "m"],
    ),
    ({"workspace_flag": "--cwd {workspace}"}, {}, ["--cwd", "/w s"]),
    ({"session_config": {"resume_flag": "--resume {session}"}}, {"resume": "n1"}, ["--resume", "n1"]),
    ({"session_config": {"resume_flag": "--resume"}}, {"resume": "n1"}, ["--resume", "n1"]),
    ({"session_config": {"resume_flag": "--resume {session}"}}, {}, []),
    (auto("cli_flag"), {}, []),
    (auto("cli_flag"), {"policy": Policy.DENY}, []),
    (auto("cli_flag"), {"policy": Policy.ALLOW}, ["--yolo", "--tools", "a b"]),
    (auto("cli_flag"), {"policy": Policy.ALLOW, "rules_in_force": True}, []),
    (auto("cli_flag", supported=False), {"policy": Policy.ALLOW}, []),
    (auto("env"), {"policy": Policy.ALLOW}, []),
    (auto("acp"), {"policy": Policy.ALLOW}, []),
    (
        {"permission_config": MUST_ASK},
        {"policy": Policy.ASK},
        ["--permission", "edit:ask", "--permission", "bash:ask"],
    ),
    ({"permission_config": MUST_ASK}, {"policy": Policy.ALLOW}, []),
    ({"permission_config": {"permission_flag": "--safe"}}, {"policy": Policy.DENY}, ["--safe"]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "asked", "arguments"), ARGV)
def test_a_field_becomes_these_arguments(
    fields: dict[str, Any], asked: dict[str, Any], arguments: list[str]
) -> None:
    argv = launch(entry(**fields), **asked).argv
    assert argv[0] in ("/usr/bin/sh", "/bin/sh")
    assert list(argv[1:]) == arguments


@pytest.mark.proves("KG8")
def test_the_model_asked_for_reaches_the_argv_of_gemini(program: Callable[..., Path]) -> None:
    path = program("gemini")
    plan = launch(
        Catalog.load().get("gemini"), model="gemini-2.5-pro", base={"PATH": str(path.parent)}
    )
    assert plan.argv == (str(path), "--experimental-acp", "--model", "gemini-2.5-pro")
    assert plan.env["GEMINI_CLI_NO_RELAUNCH"] == "1"
    assert plan.model == "gemini-2.5-pro"


def test_without_a_model_gemini_keeps_its_own(program: Callable[..., Path]) -> None:
    path = program("gemini")
    plan = launch(Catalog.load().get("gemini"), base={"PATH": str(path.parent)})
    assert plan.argv == (str(path), "--experimental-acp")
    assert plan.model == ""


@pytest.mark.parametrize(
    ("policy", "flags"), [(Policy.ASK, ()), (Policy.DENY, ()), (Policy.ALLOW, ("--yolo",))]
)
def test_yolo_is_given_to_gemini_only_where_the_request_allows_all(
    program: Callable[..., Path], policy: Policy, flags: tuple[str, ...]
) -> None:
    base = {"PATH": str(program("gemini").parent)}
    assert launch(Catalog.load().get("gemini"), base=base, policy=policy).argv[2:] == flags


def test_the_demo_agent_of_our_own_installation_is_found_off_path() -> None:
    plan = launch(Catalog.load().get("demo"), base={"PATH": "/nowhere"})
    assert Path(plan.argv[0]).name == "agentctl-demo"


@pytest.mark.parametrize(
    ("directory", "shown"),
    [("{workspace}", "/w s"), ("", "/w s"), ("sub", "/w s/sub"), ("{home}/x", "/home/u/x")],
)
def test_the_working_directory_is_filled(directory: str, shown: str) -> None:
    assert launch(entry(working_dir=directory)).cwd == shown


def test_a_relative_workspace_is_refused() -> None:
    with pytest.raises(Invalid, match="not absolute"):
        build_launch(entry(), workspace="w", home="/home/u", base=BASE)


def test_only_what_is_allowed_and_named_passes() -> None:
    given = entry(
        env={"OWN": "1", "REF": "env:SECRET"},
        env_passthrough=["MY_KEY", "MY_SET_*"],
        strip_env=["LANG"],
    )
    base = {**BASE, "SECRET": "s3cret", "MY_KEY": "key", "MY_SET_A": "a", "npm_x": "1"}
    plan = launch(given, base=base, caller_env={"OWN": "2"}, overlay_env={"H": "/o"})
    assert plan.env == {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/u",
        "MY_KEY": "key",
        "MY_SET_A": "a",
        "OWN": "2",
        "REF": "s3cret",
        "H": "/o",
    }
    assert set(plan.secrets) == {"key", "s3cret"}


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("from-a-file\n")
    plan = launch(entry(), caller_env={"ANY": f"file:{path}"})
    assert (plan.env["ANY"], plan.secrets) == ("from-a-file", ("from-a-file",))


def test_a_reference_to_nothing_is_told_and_not_started() -> None:
    with pytest.raises(Invalid) as caught:
        launch(entry(env={"K": "env:NOT_THERE"}))
    assert caught.value.message.startswith("x: K in env: env:NOT_THERE: the environment variable")


@pytest.mark.parametrize("given", [{}, {"NEEDED": ""}])
def test_a_missing_required_variable_is_named(given: dict[str, str]) -> None:
    with pytest.raises(Invalid) as caught:
        launch(entry(required_env=["NEEDED"]), base={**BASE, **given})
    assert caught.value.message.startswith("x needs NEEDED: set it in")
    assert caught.value.metadata["missing"] == "NEEDED"


def test_a_required_variable_counts_wherever_it_comes_from() -> None:
    needs = {"required_env": ["NEEDED"]}
    assert launch(entry(**needs), base={**BASE, "NEEDED": "1"}).env["NEEDED"] == "1"
    assert launch(entry(**needs), caller_env={"NEEDED": "2"}).env["NEEDED"] == "2"
    assert launch(entry(**needs, env={"NEEDED": "3"})).env["NEEDED"] == "3"


@pytest.mark.parametrize(
    ("command", "where"), [("no-such-x", "is not on PATH"), ("/no/x", "is no executable file")]
)
def test_a_missing_program_is_told_with_how_to_install_it(command: str, where: str) -> None:
    with pytest.raises(Refused) as caught:
        launch(entry(cmd=[command], install="npm install -g x"))
    assert caught.value.reason == "AGENT_NOT_INSTALLED"
    assert caught.value.message == (
        f"x is not installed: {command} {where}. Install it with: npm install -g x "
        "(agentctl doctor)"
    )


def test_an_entry_of_a_running_server_cannot_be_started() -> None:
    with pytest.raises(Invalid, match="reached by its url"):
        launch(to_entry({"id": "x", "url": "http://127.0.0.1:1"}, "user"))


def test_provider_and_model_split_at_the_first_slash() -> None:
    assert split_model("a/b/c") == ("a", "b/c")
    assert split_model("plain") == ("", "plain")


def test_what_a_value_holds_is_not_filled_again() -> None:
    assert fill("{model}{home}", {"model": "{home}", "home": "h"}) == "{home}h"


FIELDS: list[tuple[dict[str, Any], str, Any]] = [
    ({}, "protocol", "acp"),
    ({"protocol": ""}, "protocol", "acp"),
    ({}, "sharing", "exclusive"),
    ({"protocol": "opencode"}, "sharing", "shared"),
    ({"protocol": "codex"}, "sharing", "shared"),
    ({"protocol": "codex", "sharing": "exclusive"}, "sharing", "exclusive"),
    ({}, "home", "user"),
    ({"home": "private"}, "home", "private"),
    ({"protocol_config": {"home": "overlay"}}, "home", "overlay"),
    ({"home": "user", "protocol_config": {"home": "overlay"}}, "home", "user"),
    ({}, "enabled", True),
    ({}, "trust_workspace", True),
    ({"trust_workspace": False}, "trust_workspace", False),
    ({"resource_limits": {"memory_mb": 9}}, "memory_mb", 9),
    ({"resource_limits": {"memory_mb": 9}}, "enforce_limits", False),
    ({"resource_limits": {"enforce_limits": True}}, "enforce_limits", True),
    ({"resource_limits": {"memory_mb": 0}}, "memory_mb", None),
    ({"session_config": {"can_recover": False}}, "can_recover", False),
    ({"session_config": {"resume_via_acp": False}}, "resume_via_acp", False),
    ({"permission_config": MUST_ASK}, "tools_requiring_permission", ("edit", "bash")),
    ({"url": "http://h", "auth": {"password": "env:P"}}, "auth", {"password": "env:P"}),
]


@pytest.mark.parametrize(("fields", "name", "value"), FIELDS)
def test_a_field_of_the_file_is_this_field_of_the_entry(
    fields: dict[str, Any], name: str, value: Any
) -> None:
    assert getattr(entry(**fields), name) == value


def test_the_callers_values_are_those_that_the_entry_names() -> None:
    env = {"MY_KEY": "k", "SET_A": "a", "OTHER": "o", "XSET_A": "x"}
    assert caller_values(["MY_KEY", "SET_*", "ABSENT"], env) == {"MY_KEY": "k", "SET_A": "a"}


def test_an_opencode_server_that_runs_already_starts_nothing() -> None:
    raw = {"id": "x", "protocol": "opencode", "url": "http://127.0.0.1:1", "cmd": ["not-there"]}
    plan = launch(to_entry(raw, "user"))

    assert plan.argv == ()
