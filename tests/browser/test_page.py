"""The page of the service in a browser: every way in, both languages, mouse, keys and fingers, no foreign request."""

# ruff: noqa: RUF001  (Chinese has commas of its own)

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from patchwords.pages.wording import percent
from patchwords.serve.examine import attention, examine
from patchwords.serve.page.assets import assets
from patchwords.serve.predictor import Predictor

from .conftest import CLASSES, HOSTILE, TOKEN, WAIT, Visit

Opening = Callable[..., Visit]

NAME = (
    "(({ id, name }, role) => id || role || name)(document.activeElement, document.activeElement.getAttribute('role'))"
)


@pytest.fixture(scope="module")
def predictor(model: Callable[[str], Path]) -> Predictor:
    return Predictor(model("plain"), device="cpu")


def looks(predictor: Predictor, photo: Path, layer: int, head: int, row: int, col: int) -> str:
    """What the page should say of a patch."""
    values = attention(predictor, predictor.see(photo), layer, head, (row, col))[0]
    best = int(values.argmax())
    to_row, to_col = best // 3 + 1, best % 3 + 1
    where = "itself" if (to_row, to_col) == (row, col) else f"row {to_row}, column {to_col}"
    return f"Row {row}, column {col} looks mostly at {where} ("


def point(visit: Visit, map: str, row: int, col: int) -> None:
    """Moves the mouse over a patch of the 4 by 3."""
    box = visit.page.locator(f"{map} .frame" if map != "#words" else map).bounding_box()
    visit.page.mouse.move(box["x"] + box["width"] * (col - 0.5) / 3, box["y"] + box["height"] * (row - 0.5) / 4)


def test_an_uploaded_picture_is_answered_and_shown(
    visit: Opening, service: str, photo: Path, predictor: Predictor
) -> None:
    found = visit(service)
    found.give(photo)
    expected = examine(predictor, predictor.see(photo), "a").prediction.top(5)
    assert found.page.locator("#answers bdi").all_inner_texts() == [each.label for each in expected]
    shares = found.page.locator("#answers li span").all_inner_texts()
    assert [share.replace("\u00a0", " ") for share in shares] == [
        percent(each.probability).replace("\u00a0", " ") for each in expected
    ]
    assert found.text("#called") == photo.name
    assert "32×24 pixels, 4×3 patches, 2 layers of 2 heads, 5 classes" in found.text("#about")
    assert found.text("#looks").startswith(looks(predictor, photo, 1, 0, 3, 2))
    assert sorted(found.asked[-3:]) == ["GET /positions", "POST /attention", "POST /examine"]


def test_names_of_classes_and_files_stay_text(visit: Opening, service: str, photo: Path) -> None:
    found = visit(service)
    found.give(photo)
    assert HOSTILE in found.page.locator("#answers bdi").all_inner_texts()
    assert found.page.locator("#answers img, #called b").count() == 0


def test_samples_drops_and_pastes_are_ways_in(visit: Opening, service: str) -> None:
    found = visit(service)
    found.page.click("#samples button >> nth=1")
    found.settled()
    assert found.text("#called") == "Tulip"
    shown = found.pixels("#words canvas")
    data = base64.b64encode(assets()["daisy.png"].data).decode()
    for event, holder in (("drop", "dataTransfer"), ("paste", "clipboardData")):
        found.page.evaluate(
            """([event, holder, data]) => {
                const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
                const transfer = new DataTransfer();
                transfer.items.add(new File([bytes], `${event}.png`, { type: "image/png" }));
                const Kind = { drop: DragEvent, paste: ClipboardEvent }[event];
                document.dispatchEvent(new Kind(event, { bubbles: true, cancelable: true, [holder]: transfer }));
            }""",
            [event, holder, data],
        )
        found.page.wait_for_function(
            "before => document.querySelector('#words canvas').toDataURL() !== before", arg=shown
        )
        found.settled()
        assert found.text("#called") == f"{event}.png"
        found.page.click("#samples button >> nth=1")
        found.page.wait_for_function(
            "before => document.querySelector('#words canvas').toDataURL() === before", arg=shown
        )
        found.settled()


def test_pointing_at_a_patch_shows_what_it_attends_to_without_asking(
    visit: Opening, service: str, photo: Path, predictor: Predictor
) -> None:
    found = visit(service)
    found.give(photo)
    asked = list(found.asked)
    seen = set()
    for map, row, col in (("#words", 1, 1), ("#attention", 4, 3), ("#map", 2, 1), ("#positions", 1, 3)):
        found.page.locator(map).scroll_into_view_if_needed()
        point(found, map, row, col)
        assert found.text("#looks").startswith(looks(predictor, photo, 1, 0, row, col))
        left = found.page.evaluate("parseFloat(document.querySelector('#map .marker').style.left)")
        assert left == pytest.approx(100 * (col - 1) / 3, abs=0.01)
        seen.add((found.pixels("#attention canvas"), found.pixels("#positions canvas")))
    assert len({attended for attended, _ in seen}) == len({alike for _, alike in seen}) == 4
    assert found.asked == asked


