"""How well a few typed letters fit a title: for the command palette and other pickers. No Qt in here."""

from __future__ import annotations

_START_OF_WORD = 12
_CONSECUTIVE = 8
_SKIPPED = 1
_PREFIX = 20


def fuzzy_match(query: str, text: str) -> tuple[int, tuple[int, ...]] | None:
    """The score (more is better) and the positions in `text` that the letters of `query` fell on; None: no fit.

    Letters must occur in order, whatever their case; spaces in the query separate words that may stand in any
    order. An empty query fits everything with score 0.
    """
    total = 0
    positions: set[int] = set()
    lowered = text.lower()
    if len(lowered) != len(text):  # a character whose lower case is longer: positions would not fit
        lowered = text
    for word in query.lower().split():
        found = _match_word(word, lowered)
        if found is None:
            return None
        total += found[0]
        positions.update(found[1])
    return total - len(text) // 8, tuple(sorted(positions))


def score_of_start(word: str) -> int:
    """The score of a text that begins with a word."""
    return _PREFIX + _CONSECUTIVE * len(word)


def _match_word(word: str, text: str) -> tuple[int, list[int]] | None:
    """The best of: the word as it stands (at the start of a word if it can), else its letters from each start."""
    at = _substring(word, text)
    if at is not None:
        start = _PREFIX if at == 0 else _START_OF_WORD if _starts_word(text, at) else 0
        return start + _CONSECUTIVE * len(word), list(range(at, at + len(word)))
    best: tuple[int, list[int]] | None = None
    for start, character in enumerate(text):
        if character == word[0]:
            found = _scatter(word, text, start)
            if found is not None and (best is None or found[0] > best[0]):
                best = found
    return best


def _substring(word: str, text: str) -> int | None:
    first = at = text.find(word)
    while at >= 0:
        if _starts_word(text, at):
            return at
        at = text.find(word, at + 1)
    return first if first >= 0 else None


def _scatter(word: str, text: str, start: int) -> tuple[int, list[int]] | None:
    score = 0
    positions: list[int] = []
    at = start - 1
    for character in word:
        following = text.find(character, at + 1)
        if following < 0:
            return None
        at_word = _word_start_of(character, text, at + 1)
        if following != at + 1 and at_word is not None:
            following = at_word
        if _starts_word(text, following):
            score += _START_OF_WORD
        if positions and following == positions[-1] + 1:
            score += _CONSECUTIVE
        elif positions:
            score -= _SKIPPED * min(following - positions[-1], 10)
        positions.append(following)
        at = following
    return score, positions


def _word_start_of(character: str, text: str, start: int) -> int | None:
    at = text.find(character, start)
    while at >= 0:
        if _starts_word(text, at):
            return at
        at = text.find(character, at + 1)
    return None


def _starts_word(text: str, at: int) -> bool:
    return at == 0 or not text[at - 1].isalnum()
