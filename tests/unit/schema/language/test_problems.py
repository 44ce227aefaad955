"""Problems: collecting, suggestions, and rendering."""

from __future__ import annotations

from skerry import limits
from skerry.errors import Problem, Severity
from skerry.schema.language.problems import GUESS_WORK_MAX, ProblemList, render
from skerry.schema.language.syntax import Word


def at(line: int, column: int = 1, text: str = "x") -> Word:
    return Word(text=text, line=line, column=column)


def test_errors_and_warnings_have_separate_limits() -> None:
    problems = ProblemList().of("a.dots")
    for line in range(1, limits.PROBLEM_COUNT_MAX):
        problems.error(at(line), "wrong")
    has_room = not problems.is_full
    problems.error(at(1000), "wrong")
    assert has_room
    assert problems.is_full
    problems.error(at(1001), "one too many")
    for line in range(1, limits.PROBLEM_COUNT_MAX + 5):
        problems.warning(at(line), "odd")
    assert len(problems.errors) == limits.PROBLEM_COUNT_MAX
    assert len(problems.warnings) == limits.PROBLEM_COUNT_MAX
    assert problems.errors[-1].line == 1000


def test_a_second_error_at_the_same_position_is_dropped() -> None:
    problems = ProblemList().of("a.dots")
    problems.error(at(1, 2), "first")
    problems.error(at(1, 2), "echo")
    problems.of("b.dots").error(at(1, 2), "other file")
    problems.error(at(1, 3), "other column")
    assert [p.message for p in problems.errors] == ["first", "other file", "other column"]


def test_guess_ignores_case_and_distant_names() -> None:
    problems = ProblemList().of("a.dots")
    assert problems.guess("VESEL", ["Alarm", "Vessel"]) == "Vessel"
    assert problems.guess("harbour", ["Alarm", "Vessel"]) is None


def test_guessing_stops_at_its_limit_of_work() -> None:
    problems = ProblemList().of("a.dots")
    assert problems.guess("VESEL", ["Vessel"]) == "Vessel"
    assert problems.guess("v" * GUESS_WORK_MAX, ["Vessel"]) is None
    assert problems.guess("VESEL", ["Vessel"]) is None
    assert ProblemList().guess("VESEL", ["Vessel"]) == "Vessel", "another run guesses again"


def test_guessing_among_very_many_names_is_too_much_work() -> None:
    names = [f"v{n}" for n in range(GUESS_WORK_MAX // 64)]
    assert ProblemList().guess("v", names) is None


def test_rendered_problem_shows_line_mark_and_hint() -> None:
    problem = Problem(
        message="type `strng` is unknown",
        file="fleet.dots",
        line=2,
        column=5,
        text="strng",
        hint="did you mean `string`?",
    )
    assert render(problem, "struct A {\r\n 1: strng a;\r\n}") == (
        "fleet.dots:2:5: error: type `strng` is unknown\n"
        "2 |  1: strng a;\n"
        "  |     ^^^^^\n"
        "hint: did you mean `string`?"
    )


def test_the_mark_is_aligned_after_tabs() -> None:
    problem = Problem(message="odd", line=1, column=3, text="ab", severity=Severity.WARNING)
    assert render(problem, "\t ab").split("\n")[1:] == ["1 | \t ab", "  | \t ^^"]


def test_the_mark_of_a_missing_piece_is_after_the_line() -> None:
    problem = Problem(message="`;` is missing", line=1, column=4, text="abc")
    assert render(problem, "abc").split("\n")[1:] == ["1 | abc", "  |    ^"]


def test_the_mark_ends_with_the_line() -> None:
    problem = Problem(message="not closed", line=1, column=1, text="/* abc\nxyz")
    assert render(problem, "/* abc\nxyz").split("\n")[2] == "  | ^^^^^^"


def test_problem_without_source_or_beyond_it_is_its_message() -> None:
    problem = Problem(message="gone", line=9, column=1)
    assert render(problem, None) == "<text>:9:1: error: gone"
    assert render(problem, "one line") == "<text>:9:1: error: gone"


def rows(line: str, column: int, text: str = "x") -> list[str]:
    return render(Problem(message="odd", line=1, column=column, text=text), line).split("\n")[1:]


def test_control_characters_are_escaped() -> None:
    problem = Problem(
        message="`\x1b[2J` has no meaning", file="a\x07.dots", text="\x1b[2J", hint="\x9b0m"
    )
    assert render(problem, "\x1b[2J\u202e x").split("\n") == [
        "a\\x07.dots:1:1: error: `\\x1b[2J` has no meaning",
        "1 | \\x1b[2J\\u202e x",
        "  | ^^^^^^^",
        "hint: \\x9b0m",
    ]
    assert rows("\x1b x", 3) == ["1 | \\x1b x", "  |      ^"]


def test_the_mark_is_aligned_after_wide_and_combining_characters() -> None:
    assert rows("船舶 x", 4) == ["1 | 船舶 x", "  |      ^"]
    assert rows("a\u0308o\u0308 x", 6) == ["1 | a\u0308o\u0308 x", "  |    ^"]
    assert rows("x 船舶;", 3, "船舶") == ["1 | x 船舶;", "  |   ^^^^"]


def test_a_long_line_is_shortened_around_the_position() -> None:
    room = limits.EXCERPT_CHAR_COUNT_MAX
    assert rows("a" * (room - 1) + "x", room) == [
        "1 | " + "a" * (room - 1) + "x",
        "  | " + " " * (room - 1) + "^",
    ]
    shown, mark = rows("a" * 20_000 + "x" + "b" * 20_000, 20_001)
    assert shown == "1 | ... " + "a" * (room // 2) + "x" + "b" * (room // 2 - 1) + " ..."
    assert mark.index("^") == shown.index("x")
    shown, mark = rows("x" * 40_000, 1, "x" * 40_000)
    assert (shown, mark) == (f"1 | {'x' * room} ...", f"  | {'^' * room}")
    shown, mark = rows("a" * 40_000, 40_001, "a")
    assert mark == "  | " + " " * (room + 4) + "^"


def test_a_long_message_is_shortened_in_the_middle() -> None:
    room = limits.EXCERPT_CHAR_COUNT_MAX
    message = render(Problem(message="x" * 40_000 + " is no name"), None)
    assert message.startswith("<text>:1:1: error: xxx")
    assert message.endswith("xxx is no name")
    assert len(message) == 2 * room + len(" ... ")
    exact = Problem(message="x" * (2 * room - len("<text>:1:1: error: ")))
    assert render(exact, None) == str(exact)
