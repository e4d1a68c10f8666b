"""The page is made of what the package holds, and of nothing from outside."""

import re
from html.parser import HTMLParser
from pathlib import Path

import patchwords.serve.page
from patchwords.serve.page.assets import CSS, JS, MODULES, PNG, assets, index, text
from patchwords.serve.page.samples import SAMPLES

FOLDER = Path(patchwords.serve.page.__file__).parent
ROOT = Path(patchwords.__file__).parents[1]


class Reader(HTMLParser):
    """Tags and their attributes."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def words(language: str) -> dict[str, str]:
    """What words.js says in a language."""
    body = text("words.js").split(f"  {language}: {{\n")[1].split("\n  },")[0]
    return dict(re.findall(r'^    (\w+): "(.*)",$', body, flags=re.MULTILINE))


def test_every_file_that_lies_here_is_in_the_table_or_in_the_single_file() -> None:
    lying = {path.name for path in FOLDER.iterdir() if path.suffix in (".js", ".css")}
    given = {name for name, asset in assets().items() if asset.kind in (CSS, JS)}
    assert lying - given == {"kept.js"}


def test_all_that_the_page_and_its_scripts_name_is_in_the_table() -> None:
    named = re.findall(r'(?:src|href)="page/([^"]+)"', text("index.html"))
    named += [name for module in MODULES for name in re.findall(r'from "\./(.+?)"', text(module))]
    named += [f"{name}.png" for name in re.findall(r'"(\w+)"', text("intake.js").split("SAMPLES = [")[1].split("]")[0])]
    assert set(named) == set(assets())


def test_samples_are_pictures() -> None:
    found = assets()
    assert all(found[f"{name}.png"].kind == PNG for name in SAMPLES)


def test_nothing_is_inline_that_the_policy_would_refuse() -> None:
    tags = Reader(index().data.decode()).tags
    assert not [tag for tag, attributes in tags if tag == "style" or "style" in attributes]
    assert all(attributes.get("src") for tag, attributes in tags if tag == "script")
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]


def test_no_script_and_no_style_names_another_place_or_writes_markup() -> None:
    for name in [*MODULES, "kept.js", "page.css", "index.html"]:
        addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", text(name)))
        assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of SVG, which nobody fetches
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Storage|@import|url\(", text(name)
        )


def test_both_languages_say_the_same_things() -> None:
    english, chinese = words("en"), words("zh")
    assert english.keys() == chinese.keys()
    for key, said in english.items():
        assert set(re.findall(r"\{\w+\}", said)) == set(re.findall(r"\{\w+\}", chinese[key])), key


def test_everything_the_page_says_has_its_words() -> None:
    tags = Reader(index().data.decode()).tags
    said = {attributes[key] for _, attributes in tags for key in ("data-word", "data-label") if key in attributes}
    assert said <= words("en").keys()
    for module in MODULES:
        assert set(re.findall(r'\bsay\("(\w+)"', text(module))) <= words("en").keys()


def test_the_chinese_readme_begins_with_the_title_of_the_page() -> None:
    assert f"*{words('zh')['title']}。*" in (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")


def test_chinese_is_chinese() -> None:
    technical = ("注意力", "图像块", "位置编码", "类别标记")
    whole = "".join(words("zh").values())
    assert all(term in whole for term in technical)
    assert not re.search(r"[\u4e00-\u9fff],|,[\u4e00-\u9fff]", whole)  # commas of its own
