"""Regular expressions in RE2 syntax, matched in linear time.

Patterns come from models, so backtracking engines are unsafe: a pattern is compiled to an NFA that is simulated one
character at a time, with memoized state sets (lazy DFA). Only full matches are needed, so captures and greediness do
not matter. What RE2 refuses (backreferences, lookaround) is refused here too.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import checkpoint

_MOST_REPEATS = 1000  # as in RE2
_MOST_STATES = 50_000
_DEEPEST = 200
_MOST_REMEMBERED = 20_000

_ASCII_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_PERL = {"d": "0-9", "s": "\t\n\f\r ", "w": "0-9A-Za-z_"}
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": "\x00-\x7f", "blank": "\t ", "cntrl": "\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@[-`{-~",
    "space": "\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_ESCAPES = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class _Set:
    """Character set of ranges and Unicode categories, possibly negated."""

    ranges: tuple[tuple[int, int], ...] = ()
    categories: tuple[tuple[str, bool], ...] = ()  # prefix of the category, whether it is negated
    parts: tuple[_Set, ...] = ()
    negated: bool = False
    fold: bool = False

    def has(self, char: str) -> bool:
        """Return whether the set contains a character."""
        chars = {char, char.lower(), char.upper()} if self.fold else (char,)
        return any(self._has(c) for c in chars if len(c) == 1) != self.negated

    def _has(self, char: str) -> bool:
        code = ord(char)
        if any(low <= code <= high for low, high in self.ranges) or any(p.has(char) for p in self.parts):
            return True
        category = unicodedata.category(char) if self.categories else ""
        return any(category.startswith(name) != other for name, other in self.categories)


def _ranges(text: str) -> tuple[tuple[int, int], ...]:
    """Parse ranges as in a character class."""
    found, i = [], 0
    while i < len(text):
        if text[i + 1 : i + 2] == "-" and i + 2 < len(text):
            found.append((ord(text[i]), ord(text[i + 2])))
            i += 3
        else:
            found.append((ord(text[i]), ord(text[i])))
            i += 1
    return tuple(found)


@dataclass(slots=True)
class _State:
    """NFA state: reads a character of `chars` and goes to `next`; without `chars` an epsilon transition, if `holds`
    allows.
    """

    chars: _Set | None = None
    holds: str = ""  # an assertion: ^ $ A z b B
    next: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Flags:
    fold: bool = False  # i
    dot_all: bool = False  # s
    lines: bool = False  # m


#: Builds the states of an expression in front of the given state, and returns the entry state.
_Piece = Callable[[int], int]


class _Compiler:
    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.depth = 0
        self.flags = _Flags()
        self.states: list[_State] = [_State()]  # 0 accepts

    def compile(self) -> int:
        piece = self._alternatives()
        if self.at < len(self.text):
            raise self._error("unexpected )")
        return piece(0)

    def _error(self, what: str) -> KernelError:
        return KernelError(f"pattern {self.text[:200]!r} is no RE2 pattern: {what} at {self.at}; expected RE2 syntax")

    def _state(self, state: _State) -> int:
        if len(self.states) >= _MOST_STATES:
            msg = f"pattern {self.text[:200]!r} needs more states than {_MOST_STATES:,}; expected a shorter one"
            raise KernelError(msg)
        self.states.append(state)
        return len(self.states) - 1

    def _more(self, what: str = "the pattern ends") -> str:
        if self.at >= len(self.text):
            raise self._error(what)
        self.at += 1
        return self.text[self.at - 1]

    def _take(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def _alternatives(self) -> _Piece:
        choices = [self._sequence()]
        while self._take("|"):
            choices.append(self._sequence())
        if len(choices) == 1:
            return choices[0]
        return lambda to: self._state(_State(next=tuple(c(to) for c in choices)))

    def _sequence(self) -> _Piece:
        pieces: list[_Piece] = []
        piece: _Piece | None
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if self._take("\\Q"):
                quoted = [self._literal(c) for c in self._quoted()]
                pieces.extend(quoted[:-1])
                piece = quoted[-1] if quoted else None
            else:
                piece = self._one()
            if piece is not None:
                pieces.append(self._repeated(piece))

        def build(to: int) -> int:
            for piece in reversed(pieces):
                to = piece(to)
            return to

        return build

    def _repeated(self, piece: _Piece) -> _Piece:
        low, high = self._count()
        if (low, high) == (1, 1):
            return piece
        self._take("?")  # lazy: the same texts match
        after = self.text[self.at : self.at + 1]
        if after in ("*", "+", "?") and after:
            raise self._error("a repetition of a repetition")

        def build(to: int) -> int:
            if high is None:
                loop = self._state(_State())
                self.states[loop].next = (piece(loop), to)
                to = loop
            for _ in range((high or low) - low):
                to = self._state(_State(next=(piece(to), to)))
            for _ in range(low):
                to = piece(to)
            return to

        return build

    def _count(self) -> tuple[int, int | None]:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        if not self._take("{"):
            return 1, 1
        start = self.at
        end = self.text.find("}", start)
        first, comma, second = self.text[start:end].partition(",") if end >= 0 else ("", "", "")
        if not (first.isascii() and first.isdigit()) or (second and not (second.isascii() and second.isdigit())):
            # Not a repetition: RE2 then takes the brace literally.
            self.at -= 1
            return 1, 1
        self.at = end + 1
        low = int(first[:6])
        high = low if not comma else int(second[:6]) if second else None
        if low > _MOST_REPEATS or (high is not None and not low <= high <= _MOST_REPEATS):
            raise self._error(f"bad repetition {{{self.text[start:end]}}}")
        return low, high

    def _one(self) -> _Piece | None:
        char = self._more()
        if char == "(":
            return self._group()
        if char == ".":
            return self._chars(_Set(negated=True) if self.flags.dot_all else _Set(_ranges("\n"), negated=True))
        if char == "[":
            return self._chars(self._class())
        if char in "^$":
            inner = {"^": "A", "$": "z"} if not self.flags.lines else {"^": "^", "$": "$"}
            return self._assertion(inner[char])
        if char == "\\":
            return self._escaped()
        if char in "*+?":
            raise self._error("nothing to repeat")
        return self._literal(char)

    def _chars(self, chars: _Set) -> _Piece:
        return lambda to: self._state(_State(chars, next=(to,)))

    def _literal(self, char: str) -> _Piece:
        return self._chars(_Set(((ord(char), ord(char)),), fold=self.flags.fold))

    def _assertion(self, holds: str) -> _Piece:
        return lambda to: self._state(_State(holds=holds, next=(to,)))

    def _group(self) -> _Piece | None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self._error("groups nested too deeply")
        before = self.flags
        if self._take("?"):
            if self._take("P<") or (self.text[self.at : self.at + 1] == "<" and self._named()):
                name = self._until(">")
                if not name or not set(name) <= _ASCII_WORD:
                    raise self._error(f"bad group name {name[:50]!r}")
            elif not self._set_flags():
                self.depth -= 1
                return None
        piece = self._alternatives()
        if not self._take(")"):
            raise self._error("missing )")
        self.flags = before
        self.depth -= 1
        return piece

    def _named(self) -> bool:
        if self.text[self.at + 1 : self.at + 2] in ("=", "!"):
            raise self._error("lookaround is not supported")
        self.at += 1
        return True

    def _until(self, end: str) -> str:
        place = self.text.find(end, self.at)
        if place < 0:
            raise self._error(f"missing {end}")
        found = self.text[self.at : place]
        self.at = place + len(end)
        return found

    def _set_flags(self) -> bool:
        """Parse flags: (?flags) holds to the end of the enclosing group, (?flags: opens one; returns whether it opened
        one.
        """
        names = {"i": "fold", "s": "dot_all", "m": "lines"}
        value = True
        while True:
            char = self._more("missing ) after flags")
            if char in names:
                self.flags = replace(self.flags, **{names[char]: value})
            elif char == "-" and value:
                value = False
            elif char in ":)":
                return char == ":"
            elif char != "U":  # U swaps lazy and greedy, which match the same texts
                raise self._error(f"(?{char} is not supported")

    def _escaped(self) -> _Piece:
        char = self._more("a lone \\")
        if char in "AzbB":
            return self._assertion(char)
        self.at -= 1
        group = self._class_escape()
        if group is not None:
            return self._chars(group)
        return self._literal(self._char_escape())

    def _quoted(self) -> str:
        place = self.text.find("\\E", self.at)
        quoted = self.text[self.at :] if place < 0 else self.text[self.at : place]
        self.at = len(self.text) if place < 0 else place + 2
        return quoted

    def _class_escape(self) -> _Set | None:
        """Parse the set of \\d, \\pL and the like; None for an escape of one character."""
        char = self.text[self.at]
        if char.lower() in _PERL:
            self.at += 1
            return _Set(_ranges(_PERL[char.lower()]), negated=char.isupper())
        if char not in "pP":
            return None
        self.at += 1
        name = self._until("}") if self._take("{") else self._more()
        negated = char == "P"
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if name == "Any":
            return _Set(((0, 0x10FFFF),), negated=negated)
        if not 1 <= len(name) <= 2 or name[0] not in "CLMNPSZ":
            raise self._error(f"Unicode class {name[:50]!r} is not supported; expected a general category")
        return _Set(categories=((name, negated),))

    def _char_escape(self) -> str:
        char = self._more("a lone \\")
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char == "x":
            digits = self._until("}") if self._take("{") else self._more() + self._more()
            return self._code(digits, 16)
        if char in "01234567":
            digits = char
            while len(digits) < 3 and self.text[self.at : self.at + 1] in tuple("01234567"):
                digits += self._more()
            if char != "0" and len(digits) == 1:
                raise self._error("backreferences are not supported")
            return self._code(digits, 8)
        if char.isascii() and (char.isalnum()):
            raise self._error(f"unknown escape \\{char}")
        return char

    def _code(self, digits: str, base: int) -> str:
        try:
            return chr(int(digits, base))
        except (ValueError, OverflowError):
            raise self._error(f"bad character code {digits[:50]!r}") from None

    def _class(self) -> _Set:
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        parts: list[_Set] = []
        first = True
        while first or not self._take("]"):
            first = False
            part = self._class_part()
            if isinstance(part, _Set):
                parts.append(part)
                continue
            high = part
            if self.text[self.at : self.at + 1] == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                end = self._class_part()
                if isinstance(end, _Set) or end < part:
                    raise self._error("bad range in a class")
                high = end
            ranges.append((ord(part), ord(high)))
        return _Set(tuple(ranges), parts=tuple(parts), negated=negated, fold=self.flags.fold)

    def _class_part(self) -> _Set | str:
        if self._take("[:"):
            name = self._until(":]")
            other = name.startswith("^")
            if name.lstrip("^") not in _POSIX:
                raise self._error(f"unknown class [:{name[:50]}:]")
            return _Set(_ranges(_POSIX[name.lstrip("^")]), negated=other)
        char = self._more("missing ]")
        if char != "\\":
            return char
        if self.at >= len(self.text):
            raise self._error("a lone \\")
        return self._class_escape() or self._char_escape()


class Pattern:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        """KernelError when the pattern is not valid or too large."""
        compiler = _Compiler(pattern)
        self._start = compiler.compile()
        self._states = compiler.states
        self._steps: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}

    def full_match(self, text: str) -> bool:
        """Return whether the whole text matches; linear in its length."""
        current = frozenset((self._start,))
        before = ""
        for char in text:
            found = self._next(current, before, char)
            if not found:
                return False
            current, before = found, char
        return 0 in self._closure(current, before, "")

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Return begin and end of the leftmost-longest match from `start` on; None without one."""
        for begin in range(start, len(text) + 1):
            if not begin % 256:
                checkpoint()
            end = self._longest(text, begin)
            if end is not None:
                return begin, end
        return None

    def _longest(self, text: str, begin: int) -> int | None:
        current = frozenset((self._start,))
        before = text[begin - 1] if begin else ""
        end = None
        for place in range(begin, len(text) + 1):
            if (place - begin) % 4096 == 4095:
                checkpoint()
            after = text[place] if place < len(text) else ""
            if 0 in self._closure(current, before, after):
                end = place
            if not after:
                break
            current = self._next(current, before, after)
            if not current:
                break
            before = after
        return end

    def _next(self, current: frozenset[int], before: str, char: str) -> frozenset[int]:
        """Return the states after a character, memoized."""
        key = (current, before if before in ("", "\n") or before in _ASCII_WORD else " ", char)
        found = self._steps.get(key)
        if found is None:
            if len(self._steps) >= _MOST_REMEMBERED:
                self._steps.clear()
            found = self._steps[key] = self._step(current, before, char)
        return found

    def _step(self, current: frozenset[int], before: str, char: str) -> frozenset[int]:
        reached: set[int] = set()
        for index in self._closure(current, before, char):
            state = self._states[index]
            if state.chars is not None and state.chars.has(char):
                reached.update(state.next)
        return frozenset(reached)

    def _closure(self, states: Iterable[int], before: str, after: str) -> set[int]:
        """Return the epsilon closure between the given characters ("" at either end)."""
        found = set(states)
        waiting = list(found)
        while waiting:
            state = self._states[waiting.pop()]
            if state.chars is None and (not state.holds or _holds(state.holds, before, after)):
                for index in state.next:
                    if index not in found:
                        found.add(index)
                        waiting.append(index)
        return found


def _holds(assertion: str, before: str, after: str) -> bool:
    match assertion:
        case "A":
            return not before
        case "z":
            return not after
        case "^":
            return before in ("", "\n")
        case "$":
            return after in ("", "\n")
    at_edge = (before in _ASCII_WORD) != (after in _ASCII_WORD)
    return at_edge == (assertion == "b")


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern, cached."""
    return Pattern(pattern)
