import gzip
import io
import json
import os

import pytest
from builders import deployment
from tables import cases, data

from berthmaster.manifests import ManifestLimits, read_documents
from berthmaster.model.errors import ManifestError

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def config(name):
    return {**CONFIG, "metadata": {"name": name}}


def names(*paths, **options):
    return [document.name for document in read_documents(paths, **options)]


def error_of(path, **options):
    with pytest.raises(ManifestError) as caught:
        list(read_documents([path], **options))
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


def written(tmp_path, text, name="f.yaml"):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return path


def test_folders_are_read_recursively_in_the_order_of_paths(tmp_path):
    for name in ("b.yaml", "a/z.json", "a/b/c.yml", "c/a.yaml", ".git/x.yaml", "a/notes.txt", "a/.hidden/x.json"):
        written(tmp_path, config(name), name)
    assert names(tmp_path) == ["a/b/c.yml", "a/z.json", "b.yaml", "c/a.yaml"]


def test_paths_are_read_in_the_order_given_and_each_file_once(tmp_path):
    second, first = written(tmp_path, config("b"), "b.yaml"), written(tmp_path, config("a"), "a.yaml")
    (tmp_path / "link.yaml").symlink_to(first)
    assert names(second, first, tmp_path) == ["b", "a"]


def test_a_named_file_is_read_with_any_suffix(tmp_path):
    assert names(written(tmp_path, config("a"), "manifest.txt")) == ["a"]


def test_a_loop_of_links_ends(tmp_path):
    written(tmp_path, config("a"), "below/a.yaml")
    (tmp_path / "below" / "up").symlink_to(tmp_path)
    assert names(tmp_path) == ["a"]


def test_a_dash_is_standard_input():
    (document,) = read_documents(["-"], stdin=io.BytesIO(json.dumps(CONFIG).encode()))
    assert (document.source, document.number, document.name) == ("<stdin>", 1, "a")


