"""Fuzzy matching of typed words for the command palette and other pickers. No Qt."""

from __future__ import annotations

from typing import NamedTuple


class _Worth(NamedTuple):
    """Scores of a word in a text: as a whole word, as the beginning of one, or inside one."""

    whole: int
    beginning: int
    inside: int


_IN_TITLE = _Worth(130, 120, 50)
_IN_NAMES = _Worth(88, 75, 20)
_IN_MORE = _Worth(40, 40, 10)
_FIRST = 10  # at the beginning of the title
_EXACT = 1000  # for being the title, which nothing else may come before
_COVERED = 40  # for the share of the title's words that were typed
_CALLED = 35  # for several adjacent words among the other names
_ABBREVIATED = 60  # for initials of the title's words, ztf of Zoom to Fit
_SCATTERED = 5  # for a subsequence of the title, less one for each isolated letter


def rate(query: str, title: str, names: str = "", more: str = "") -> tuple[float, tuple[int, ...]] | None:
    """Return the score (more is better) and the matched positions in `title`; None without a match.

    Each word of the query must match, case-insensitively and in any order: in the title; in `names`, synonyms, which
    are nearly as good; in `more`, the description; or as a subsequence of the title. An empty query matches everything
    with score 0.
    """
    words = query.lower().replace("...", " ").replace("…", " ").split()
    if not words:
        return 0, ()
    total = covered = 0
    positions: set[int] = set()
    for word in words:
        score, found = _rate_in_title(word, title)
        elsewhere = max(_rate_in(word, names, _IN_NAMES)[0], _rate_in(word, more, _IN_MORE)[0])
        if not score and not elsewhere:
            return None
        if score >= elsewhere:
            positions.update(found)
        covered += score > _ABBREVIATED
        total += max(score, elsewhere)
    plain, typed = title.lower().rstrip("…"), " ".join(words)
    bonus = _COVERED * min(covered / max(len(plain.split()), 1), 1) + _EXACT * (plain == typed)
    if len(words) > 1 and f" {typed} " in f" {names.lower()} ":
        bonus += _CALLED
    return total / len(words) + bonus, tuple(sorted(positions))


def _rate_in_title(word: str, title: str) -> tuple[int, range | list[int]]:
    score, at = _rate_in(word, title, _IN_TITLE)
    if score:
        return score + (0 if at else _FIRST), range(at, at + len(word))
    return _rate_letters(word, title)


def _rate_in(word: str, text: str, worth: _Worth) -> tuple[int, int]:
    """Return the best score of a word as a substring of a text, and its position; 0 without a match."""
    lowered = _lower(text)
    best, index = 0, 0
    at = lowered.find(word)
    while at >= 0 and best < worth.whole:
        end = at + len(word)
        begins = _begins_word(text, at)
        rest = end + (lowered[end : end + 1] == "s")  # mac names macs better than macro
        ends = any(stop == len(text) or not text[stop].isalnum() or _begins_word(text, stop) for stop in (end, rest))
        score = worth.whole if begins and ends else worth.beginning if begins else worth.inside
        if score > best:
            best, index = score, at
        at = lowered.find(word, at + 1)
    return best, index


def _rate_letters(word: str, title: str) -> tuple[int, list[int]]:
    """Return the best score of a subsequence match in a title, and the positions; 0 without a match."""
    lowered = _lower(title)
    best: tuple[int, list[int]] = (0, [])
    start = lowered.find(word[0])
    while start >= 0:
        positions = _letters_from(word, title, lowered, start)
        if positions is None:  # a later start leaves fewer letters
            break
        alone = sum(not _begins_word(title, at) and at - 1 not in positions for at in positions)
        score = max(_SCATTERED - alone, 1) if alone else _ABBREVIATED
        if score > best[0]:
            best = score, positions
        start = lowered.find(word[0], start + 1)
    return best


def _letters_from(word: str, title: str, lowered: str, start: int) -> list[int] | None:
    """Match letters from a position on: next to the previous one, at the beginning of a word, or anywhere."""
    positions = [start]
    for character in word[1:]:
        at = lowered.find(character, positions[-1] + 1)
        if at < 0:
            return None
        if at != positions[-1] + 1:
            following = at
            while following >= 0 and not _begins_word(title, following):
                following = lowered.find(character, following + 1)
            at = following if following >= 0 else at
        positions.append(at)
    return positions


def _lower(text: str) -> str:
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text  # lower-casing changed the length: positions would not fit


def _begins_word(text: str, at: int) -> bool:
    """Words are separated by non-letters, and by capitals as in BatchNormalization and QLinearConv."""
    if at == 0 or not text[at - 1].isalnum():
        return True
    return text[at].isupper() and (text[at - 1].islower() or text[at + 1 : at + 2].islower())
