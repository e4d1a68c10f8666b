"""English, and Chinese beneath."""

from patchwords.pages.both import Both, chinese, said


def test_english_comes_first_and_chinese_says_that_it_is_chinese() -> None:
    assert said(Both("A patch", "图像块")) == ["<p>A patch</p>", '<p class="chinese" lang="zh-CN">图像块</p>']


def test_chinese_begins_with_what_the_thing_is_called() -> None:
    english, beneath = said(Both("A patch", "图像块"), called="滤波器")
    assert english == "<p>A patch</p>"
    assert beneath == chinese("图像块", "滤波器")
    assert beneath == '<p class="chinese" lang="zh-CN"><b>滤波器</b>\N{IDEOGRAPHIC SPACE}图像块</p>'


def test_neither_can_write_the_page() -> None:
    assert "<i>" not in "".join(said(Both("<i>", "<i>"), called="<i>"))