def test_the_light_is_where_the_patch_looks(visit: Opening, service: str, predictor: Predictor, tmp_path: Path) -> None:
    """On a white picture the light is all there is to see."""
    white = tmp_path / "white.png"
    Image.new("RGB", (24, 32), "white").save(white)
    found = visit(service)
    found.give(white)
    point(found, "#words", 2, 3)
    values = attention(predictor, predictor.see(white), 1, 0, (2, 3)).reshape(4, 3)
    light = found.page.evaluate(
        """() => {
            const canvas = document.querySelector("#attention canvas");
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            const middle = (place, of, long) => Math.floor(((place + 0.5) * long) / of);
            const [down, right] = [canvas.width, 1];
            const at = (row, col) => middle(row, 4, canvas.height) * down + middle(col, 3, canvas.width) * right;
            return [0, 1, 2, 3].map((row) => [0, 1, 2].map((col) => data[4 * at(row, col)]));
        }"""
    )
    expected = 255 * (0.22 + 0.78 * np.sqrt(values / values.max()))
    assert np.abs(np.array(light) - expected).max() < 2


def test_each_layer_and_head_is_asked_for_once(visit: Opening, service: str, photo: Path, predictor: Predictor) -> None:
    found = visit(service)
    found.give(photo)
    point(found, "#words", 1, 2)
    before = found.asked.count("POST /attention")
    for layer, head in ((1, 1), (1, 2), (2, 2), (2, 1), (1, 1), (2, 2)):
        found.page.locator("#layer").fill(str(layer))
        found.page.locator(f"#heads input >> nth={head}").check()
        canvas = found.page.locator(f"#attention canvas[data-shown='{layer}.{head}.1']:not(.waiting)")
        canvas.wait_for(timeout=WAIT)
        assert found.text("#looks").startswith(looks(predictor, photo, layer, head, 1, 2))
        assert found.text("#far").startswith(f"Layer {layer}, head {head}: ")
    assert found.asked.count("POST /attention") - before <= 5  # the four, and the mean of the second layer on the way


def test_a_dot_of_the_plot_chooses_its_head(visit: Opening, service: str, photo: Path) -> None:
    found = visit(service)
    found.give(photo)
    assert found.page.locator("#distances .dot").count() == 4
    found.page.locator("#distances .dot:not(.chosen) >> nth=0").click(force=True)
    assert found.text("#layer-number") == "2"
    assert found.page.locator("#distances .dot.chosen").count() == 1


def test_only_the_last_choice_is_shown(visit: Opening, service: str, photo: Path) -> None:
    """An answer that comes late, for what nobody waits for any more, changes nothing."""
    found = visit(service)
    found.give(photo)
    found.page.locator("#heads input >> nth=1").check()
    found.page.locator("#heads input >> nth=2").check()
    found.page.locator("#attention canvas[data-shown^='1.2.']").wait_for(timeout=WAIT)
    found.settled()
    assert found.page.get_attribute("#attention canvas", "data-shown").startswith("1.2.")


def test_the_keyboard_reaches_everything(visit: Opening, service: str, photo: Path, predictor: Predictor) -> None:
    found = visit(service)
    found.give(photo)
    page = found.page
    reached = []
    page.evaluate("document.activeElement.blur()")
    for _ in range(24):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(NAME))
    assert {"models", "file", "gridcell", "layer", "head"} <= set(reached)
    page.locator("[role=gridcell][tabindex='0']").focus()
    walk = [("ArrowUp", 2, 2), ("ArrowRight", 2, 3), ("ArrowRight", 2, 3), ("Home", 2, 1), ("PageDown", 4, 1)]
    for key, row, col in [*walk, ("Control+Home", 1, 1), ("ArrowLeft", 1, 1), ("ArrowDown", 2, 1), ("End", 2, 3)]:
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == f"row {row}, column {col}"
        assert found.text("#looks").startswith(looks(predictor, photo, 1, 0, row, col))
    assert page.locator("[role=gridcell][tabindex='0']").count() == 1
    spoken = "text => document.getElementById('spoken').textContent.endsWith(text)"
    page.wait_for_function(spoken, arg=found.text("#looks"), timeout=WAIT)


def test_the_answer_is_spoken(visit: Opening, service: str, photo: Path, predictor: Predictor) -> None:
    found = visit(service)
    found.give(photo)
    label = predictor.predict(photo).label
    spoken = "text => document.getElementById('spoken').textContent.startsWith(text)"
    found.page.wait_for_function(spoken, arg=f"{label}: ", timeout=WAIT)


