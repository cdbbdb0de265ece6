"""Pull requests are found in what an agent says and prints, however it comes in pieces."""

import time

import pytest

from agentctl.workspace.pullrequests import PullRequests, pull_request

REAL = [
    "https://github.com/o/r/pull/12",
    "https://github.example.com/some-org/re.po_1/pull/7",
    "https://gitlab.com/group/sub/repo/-/merge_requests/3",
    "https://gitlab.example.com/group/repo/merge_requests/4",
    "https://bitbucket.org/team/repo/pull-requests/5",
    "https://bitbucket.example.com/projects/KEY/repos/repo/pull-requests/6",
    "https://bitbucket.example.com/context/users/~me/repos/repo/pull-requests/6",
    "https://codeberg.org/o/r/pulls/8",
    "http://localhost:3000/o/r/pulls/9",
]
OTHERS = [
    "https://github.com/o/r/pull/new/branch",
    "https://github.com/o/r/pulls",
    "https://github.com/o/r/issues/12",
    "https://github.com/o/r/pull/12abc",
    "https://api.github.com/repos/o/r/pulls/12",
    "https://gitea.example.com/api/v1/repos/o/r/pulls/1",
    "https://gitlab.com/g/r/-/merge_requests/new?merge_request%5Bsource_branch%5D=x",
    "https://bitbucket.org/t/r/pull-requests/new?source=x",
    "https://x/o/r/pull/1",
]


def all_of(*pieces: str) -> list[str]:
    found = PullRequests()
    urls = [url for piece in pieces for url in found.feed("m1", piece)]
    return urls + found.flush()


@pytest.mark.parametrize("url", REAL)
def test_the_usual_forges_are_known(url: str) -> None:
    assert all_of(f"Opened {url}.") == [url]
    assert all_of(f"[the pull request]({url}/files#diff-1)") == [url]
    assert all_of(f"remote:   {url}?expand=1\r\n") == [url]


@pytest.mark.parametrize("url", OTHERS)
def test_other_addresses_are_not_taken_for_pull_requests(url: str) -> None:
    assert all_of(f"see {url} ") == []


@pytest.mark.proves("W5")
@pytest.mark.parametrize("url", REAL)
def test_an_address_is_found_wherever_the_text_is_cut(url: str) -> None:
    text = f"It is <{url}> now, see also https and {url}"
    assert all_of(*text) == [url]
    for cut in range(len(text)):
        assert all_of(text[:cut], text[cut:]) == [url], cut


def test_a_number_that_goes_on_in_the_next_piece_is_one_number() -> None:
    assert all_of("https://github.com/o/r/pull/1", "2", " and more") == [
        "https://github.com/o/r/pull/12"
    ]


def test_two_texts_that_come_at_once_do_not_mix() -> None:
    found = PullRequests()
    assert found.feed("m1", "https://github.com/o/r/pu") == []
    assert found.feed("tool", "https://github.com/o/r/pull/2\n") == [
        "https://github.com/o/r/pull/2"
    ]
    assert found.feed("m1", "ll/1") == []
    assert found.flush("tool") == []
    assert found.flush("m1") == ["https://github.com/o/r/pull/1"]


def test_an_address_is_told_once_and_without_a_password() -> None:
    assert all_of("https://github.com/o/r/pull/1 https://github.com/o/r/pull/1/commits ") == [
        "https://github.com/o/r/pull/1"
    ]
    assert pull_request("https://user:token@github.com/o/r/pull/1") == (
        "https://github.com/o/r/pull/1"
    )


def test_a_flood_of_text_without_addresses_costs_little() -> None:
    found = PullRequests()
    pieces = ["some words of an answer, and a path such as /usr/bin "] * 100_000
    begun = time.process_time()
    for piece in pieces:
        found.feed("m1", piece)
    ours = time.process_time() - begun
    begun = time.process_time()
    for piece in pieces:
        piece.encode()
    assert ours < 40 * (time.process_time() - begun)


def test_what_never_ends_is_not_kept() -> None:
    found = PullRequests()
    for number in range(1000):
        assert found.feed(f"m{number}", "https://github.com/" + "a" * 1000) == []
    assert len(found._held) <= 64
    assert found.feed("m999", "a" * 5000) == []
    assert "m999" not in found._held
