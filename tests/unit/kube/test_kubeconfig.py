"""Access to an API server: kubectl's order of files, contexts and namespaces."""

import os

import pytest
from kubernetes.client import Configuration

from berthmaster.kube.credentials import load_credentials
from berthmaster.kube.kubeconfig import find_access
from berthmaster.model.errors import InputError


def content(current: str = "", **contexts: str) -> str:
    """A kubeconfig whose contexts have these namespaces and servers of the same name."""
    lines = [f"current-context: {current}", "clusters:"]
    lines += [f"- {{name: {name}, cluster: {{server: 'http://{name}.example'}}}}" for name in contexts] or ["  []"]
    lines += ["users: [{name: me, user: {token: t}}]", "contexts:"]
    lines += [
        f"- {{name: {name}, context: {{cluster: {name}, user: me, namespace: '{namespace}'}}}}"
        for name, namespace in contexts.items()
    ]
    return "\n".join(lines)


@pytest.fixture
def place(tmp_path):
    """A home folder with ~/.kube/config, two more files, and the service account of a pod."""
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(content("home", home="house"))
    (tmp_path / "first").write_text(content("", one="n1", shared="of-first"))
    (tmp_path / "second").write_text(content("two", two="", shared="of-second"))
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod" / "namespace").write_text("of-pod\n")
    return tmp_path


def found(place, kubeconfig=None, context=None, **environ: str):
    return find_access(
        place / kubeconfig if kubeconfig else None,
        context,
        environ={"HOME": str(place), **environ},
        service_account=place / "pod",
    )


def both(place):
    return os.pathsep.join(str(place / name) for name in ("first", "missing", "second"))


def test_a_named_file_wins_over_everything(place):
    access = found(place, "second", KUBECONFIG=both(place), KUBERNETES_SERVICE_HOST="10.0.0.1")
    assert access == ((place / "second",), "two", "default")


def test_the_variable_wins_over_the_home_folder_and_missing_files_are_skipped(place):
    access = found(place, KUBECONFIG=both(place))
    assert (access.files, access.context) == ((place / "first", place / "second"), "two")


def test_the_first_definition_of_a_context_wins(place):
    assert found(place, context="shared", KUBECONFIG=both(place)).namespace == "of-first"


def test_a_client_of_several_files_uses_the_chosen_context(place):
    configuration = Configuration()
    load_credentials(found(place, context="one", KUBECONFIG=both(place)), configuration)
    assert configuration.host == "http://one.example"


def test_the_home_folder_wins_over_the_pod(place):
    access = found(place, KUBERNETES_SERVICE_HOST="10.0.0.1")
    assert (access.context, access.namespace) == ("home", "house")


def test_the_service_account_of_the_pod_comes_last(place):
    (place / ".kube" / "config").unlink()
    access = found(place, KUBERNETES_SERVICE_HOST="10.0.0.1")
    assert access == ((), "", "of-pod")
    assert str(access) == "the service account of this pod"


@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        pytest.param({}, {"HOME": "/nowhere"}, "KUBECONFIG is not set, /nowhere/.kube/config", id="no access at all"),
        pytest.param(
            {},
            {"KUBECONFIG": "/nowhere/a:/nowhere/b"},
            "names only files that do not exist: /nowhere/a, /nowhere/b",
            id="no file",
        ),
        pytest.param({"context": "tow"}, {}, "there is no context 'tow'; known contexts are home", id="a typo"),
        pytest.param(
            {"context": "c"}, {"HOME": "/nowhere", "KUBERNETES_SERVICE_HOST": "h"}, "no kubeconfig with", id="in a pod"
        ),
        pytest.param({"kubeconfig": "first"}, {}, "first: no current context", id="no current context"),
        pytest.param({"kubeconfig": "missing"}, {}, "missing: No such file", id="a missing file"),
    ],
)
def test_an_error_names_the_file_and_the_remedy(place, arguments, environ, message):
    with pytest.raises(InputError) as caught:
        found(place, **arguments, **environ)
    assert message in str(caught.value)


def test_an_error_does_not_show_the_text_of_a_file(place):
    (place / "first").write_text("users: [{token: secret}\n- x: {")
    with pytest.raises(InputError) as caught:
        found(place, "first")
    assert "secret" not in str(caught.value)