def test_focus_can_be_seen(visit: Opening, service: str, photo: Path) -> None:
    found = visit(service)
    found.give(photo)
    found.page.keyboard.press("Tab")
    for _ in range(22):
        found.page.keyboard.press("Tab")
        outlined = found.page.evaluate(
            """() => {
                const here = document.activeElement;
                const shown = [here, here.nextElementSibling, here.closest(".frame")].filter(Boolean);
                return here === document.body || shown.some((one) => getComputedStyle(one).outlineStyle === "solid");
            }"""
        )
        assert outlined, found.page.evaluate("document.activeElement.outerHTML.slice(0, 200)")


def test_both_languages_say_everything(visit: Opening, service: str, photo: Path) -> None:
    found = visit(service)
    found.give(photo)

    def said() -> str:
        return "\n".join(map(found.text, ("header", ".opening", "#intake", "#about", "#exhibit", "footer")))

    english = said()
    found.page.click("[data-language=zh]")
    chinese = said()
    assert found.page.get_attribute("html", "lang") == "zh-CN"
    assert "第 3 行第 2 列最关注" in found.text("#looks")
    for word in ("图像块", "注意力", "位置编码", "模型的回答"):
        assert word in chinese
    names = {photo.name, "flowers", "daisy", *CLASSES}
    left = [line for line in english.splitlines() if line in chinese.splitlines() and line.strip() not in names]
    assert [line for line in left if len(line.split()) > 2 and line.isascii()] == []
    found.page.click("[data-language=en]")
    assert said() == english


def test_a_chinese_browser_is_greeted_in_chinese(visit: Opening, service: str) -> None:
    found = visit(service, locale="zh-CN")
    assert found.text("h1") == "一张图像，抵得上 16×16 个词"
    assert "图像" in found.page.title()


CONTRAST = """() => {
    const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const bright = (colour) => numbers(colour).slice(0, 3).map((part) => part / 255)
        .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
        .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (element) => {
        const colour = getComputedStyle(element).backgroundColor;
        return (numbers(colour)[3] ?? 1) > 0 ? colour : ground(element.parentElement);
    };
    const poor = [];
    for (const element of document.querySelectorAll("body *")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || !element.checkVisibility() || element.closest(".unseen, .skip, svg, script")) continue;
        const [light, dark] = [bright(getComputedStyle(element).color), bright(ground(element))].sort((a, b) => b - a);
        if ((light + 0.05) / (dark + 0.05) < 4.5) poor.push(element.outerHTML.slice(0, 90));
    }
    return poor;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_in_both_lights(visit: Opening, service: str, photo: Path, theme: str) -> None:
    """4.5 to 1, WCAG's AA; as the system wishes, and as the switch says."""
    found = visit(service, color_scheme=theme)
    found.give(photo)
    paper = "getComputedStyle(document.body).backgroundColor"
    by_system = found.page.evaluate(paper)
    assert found.page.evaluate(CONTRAST) == []
    other = "dark" if theme == "light" else "light"
    found.page.click(f"button[data-theme={other}]")
    assert found.page.evaluate(paper) != by_system
    assert found.page.evaluate(CONTRAST) == []
    found.page.click("button[data-theme=auto]")
    assert found.page.evaluate(paper) == by_system


@pytest.mark.parametrize("width", [320, 390, 768])
def test_it_fits_a_phone_and_a_finger_points(
    visit: Opening, service: str, photo: Path, predictor: Predictor, width: int
) -> None:
    found = visit(service, viewport={"width": width, "height": 700}, has_touch=True, is_mobile=True)
    found.give(photo)
    assert found.page.evaluate("document.documentElement.scrollWidth") <= width
    frame = found.page.locator("#attention .frame")
    frame.scroll_into_view_if_needed()
    box = frame.bounding_box()
    found.page.touchscreen.tap(box["x"] + box["width"] * 0.84, box["y"] + box["height"] * 0.13)
    found.page.wait_for_function("document.querySelector('#attention canvas').dataset.shown.endsWith('.2')")
    assert found.text("#looks").startswith(looks(predictor, photo, 1, 0, 1, 3))


def test_a_model_of_another_kind_shows_what_it_has(visit: Opening, service: str, photo: Path) -> None:
    found = visit(service)
    found.give(photo)
    for name, shown, lack in (
        ("evidence", ["map"], "no attention between all patches"),
        ("nothing", [], "cannot show where it looks"),
        ("stripes", ["map", "attention", "positions", "distances"], ""),
    ):
        found.page.select_option("#models", name)
        found.page.wait_for_function("name => document.getElementById('about').textContent.startsWith(name)", arg=name)
        found.settled()
        ids = found.page.locator(".maps section").evaluate_all(
            "all => all.filter((one) => one.checkVisibility()).map((one) => one.id)"
        )
        assert sorted(ids) == sorted(shown)
        assert lack in (found.text("#lack") if lack else "")
        assert found.page.locator("#answers li").count() == 5


