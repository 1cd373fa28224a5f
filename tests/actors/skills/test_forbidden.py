"""Names that no spelling gets past."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.skills.forbidden import ForbiddenNames, fold

spec = pytest.mark.spec
DEFAULT = ForbiddenNames()


@spec("C-SKILL-68", "C-SEC-12")
@pytest.mark.parametrize(
    "name",
    [
        ".skillenv",
        ".SKILLENV",
        ".SkillEnv",
        ".skillenv.",
        ".skillenv. . ",
        ".skillenv ",
        "．skillenv",
        "․skillenv",
        ".ｓkillenv",
        ".ſkillenv",
        ".skill\u200benv",
        ".\u00adskillenv",
        ".s\ufeffkillenv",
        ".ski\u2113lenv",
    ],
)
def test_every_spelling_of_the_secrets_file_is_forbidden(name: str) -> None:
    assert name in DEFAULT


@spec("C-SKILL-68")
@pytest.mark.parametrize(
    "name",
    [
        *(".env", ".env.local", ".skillenv.bak", ".git", ".ssh", ".gnupg", ".aws", ".netrc", "_netrc", ".npmrc"),
        *(".pypirc", ".git-credentials", "id_rsa", "ID_RSA", "id_dsa", "id_ecdsa", "id_ed25519", "tls.pem", "TLS.KEY"),
        *("a.p12", "a.pfx", "a.jks", "a.keystore", "a.kdbx", ".env.example.local"),
    ],
)
def test_names_of_credentials_are_forbidden_by_default(name: str) -> None:
    assert name in DEFAULT


@spec("C-SKILL-68")
@pytest.mark.parametrize(
    "name",
    [
        *(
            ".env.example",
            ".env.sample",
            ".env.template",
            ".skillenv.example",
            "skillenv",
            "env",
            ".envrc",
            "id_rsa.pub",
        ),
        *(".gitignore", "pem", "key", "a.pem.txt", "SKILL.md", "git", ""),
    ],
)
def test_harmless_names_and_examples_are_not_forbidden(name: str) -> None:
    assert name not in DEFAULT


@spec("C-SKILL-68", "C-SEC-19")
def test_an_own_list_replaces_the_default_one_but_never_frees_the_secrets_file() -> None:
    own = ForbiddenNames(["*.Secret", "token"])
    assert ".skillenv" in own
    assert "A.secret" in own
    assert "TOKEN" in own
    assert "id_rsa" not in own
    assert ".env" not in ForbiddenNames([])
    assert ".skillenv" in ForbiddenNames([])


@spec("C-SKILL-68", "C-SEC-12")
@given(st.text(max_size=12), st.sampled_from([".skillenv", ".env", "id_rsa"]))
def test_case_invisible_letters_and_trailing_dots_never_free_a_name(noise: str, name: str) -> None:
    invisible = "".join(letter for letter in noise if letter in "\u200b\u200c\u200d\ufeff\u00ad")
    assert name[:2] + invisible + name[2:].upper() + ". . " in DEFAULT


@spec("C-SKILL-68")
@given(st.text(max_size=40))
def test_folding_a_folded_name_changes_nothing(name: str) -> None:
    assert fold(fold(name)) == fold(name)
