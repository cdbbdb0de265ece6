"""Owns how the address of a pull request is recognised in text that comes in pieces.

Pure. GitHub, GitLab, Bitbucket (cloud and server), Gitea and Forgejo, on any host. It refuses to
know who wrote the text and whether such a pull request exists.
"""

import re
from collections.abc import Mapping

# An address that is longer than this is no address of a pull request.
LONGEST = 2048
# Texts that are followed at one time; the oldest is given up for a new one.
FOLLOWED = 64

_URL = re.compile(r"https?://[^\s\x00-\x1f<>\"'`\\|^{}()\[\]]+")
_START = "https://"
MAY_BEGIN = frozenset(_START)
"""A text that ends otherwise, holds no `://` and continues none needs no look."""

_SHAPES = (
    # GitHub
    re.compile(r"/[\w.-]+/[\w.-]+/pull/\d+"),
    # Gitea, Forgejo
    re.compile(r"/[\w.-]+/[\w.-]+/pulls/\d+"),
    # GitLab; groups may nest, and old versions had no dash
    re.compile(r"(?:/[\w.-]+){2,}?(?:/-)?/merge_requests/\d+"),
    # Bitbucket cloud and server
    re.compile(r"/[\w.-]+/[\w.-]+/pull-requests/\d+"),
    re.compile(r"(?:/[\w.-]+)*/(?:projects|users)/[\w.~-]+/repos/[\w.-]+/pull-requests/\d+"),
)
# Paths of programming interfaces look like Gitea's pages.
_NOT = re.compile(r"/(?:repos|api)/")


class PullRequests:
    """Finds addresses in the texts of one conversation, each address once."""

    def __init__(self) -> None:
        self._held: dict[str, str] = {}
        self.held: Mapping[str, str] = self._held
        """Ends of texts that may go on, by text."""
        self._told: set[str] = set()

    def feed(self, source: str, text: str) -> list[str]:
        """The next piece of the text `source`: what it completes. An end that may go on is held."""
        held = self._held
        if held and source in held:
            text = held.pop(source) + text
        if "://" not in text:
            if text and text[-1] in MAY_BEGIN and (end := _beginning(text)):
                self._hold(source, end)
            return []
        found: list[str] = []
        last = 0
        for match in _URL.finditer(text):
            last = match.end()
            if last == len(text):
                if last - match.start() <= LONGEST:
                    self._hold(source, match[0])
                return self._new(found)
            found.append(match[0])
        if text[-1] in MAY_BEGIN and (end := _beginning(text[last:])):
            self._hold(source, end)
        return self._new(found)

    def drop(self, source: str) -> None:
        """What was held of that text is told again by its next piece."""
        self._held.pop(source, None)

    def flush(self, source: str | None = None) -> list[str]:
        """That text is at its end; None: all are."""
        if not self._held:
            return []
        if source is None:
            ends = list(self._held.values())
            self._held.clear()
        else:
            ends = [self._held.pop(source, "")]
        return self._new(ends)

    def _hold(self, source: str, end: str) -> None:
        if len(self._held) >= FOLLOWED:
            del self._held[next(iter(self._held))]
        self._held[source] = end

    def _new(self, urls: list[str]) -> list[str]:
        found: list[str] = []
        for url in urls:
            address = pull_request(url)
            if address and address not in self._told:
                self._told.add(address)
                found.append(address)
        return found


def pull_request(url: str) -> str:
    """The address of the pull request that `url` leads to or into; "" when it does not."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2].lower()
    path = slash + path
    if "." not in host and not host.startswith("localhost"):
        return ""
    if _NOT.match(path):
        return ""
    for shape in _SHAPES:
        match = shape.match(path)
        if match and not path[match.end() : match.end() + 1].isalnum():
            return f"{scheme}://{host}{match[0]}"
    return ""


def _beginning(text: str) -> str:
    """The end of `text` that may be the first letters of an address."""
    for length in range(min(len(_START), len(text)), 0, -1):
        end = text[-length:]
        if _START.startswith(end) or "http://".startswith(end):
            return end
    return ""