def test_what_cannot_be_used_is_said_and_the_next_picture_works(
    visit: Opening, service: str, photo: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(photo.read_bytes()[:60])
    found = visit(service)
    found.page.set_input_files("#file", broken)
    found.page.wait_for_selector("#trouble:not([hidden])", timeout=WAIT)
    assert len(found.text("#trouble")) > 20
    found.give(photo)
    assert not found.page.is_visible("#trouble")
    assert [text for text in found.said if "400" not in text] == []
    found.said.clear()  # the browser itself notes an answer of 400


@pytest.mark.parametrize(("locale", "said"), [("en", "choose another one"), ("zh-CN", "请换一张")])
def test_an_earlier_answer_does_not_stand_beside_a_picture_that_was_refused(
    visit: Opening, service: str, photo: Path, tmp_path: Path, locale: str, said: str
) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(photo.read_bytes()[:60])
    found = visit(service, locale=locale)
    found.give(photo)
    for turn in range(2):  # another model is asked about the same picture
        found.page.select_option("#models", index=turn)
        found.page.set_input_files("#file", broken)
        found.page.wait_for_selector("#trouble:not([hidden])", timeout=WAIT)
        assert said in found.text("#trouble")
        assert not found.page.is_visible("#exhibit")
        assert found.text("#about") == ""
        found.page.keyboard.press("ArrowRight")
    found.give(photo)
    assert found.page.is_visible("#answers li")
    assert found.page.is_visible("#about")
    assert [text for text in found.said if "400" not in text] == []
    found.said.clear()  # the browser itself notes an answer of 400


@pytest.mark.parametrize("late", ["positions", "attention"])
def test_what_comes_late_for_an_earlier_picture_hides_no_refusal(
    visit: Opening, service: str, photo: Path, tmp_path: Path, late: str
) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(photo.read_bytes()[:60])
    found = visit(service)
    held: list[Any] = []
    found.page.route(f"**/{late}?*", lambda route: held.append(route))
    with found.page.expect_request(f"**/{late}?*"):
        found.page.set_input_files("#file", photo)
    found.page.set_input_files("#file", broken)
    found.page.wait_for_selector("#trouble:not([hidden])", timeout=WAIT)
    with found.page.expect_response(f"**/{late}?*"):
        held[0].continue_()
    found.page.wait_for_selector("body:not(.busy)", timeout=WAIT)
    assert found.page.is_visible("#trouble")
    assert "choose another one" in found.text("#trouble")
    assert not found.page.is_visible("#exhibit")
    assert [text for text in found.said if "400" not in text] == []
    found.said.clear()  # the browser itself notes an answer of 400


def test_an_answer_that_is_given_up_half_way_is_no_answer(visit: Opening, service: str, photo: Path) -> None:
    """The first examination answers without an end, until it is given up for the second one."""
    found = visit(service)
    found.page.evaluate(
        """() => {
            const real = window.fetch;
            window.fetch = async (address, options) => {
                if (!address.startsWith("examine")) return real(address, options);
                window.fetch = real;
                const { signal } = options;
                const start = (body) => signal.addEventListener("abort", () => body.error(signal.reason));
                return new Response(new ReadableStream({ start }));
            };
            window.theirs = real;
        }"""
    )
    found.page.set_input_files("#file", photo)
    found.page.wait_for_function("window.fetch === window.theirs")
    found.give(photo)
    assert found.page.is_visible("#answers li")
    assert not found.page.is_visible("#trouble")
    assert "GET /undefined" not in found.asked


def test_a_service_with_a_token_asks_for_it_and_keeps_it_nowhere(visit: Opening, locked: str, photo: Path) -> None:
    found = visit(locked)
    found.page.wait_for_selector("#door:not([hidden])", timeout=WAIT)
    found.page.fill("#token", "wrong")
    found.page.keyboard.press("Enter")
    found.page.wait_for_selector("#trouble:not([hidden])", timeout=WAIT)
    assert found.text("#trouble") == "That was not the token."
    found.page.fill("#token", TOKEN)
    found.page.keyboard.press("Enter")
    found.page.wait_for_selector("#door", state="hidden", timeout=WAIT)
    found.give(photo)
    kept = found.page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
    )
    assert TOKEN not in kept
    assert [text for text in found.said if "401" not in text] == []
    found.said.clear()  # the browser itself notes an answer of 401
