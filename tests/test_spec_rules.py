"""The list of rules without a test: what counts as a definition, as a citation, and as somebody's job."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from textwrap import dedent

import pytest
from spec_rules import ID, TESTS, UNTESTED, Coverage, citations, definitions, load, main, prefix_of, steps_of

PAGE = Path("page.md")
MODULE = Path("test_module.py")
BY_MARK_ALONE = ("T-MKT", "T-PLUG", "T-ORIG")


def defined_in(text: str) -> list[str]:
    return list(definitions({PAGE: dedent(text)}))


def cited_in(text: str) -> list[str]:
    return list(citations({MODULE: dedent(text)}))


def test_a_rule_is_defined_where_it_opens_a_list_item_or_a_table_row() -> None:
    text = """
        - **W-FOG-1** The horn sounds. See W-FOG-7.
        3. **C-FOG-2** Third step.
        | W-FOG-3 | a condition |
        | C-FOG-4a | a part of a rule |
        | **R-FOG-5** | in bold |
        | D-40, D-41 | two at once |
        | H-6 | a case |
    """
    assert defined_in(text) == ["W-FOG-1", "C-FOG-2", "W-FOG-3", "C-FOG-4a", "R-FOG-5", "D-40", "D-41", "H-6"]


def test_a_mention_inside_a_text_or_a_later_cell_defines_nothing() -> None:
    text = """
        W-FOG-1 says so.
        - see **W-FOG-2**
        | condition | W-FOG-3 |
        | F-MIN | a fixture |
    """
    assert defined_in(text) == []


def test_a_place_is_the_page_and_the_line() -> None:
    assert str(definitions({PAGE: "\n- **W-FOG-1** x"})["W-FOG-1"]) == "page.md:2"


def test_marks_on_modules_classes_functions_and_parameters_are_citations() -> None:
    text = """
        import pytest
        pytestmark = [pytest.mark.anyio, pytest.mark.spec("W-FOG-1")]
        @pytest.mark.spec("W-FOG-2")
        class TestHorn:
            @pytest.mark.spec("W-FOG-3", "F-12")
            async def test_a(self): ...
        @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.spec("H-1"))])
        def test_b(x): ...
    """
    assert sorted(cited_in(text)) == ["F-12", "H-1", "W-FOG-1", "W-FOG-2", "W-FOG-3"]


def test_text_and_other_marks_are_no_citations() -> None:
    text = """
        # @pytest.mark.spec("W-FOG-1")
        @pytest.mark.timeout("W-FOG-2")
        def test_a(): "W-FOG-3"
    """
    assert cited_in(text) == []


def test_a_citation_that_is_computed_is_refused() -> None:
    with pytest.raises(ValueError, match="as strings"):
        cited_in("@pytest.mark.spec(RULE)\ndef test_a(): ...")


TABLE = """
| step | rules | cases | field cases |
| 1 Foundation | W-FOG, C, R-FOG-2..3 | H, T-FOG-1 | F-08..10 |
| 2 More | W-FOG-5, C-9, docs of the design; R-FOG | T-FOG | F-11 |
"""


@pytest.mark.parametrize(
    ("rule", "steps"),
    [
        ("W-FOG-1", {1}),
        ("W-FOG-5", {2}),
        ("C-1", {1}),
        ("C-9", {2}),
        ("C-FOG-1", set()),
        ("R-FOG-1", {2}),
        ("R-FOG-3", {1}),
        ("R-FOG-3a", {1}),
        ("T-FOG-1", {1}),
        ("T-FOG-2", {2}),
        ("H-4", {1}),
    ],
)
def test_a_single_id_or_a_range_beats_the_prefix_it_falls_under(rule: str, steps: set[int]) -> None:
    assert steps_of(TABLE).of(rule) == steps


def test_field_cases_of_a_step_are_due_although_no_page_defines_them() -> None:
    coverage = Coverage({}, {"F-09": []}, steps_of(TABLE))
    assert coverage.untested(coverage.of_step(1)) == ["F-08", "F-10"]


def test_a_cited_rule_that_nobody_defines_is_unknown_unless_it_is_a_field_case() -> None:
    coverage = Coverage({}, {"W-FOG-1": [], "F-99": [], "fog": []}, steps_of(TABLE))
    assert coverage.unknown() == ["W-FOG-1", "fog"]


def test_a_rule_in_lettered_parts_may_be_cited_part_by_part_or_as_a_whole() -> None:
    defined = definitions({PAGE: "| C-FOG-4a | x |\n| C-FOG-4b | y |"})
    by_part = Coverage(defined, {"C-FOG-4a": []}, steps_of(TABLE))
    assert by_part.untested(defined) == ["C-FOG-4b"]
    whole = Coverage(defined, {"C-FOG-4": []}, steps_of(TABLE))
    assert (whole.untested(defined), whole.unknown()) == ([], [])


def test_rules_come_in_the_order_of_their_numbers() -> None:
    coverage = Coverage(definitions({PAGE: "- **W-FOG-10** b\n- **W-FOG-2** a"}), {}, steps_of(TABLE))
    assert coverage.of_chapter("W-FOG") == ["W-FOG-2", "W-FOG-10"]


def test_every_rule_of_the_real_spec_is_the_job_of_exactly_one_step() -> None:
    coverage = load()
    astray = [
        rule for rule in coverage.defined if prefix_of(rule) not in UNTESTED and len(coverage.steps.of(rule)) != 1
    ]
    assert len(coverage.defined) > 1_000
    assert astray == []


def test_every_rule_cited_by_a_test_exists_in_the_spec() -> None:
    coverage = load()
    assert {rule: [str(place) for place in coverage.cited[rule]] for rule in coverage.unknown()} == {}


def test_the_spec_refers_to_no_rule_it_does_not_define() -> None:
    coverage = load()
    pages = {place.path for place in coverage.defined.values()}
    mentioned = {rule for page in pages for rule in re.findall(rf"(?<![\w-]){ID}(?![\w-])", page.read_text("utf-8"))}
    assert sorted(mentioned - set(coverage.defined)) == []


def test_the_command_names_what_is_missing_and_where_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    coverage = load()
    status = main(["--step", "6"])
    missing = coverage.untested(coverage.of_step(6))
    printed = capsys.readouterr().out
    assert status == (1 if missing or coverage.unknown() else 0)
    assert f"{len(coverage.of_step(6)) - len(missing)} of {len(coverage.of_step(6))} tested" in printed
    assert all(rule in printed for rule in missing)


def test_a_row_that_opens_with_a_span_defines_each_of_it() -> None:
    page = Path("page.md")
    found = definitions({page: "| T-ORIG-1…3 | given | when | then |\n| T-ORIG-7, T-ORIG-9 | given | when |"})
    assert sorted(found) == ["T-ORIG-1", "T-ORIG-2", "T-ORIG-3", "T-ORIG-7", "T-ORIG-9"]


def test_every_conformance_case_of_the_runtime_stands_in_the_name_of_a_test_that_cites_it() -> None:
    """Cases of marketplaces and plugins may be cited alone; the others are found by their name as well."""
    coverage = load()
    cases = [rule for rule in coverage.defined if rule.startswith("T-") and prefix_of(rule) not in BY_MARK_ALONE]
    named = {case: "_" + case.lower().replace("-", "_") + "_" for case in cases}
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_t_"):
                marks = {
                    argument.value
                    for mark in node.decorator_list
                    if isinstance(mark, ast.Call)
                    for argument in mark.args
                    if isinstance(argument, ast.Constant)
                }
                found |= {case for case, part in named.items() if part in node.name and case in marks}
    assert len(cases) > 80
    assert sorted(set(cases) - found) == []