@cases(
    ("name", "text"),
    {
        "JSON after JSON": ("f.json", json.dumps(config("a")) + "\n" + json.dumps(config("b"))),
        "JSON in YAML": ("f.yaml", json.dumps(config("a")) + "\n---\n" + json.dumps(config("b"))),
        "empty documents": (
            "f.yaml",
            "---\n# nothing\n---\n" + json.dumps(config("a")) + "\n---\n" + json.dumps(config("b")) + "\n---\n",
        ),
        "a List": (
            "f.yaml",
            "\ufeff\n" + json.dumps({"apiVersion": "v1", "kind": "List", "items": [config("a"), config("b")]}),
        ),
        "a List without a version": ("f.json", {"kind": "List", "items": [config("a"), config("b")]}),
        "a typed list defines the type of its items": (
            "f.json",
            {"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "a"}}, config("b")]},
        ),
    },
)
def test_several_objects_in_a_file(tmp_path, name, text):
    assert names(written(tmp_path, text, name)) == ["a", "b"]


def test_the_number_of_a_document_counts_the_empty_ones(tmp_path):
    path = written(tmp_path, "---\n---\n" + json.dumps(CONFIG))
    (document,) = read_documents([path])
    assert document.place == f"{path}: document 2"


def test_an_item_of_a_list_has_its_position(tmp_path):
    path = written(tmp_path, {"kind": "List", "items": [config("a"), config("b")]})
    *_, document = read_documents([path])
    assert document.place == f"{path}: document 1: items[1]"


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"], ids=repr)
@pytest.mark.parametrize("name", ["f.yaml", "f.json"])
def test_an_empty_file_is_valid(tmp_path, name, text):
    if name == "f.yaml" or not text:
        assert names(written(tmp_path, text, name)) == []


@cases(
    ("name", "text", "message"),
    data("invalid_files")
    | {
        "text": ("f.yaml", json.dumps(CONFIG) + "\n---\nhello", "document 2: is not an API object, but 'hello'"),
        "broken JSON": ("f.json", '{"a": 1,\n "b" 2}', "document 1: line 2, column 6: not valid JSON: "),
        "a broken end": ("f.json", json.dumps(CONFIG) + "\n{", "document 2: line 2, column 2: not valid JSON: "),
        "YAML like JSON": ("f.yaml", '{"a": 1\n "b": 2}', "document 1: line 2, column 5: did not find expected"),
        "endless JSON": ("f.json", "[" * 100_000, "document 1: n"),
        "deep JSON": ("f.json", '{"a":' * 150 + "1" + "}" * 150, "document 1: nested more than 100 levels deep"),
    },
)
def test_errors_name_file_document_and_path(tmp_path, name, text, message):
    assert error_of(written(tmp_path, text, name)).startswith(message)


def test_bytes_that_are_not_text(tmp_path):
    path = tmp_path / "f.json"
    path.write_bytes(b'{"a": "\xff"}')
    assert error_of(path) == "not UTF-8 text: byte 7 is not valid"


def test_a_missing_file(tmp_path):
    assert error_of(tmp_path / "missing.yaml") == "cannot be read: No such file or directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(tmp_path):
    path = written(tmp_path, CONFIG)
    path.chmod(0)
    assert error_of(path) == "cannot be read: Permission denied"


def test_a_folder_without_manifests(tmp_path):
    written(tmp_path, "x", "notes.txt")
    assert error_of(tmp_path) == "no *.yaml, *.yml, *.json file in this folder"


def test_a_pipe_in_a_folder_is_rejected(tmp_path):
    written(tmp_path, CONFIG)
    os.mkfifo(tmp_path / "pipe.yaml")
    assert error_of(tmp_path).endswith("pipe.yaml: is not a regular file; to read it, name the file, not its folder")


def test_a_broken_link_in_a_folder(tmp_path):
    (tmp_path / "link.yaml").symlink_to("nowhere")
    assert error_of(tmp_path).endswith("link.yaml: cannot be read: No such file or directory")


@pytest.mark.parametrize("target", ["../secret", "../../{folder}x/secret", "/etc/hostname"])
def test_a_link_that_leaves_its_folder_is_refused_and_its_target_is_not_read(tmp_path, target):
    folder = tmp_path / "policies"
    folder.mkdir()
    written(tmp_path, "root:secret", "secret")
    written(tmp_path, "root:secret", "policiesx/secret")
    (folder / "link.yaml").symlink_to(target.format(folder="policies"))
    problem = error_of(folder)
    assert problem.endswith("link.yaml: is a link to a file outside of the folder; to read it, name the file")
    assert "secret" not in problem


def test_the_links_of_a_mounted_config_map_are_read(tmp_path):
    written(tmp_path, config("a"), "mount/..2026_11_22/a.yaml")
    (tmp_path / "mount/..data").symlink_to("..2026_11_22")
    (tmp_path / "mount/a.yaml").symlink_to("..data/a.yaml")
    (tmp_path / "also").symlink_to("mount")
    assert names(tmp_path / "mount") == names(tmp_path / "also") == ["a"]


def test_the_size_of_a_device_is_bounded():
    assert error_of("/dev/zero", limits=ManifestLimits(file_bytes=1000)) == "larger than 1000 bytes"


def test_the_number_of_documents_is_bounded_over_all_files(tmp_path):
    one = written(tmp_path, {"kind": "List", "items": [CONFIG, CONFIG]}, "1.yaml")
    two = written(tmp_path, {"kind": "List", "items": [CONFIG, CONFIG]}, "2.yaml")
    assert names(one, two, limits=ManifestLimits(documents=4)) == ["a"] * 4
    with pytest.raises(ManifestError, match=r"2\.yaml: document 1: more than 3 documents in all$"):
        names(one, two, limits=ManifestLimits(documents=3))


def test_times_stay_text(tmp_path):
    text = "apiVersion: v1\nkind: A\nmetadata: {name: a, creationTimestamp: 2026-01-01T00:00:00Z}"
    (document,) = read_documents([written(tmp_path, text)])
    assert document.raw["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


def test_a_deployment_is_read_unchanged(tmp_path):
    (document,) = read_documents([written(tmp_path, deployment())])
    assert document.raw == deployment()
    assert (document.api_version, document.kind, document.namespace) == ("apps/v1", "Deployment", "default")


PLAIN = json.dumps(CONFIG).encode()


@cases(
    ("name", "data"),
    {
        "YAML": ("f.yaml.gz", gzip.compress(PLAIN)),
        "JSON": ("f.json.gz", gzip.compress(PLAIN)),
        "a name that does not say it": ("f.yaml", gzip.compress(PLAIN)),
        "several parts": ("f.yaml.gz", gzip.compress(PLAIN[:5]) + gzip.compress(PLAIN[5:])),
    },
)
def test_a_file_that_gzip_packed_is_read(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    assert names(tmp_path / name) == names(tmp_path) == ["a"]


@cases(
    ("data", "message"),
    {
        "cut off": (gzip.compress(PLAIN)[:-9], "not valid gzip: the file is cut off"),
        "broken": (b"\x1f\x8b" + b"x" * 30, "not valid gzip"),
        "larger than the limit once it is unpacked": (gzip.compress(b" " * 2**20), "larger than 1000 bytes"),
    },
)
def test_a_packed_file_that_cannot_be_read(tmp_path, data, message):
    (tmp_path / "f.yaml.gz").write_bytes(data)
    assert message in error_of(tmp_path / "f.yaml.gz", limits=ManifestLimits(file_bytes=1000))


def test_an_address_has_a_remedy():
    assert "curl -sSfL ADDRESS | berthmaster ... -f -" in error_of("https://example.com/f.yaml")
