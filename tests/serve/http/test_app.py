"""The routes: the answers of `predict` over HTTP, and a sentence with a status for everything else."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from patchwords.errors import ModelError
from patchwords.serve import examine
from patchwords.serve.http.answers import represented
from patchwords.serve.http.front import HEADERS
from patchwords.serve.http.guard import Guard
from patchwords.serve.http.limits import Limits
from patchwords.serve.http.service import Service
from patchwords.serve.page.assets import assets
from patchwords.serve.predictor import Predictor
from patchwords.weights.subject import Subject

Send = Callable[..., Any]
TOKEN = Guard(host="127.0.0.1", port=8000, token="0123456789abcdef")
HOSTILE = ("<script>alert(1)</script>", '"}\n', "a\udc80b", "\u202egnp", "é" * 300)


def test_predict_is_equal_to_the_predictor_whatever_the_kind_of_picture(
    send: Send, predictor: Predictor, kinds: dict[str, bytes]
) -> None:
    """Promise 16, through serve."""
    for data in kinds.values():
        answer = send("POST", "/predict?top=3", data).json
        wanted = predictor.predict(data).top(3)
        assert [each["label"] for each in answer["predictions"]] == [label for label, _ in wanted]
        assert [each["probability"] for each in answer["predictions"]] == pytest.approx([share for _, share in wanted])
        assert answer["model"] == "plain"
        assert answer["milliseconds"] > 0


def test_a_picture_may_come_in_pieces_and_without_a_length(send: Send, kinds: dict[str, bytes]) -> None:
    data = kinds["rgb.png"]
    whole = send("POST", "/predict", data).json["predictions"]
    parts = send(
        "POST", "/predict", data[:9], data[9:500], data[500:], content_length="none", transfer_encoding="chunked"
    )
    assert parts.json["predictions"] == whole


def test_the_representation_is_what_the_classifier_sees(
    send: Send, predictor: Predictor, kinds: dict[str, bytes]
) -> None:
    found = send("POST", "/embed?model=plain", kinds["rgb.jpg"]).json
    wanted = represented(predictor, predictor.see(kinds["rgb.jpg"]))
    assert found == {"model": "plain", "width": 32, "embedding": pytest.approx(wanted.tolist(), abs=1e-6)}


def test_an_examination_an_attention_map_and_the_positions(
    send: Send, predictor: Predictor, kinds: dict[str, bytes]
) -> None:
    seen = predictor.see(kinds["rgb.jpg"])
    found = send("POST", "/examine?top=2", kinds["rgb.jpg"]).json
    assert found == {"model": "plain", **examine.table(examine.examine(predictor, seen, "picture"), 2)}
    found = send("POST", "/attention?layer=2&head=0&row=1&column=3", kinds["rgb.jpg"]).json
    wanted = examine.packed(examine.attention(predictor, seen, 2, 0, (1, 3)))
    assert found == {"model": "plain", "layer": 2, "head": 0, "attention": wanted}
    positions = examine.positions(predictor)
    assert positions is not None
    assert send("GET", "/positions").json == {"model": "plain", "positions": examine.packed(positions)}


def test_the_models_are_told(send: Send, predictor: Predictor) -> None:
    assert send("GET", "/models").json == {"models": [{**examine.described(predictor), "name": "plain"}]}


@pytest.mark.parametrize(
    ("method", "address", "status", "reason"),
    [
        ("POST", "/predict?top=0", 400, "top '0' is no whole number"),
        ("POST", "/predict?url=http://evil.example/a.jpg", 400, "'url' is no parameter here"),
        ("POST", "/predict?model=other", 404, "there is no model 'other'; did you mean"),
        ("POST", "/models/other", 404, "there is no model"),
        ("POST", "/attention?head=1", 400, "layer is missing"),
        ("POST", "/attention?layer=9&head=1", 400, "9"),
        ("POST", "/attention?layer=1&head=1&row=1", 400, "belong together"),
        ("GET", "/predict", 405, "takes POST"),
        ("POST", "/healthz", 405, "takes GET, HEAD"),
        ("TRACE", "/", 405, "takes GET, HEAD"),
        ("GET", "/nothing", 404, "nothing at '/nothing'"),
        ("GET", "/predict/", 404, "nothing at"),
        ("GET", "/page/../app.py", 404, "nothing at"),
        ("GET", "/page/..", 404, "no file"),
        ("GET", "/page//etc/passwd", 404, "nothing at"),
        ("GET", "//evil.example", 404, "nothing at"),
        ("GET", "http://evil.example/", 404, "nothing at"),
    ],
)
def test_what_cannot_be_is_a_status_and_a_sentence(
    send: Send, kinds: dict[str, bytes], method: str, address: str, status: int, reason: str
) -> None:
    heard = send(method, address, kinds["rgb.jpg"])
    assert heard.status == status
    assert reason.replace("did you mean", "") in heard.json["error"].replace("there are plain", "")
    assert heard.headers["content-type"] == "application/json"


def test_what_is_no_picture_is_refused_with_the_reason(send: Send, kinds: dict[str, bytes]) -> None:
    """Promise 27."""
    for data, reason in ((b"x" * 99, "none of JPEG"), (kinds["rgb.png"][:200], "cannot be decoded")):
        heard = send("POST", "/predict", data)
        assert heard.status == 400
        assert reason in heard.json["error"]


def test_every_answer_has_the_headers_that_keep_pages_apart(send: Send, kinds: dict[str, bytes]) -> None:
    """Promise 29."""
    for heard in (
        *(send("GET", "/"), send("GET", "/docs"), send("GET", "/healthz"), send("POST", "/predict", kinds["rgb.jpg"])),
        *(send("GET", "/nothing"), send("GET", "/models", host="evil.example"), send("POST", "/predict", b"x")),
    ):
        assert {name.lower(): text for name, text in HEADERS.items()}.items() <= heard.headers.items()
        assert not {"server", "access-control-allow-origin", "set-cookie", "location"} & heard.headers.keys()


def test_foreign_names_and_pages_are_turned_away_before_anything_is_read(send: Send) -> None:
    assert send("POST", "/predict", b"x", host="evil.example").status == 421
    assert send("POST", "/predict", b"x", host="none").status == 421
    assert send("POST", "/predict", b"x", origin="http://evil.example").status == 403
    assert send("OPTIONS", "/predict", origin="http://evil.example").status == 403


def test_with_a_token_only_the_page_the_routes_and_the_health_are_open(send: Send, kinds: dict[str, bytes]) -> None:
    for address in ("/", "/page/page.css", "/healthz", "/docs", "/docs.css", "/openapi.json"):
        assert send("GET", address, guard=TOKEN).status == 200
    for method, address in (("GET", "/models"), ("GET", "/metrics"), ("GET", "/positions"), ("POST", "/predict")):
        heard = send(method, address, kinds["rgb.jpg"], guard=TOKEN)
        assert (heard.status, heard.headers["www-authenticate"]) == (401, "Bearer")
    assert send("POST", "/predict", kinds["rgb.jpg"], guard=TOKEN, authorization=f"Bearer {TOKEN.token}").status == 200


def test_the_page_and_its_files_come_from_a_table(send: Send) -> None:
    heard = send("GET", "/")
    assert heard.headers["content-type"].startswith("text/html")
    for name, asset in assets().items():
        heard = send("GET", f"/page/{name}")
        assert (heard.status, heard.body, heard.headers["content-type"]) == (200, asset.data, asset.kind)


def test_the_page_of_routes_names_each_and_asks_nobody_else(send: Send) -> None:
    text = send("GET", "/docs").body.decode()
    for path in send("GET", "/openapi.json").json["paths"]:
        assert path in text
    assert "<script" not in text
    assert " style=" not in text
    assert set(re.findall(r'(?:href|src)="([^"]*)"', text)) == {"docs.css", "openapi.json", "./", "data:,"}
    assert send("GET", "/docs.css").headers["content-type"].startswith("text/css")


def test_health_runs_the_model_and_says_what_is_wrong_with_it(send: Send, service: Service) -> None:
    """Promise 32."""
    assert send("GET", "/healthz").json == {"status": "ok", "models": {"plain": "ok"}}
    before = service.shelf["plain"].predictor.function

    def broken(images: object) -> None:
        raise ModelError("it broke")

    service.shelf["plain"].predictor.function = broken  # type: ignore[assignment]
    heard = send("GET", "/healthz")
    assert (heard.status, heard.json) == (503, {"status": "failing", "models": {"plain": "it broke"}})
    service.shelf["plain"].predictor.function = before
    service.leaving = True
    heard = send("GET", "/healthz")
    assert (heard.status, heard.json["status"]) == (503, "leaving")
    assert heard.headers["connection"] == "close"


def test_a_model_that_hangs_is_not_healthy(send: Send, service: Service) -> None:
    object.__setattr__(service.limits, "check", 0.05)
    import threading

    gate = threading.Event()
    service.shelf["plain"].questions.put(gate.wait)
    heard = send("GET", "/healthz")
    gate.set()
    assert heard.status == 503
    assert "did not answer within 0.05 seconds" in heard.json["models"]["plain"]


def test_a_bug_is_a_number_that_stands_in_the_log_too(
    send: Send, service: Service, kinds: dict[str, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(images: object) -> None:
        raise AttributeError("of our own making")

    service.shelf["plain"].predictor.function = broken  # type: ignore[assignment]
    heard = send("POST", "/predict", kinds["rgb.jpg"])
    assert heard.status == 500
    assert "of our own making" not in heard.json["error"]
    number = re.search(r"number (\w{8}) in the service's log", heard.json["error"])
    assert number is not None
    assert number[1] in caplog.text
    assert "of our own making" in caplog.text


def test_numbers_are_counted(send: Send, kinds: dict[str, bytes]) -> None:
    for _ in range(3):
        send("POST", "/predict", kinds["rgb.jpg"])
    send("BREW", "/coffee")
    heard = send("GET", "/metrics")
    lines = heard.body.decode().splitlines()
    assert heard.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'patchwords_requests_total{route="/predict",method="POST",status="200"} 3' in lines
    assert 'patchwords_requests_total{route="none",method="other",status="404"} 1' in lines
    assert 'patchwords_batch_pictures_count{model="plain"} 3' in lines
    assert 'patchwords_taken{room="bodies"} 0' in lines
    assert 'patchwords_queue_pictures{model="plain"} 0' in lines
    assert any(re.fullmatch(r"process_resident_memory_bytes [1-9]\d{7,}", line) for line in lines)


def test_classes_may_be_called_anything(
    subject: Callable[..., Subject], send: Send, service: Service, kinds: dict[str, bytes]
) -> None:
    """Promise 31."""
    other = Service({"plain": Predictor(subject(classes=HOSTILE), device="cpu")})
    other.start()
    service.shelf, service.turns = other.shelf, other.turns
    service.decoders.shutdown()
    service.decoders = other.decoders
    for method, address in (("POST", "/predict"), ("POST", "/models/plain"), ("POST", "/examine"), ("GET", "/models")):
        heard = send(method, address, kinds["rgb.jpg"])
        assert heard.status == 200
        body = heard.body.decode("utf-8")
        assert all(json.dumps(name)[1:-1] in json.dumps(json.loads(body)) for name in HOSTILE)
        assert "\n" not in body


def test_where_there_are_several_models_one_must_be_named(
    subject: Callable[..., Subject], send: Send, service: Service, predictor: Predictor, kinds: dict[str, bytes]
) -> None:
    other = Service({"plain": predictor, "mean": Predictor(subject("mean"), device="cpu")})
    other.start()
    service.shelf, service.turns, service.decoders = other.shelf, other.turns, other.decoders
    heard = send("POST", "/predict", kinds["rgb.jpg"])
    assert heard.status == 400
    assert "say which" in heard.json["error"]
    found = {name: send("POST", f"/predict?model={name}", kinds["rgb.jpg"]).json for name in ("plain", "mean")}
    assert found["plain"]["model"] == "plain"
    assert found["plain"]["predictions"] != found["mean"]["predictions"]
    assert send("GET", "/healthz").json["models"] == {"plain": "ok", "mean": "ok"}


def test_a_full_queue_refuses_before_the_picture_is_sent(send: Send, service: Service, kinds: dict[str, bytes]) -> None:
    """Promise 28."""
    service.pictures.take(service.limits.pictures)
    heard = send("POST", "/predict", kinds["rgb.jpg"])
    assert (heard.status, heard.headers["retry-after"]) == (429, "1")
    assert heard.headers["connection"] == "close"
    service.pictures.give(service.limits.pictures)
    service.questions.take(service.limits.questions)
    assert send("POST", "/examine", kinds["rgb.jpg"]).status == 429
    assert send("POST", "/predict", kinds["rgb.jpg"]).status == 200


def test_places_are_given_back_however_it_ends(send: Send, service: Service, kinds: dict[str, bytes]) -> None:
    for data in (kinds["rgb.jpg"], b"no picture", bytes(Limits().body + 1), b""):
        for address in ("/predict", "/examine", "/embed", "/models/plain"):
            send("POST", address, data)
    assert (service.pictures.taken, service.questions.taken, service.bodies.taken) == (0, 0, 0)
    assert service.tally.now == 0
    assert service.shelf["plain"].pictures.coming == 0


def test_pictures_of_one_client_do_not_wait_for_others(send: Send, service: Service, kinds: dict[str, bytes]) -> None:
    answers = np.array([send("POST", "/predict", kinds["rgb.jpg"]).json["milliseconds"] for _ in range(20)])
    assert np.median(answers) < 1000 * 0.2
