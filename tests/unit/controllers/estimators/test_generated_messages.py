"""The committed code is what the tools of protobuf generate from the description."""

from pathlib import Path

from conftest import ROOT
from grpc_tools import protoc

DESCRIPTION = "berthmaster/controllers/estimators/estimator.proto"


def test_the_generated_code_is_up_to_date(tmp_path):
    assert protoc.main(["protoc", f"--proto_path={ROOT}", f"--python_out={tmp_path}", str(ROOT / DESCRIPTION)]) == 0
    name = Path(DESCRIPTION).with_name("estimator_pb2.py")
    assert (tmp_path / name).read_text() == (ROOT / name).read_text(), "run `make protobuf`"
